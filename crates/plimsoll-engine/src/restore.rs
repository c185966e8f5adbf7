//! Saving the state of limits, and restoring it in another process.

use std::sync::Arc;

use arc_swap::Guard;
use plimsoll_config::{Restore as Limiters, Saved};

use crate::limits::Limits;
use crate::plan::Plan;

/// Restores [saved](Limits::save) state, one record at a time. [`Limits::restore`] returns it.
#[derive(Debug)]
pub struct Restore<'a> {
    limiters: Limiters<'a>,
    plan: Arc<Plan>,
    /// The limit and the terms of the tier whose keys follow.
    tier: Option<(usize, usize)>,
}

impl Restore<'_> {
    /// Restores one record. Returns false if the file no longer has the limit of the record.
    pub fn put(&mut self, saved: Saved) -> bool {
        match &saved {
            Saved::Keys { limiter, .. } => self.tier = self.plan.tier_by_id(limiter),
            Saved::Last(key) => {
                if let Some((limit, terms)) = self.tier {
                    self.plan.limits[limit].note_last(key, terms);
                }
            }
            _ => {}
        }
        self.limiters.put(saved)
    }
}

impl Limits {
    /// Calls `see` with each record of the state of limits in memory: that of their
    /// [limiters](plimsoll_config::Limits::save), and the last tier of each key. Another process [restores](Self::restore) it.
    ///
    /// # Errors
    ///
    /// Returns the first error of `see`, after which no more records follow.
    pub fn save<E>(&self, mut see: impl FnMut(Saved) -> Result<(), E>) -> Result<(), E> {
        let plan = self.plan();
        let mut tier = None;
        self.limiters().save(|saved| {
            if let Saved::Keys { limiter, .. } = &saved {
                tier = plan.tier_by_id(limiter);
            }
            let last = match (&saved, tier) {
                (Saved::Key(key, _), Some((limit, terms))) => {
                    let last = plan.limits[limit].is_last(key, terms);
                    last.then(|| Saved::Last(key.clone()))
                }
                _ => None,
            };
            see(saved)?;
            last.map_or(Ok(()), &mut see)
        })
    }

    /// Restores [saved](Self::save) state. The limits must have been built with [`Config::build_saved`].
    ///
    /// [`Config::build_saved`]: plimsoll_config::Config::build_saved
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_engine::{Ask, Config, Limits};
    ///
    /// let text = "limits: { mail: { rate: 2/day, key: client } }";
    /// let before = Limits::from_yaml(text)?;
    /// assert!(before.try_decide(&[Ask::new("mail").key("anna").cost(2)]).is_ok());
    /// let mut saved = Vec::new();
    /// before.save(|it| Ok::<(), ()>(saved.push(it))).unwrap();
    ///
    /// // In another process:
    /// let config = Config::from_str("limits.yaml", text, plimsoll_config::Format::Yaml)?;
    /// let after = Limits::of(config.build_saved(&Clock::system(), &saved)?);
    /// let mut restore = after.restore();
    /// for it in saved {
    ///     restore.put(it);
    /// }
    /// assert!(after.try_decide(&[Ask::new("mail").key("anna")]).is_err());
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    #[must_use]
    pub fn restore(&self) -> Restore<'_> {
        Restore {
            limiters: self.limiters().restore(),
            plan: Guard::into_inner(self.plan()),
            tier: None,
        }
    }
}
