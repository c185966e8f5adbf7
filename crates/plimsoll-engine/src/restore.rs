//! What a process before this one has saved.

use std::sync::Arc;

use arc_swap::Guard;
use plimsoll_config::{Restore as Limiters, Saved};

use crate::limits::Limits;
use crate::plan::Plan;

/// Puts what was [saved](Limits::save) into limits, one thing after the other. [`Limits::restore`] returns one.
#[derive(Debug)]
pub struct Restore<'a> {
    limiters: Limiters<'a>,
    plan: Arc<Plan>,
    /// The tier whose keys come: its limit, and its terms.
    tier: Option<(usize, usize)>,
}

impl Restore<'_> {
    /// Puts one thing where it belongs. Returns whether there is such a place: the file may have changed meanwhile.
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
    /// Shows what the limits in memory remember, so that another process can [go on](Self::restore) from there: what their
    /// [limiters](plimsoll_config::Limits::save) do, and which tier each key had last.
    ///
    /// # Errors
    ///
    /// What `see` fails with.
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

    /// Puts what was [saved](Self::save) into these limits, which were [built](plimsoll_config::Config::build_saved) with it.
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
