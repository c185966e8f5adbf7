//! Resolves keys and names to the limiters behind them.

use std::sync::Arc;

use super::asks::{Ask, Asked};
use super::behind::Behind;
use super::group::{Group, Member, Owner, Use};
use crate::grant::Era;
use crate::joint::{Joint, KeyGate, KeyLease, WatchReplaced};
use crate::limiter::{Limiter, LimiterExt, PartsKind, Several, Target, TargetOf};
use crate::name::Name;
use crate::{Denied, Grant, Permit};

/// The use of a limiter.
#[derive(Clone, Copy)]
struct For {
    name: Option<Name>,
    of: usize,
    times: u64,
    /// The address by which others know it, if it is a name.
    known: Option<usize>,
}

#[derive(Default)]
struct Found {
    parts: Vec<Use<usize>>,
    several: Vec<(Arc<dyn Several>, usize)>,
    behind: Behind,
}

impl Group<usize> {
    /// The group of these asks, each by its position. Keys and names are resolved to the limiters behind them, so that
    /// they are handled like gates.
    ///
    /// # Errors
    ///
    /// Returns the position and the refusal of a key for which there is no room, or of a name that is closed.
    pub(super) fn of_asks(asks: &[Ask<'_>]) -> Result<Self, (usize, Denied)> {
        let mut found = Found::default();
        found.behind.asks = asks.len();
        for (index, ask) in asks.iter().enumerate() {
            let of = For {
                name: None,
                of: index,
                times: 1,
                known: None,
            };
            let owner = Owner::Asks(index);
            let added = match ask.of {
                Asked::Limiter(limiter) => found.add(limiter, owner, of, None),
                Asked::Key(key) => found.add_target(key.target(), owner, of),
            };
            added.map_err(|denied| (index, denied))?;
        }
        let mut group = Self::merged(found.parts, found.several, asks);
        group.behind = found.behind;
        Ok(group)
    }
}

impl Found {
    fn add(
        &mut self,
        limiter: &dyn Limiter,
        owner: Owner,
        of: For,
        watch: Option<Arc<dyn WatchReplaced>>,
    ) -> Result<(), Denied> {
        match limiter.parts().kind() {
            PartsKind::Gate(gate) => {
                let gate = gate.to_arc();
                let lease = watch.map(|watch| -> Box<dyn KeyLease> {
                    let gate = Arc::clone(&gate);
                    Box::new(OfName(watch, OfGate(gate)))
                });
                self.push(owner, of, Some(gate), lease);
            }
            PartsKind::Several(inner) => {
                let of = For {
                    of: self.add_node(inner, of),
                    ..of
                };
                for part in inner.parts() {
                    let of = For {
                        name: part.name.or(of.name),
                        times: part.times,
                        known: None,
                        ..of
                    };
                    let limiter = Arc::clone(&part.limiter);
                    self.add(&*limiter, Owner::Group(part.limiter), of, None)?;
                }
            }
            PartsKind::Unknown if limiter.is_remote() => self.push(owner, of, None, None),
            PartsKind::Unknown => {
                let source = limiter.source();
                let known = source.map(|source| std::ptr::from_ref(source).cast::<()>().addr());
                let known = of.known.or(known);
                self.add_target(limiter.target(), owner, For { known, ..of })?;
            }
        }
        Ok(())
    }

    fn add_target(
        &mut self,
        target: Option<Result<Target, Denied>>,
        owner: Owner,
        of: For,
    ) -> Result<(), Denied> {
        let Some(target) = target else {
            self.push(owner, of, None, None);
            return Ok(());
        };
        let Target { of: behind, watch } = target?;
        self.behind.watches.extend(watch.clone());
        match behind {
            TargetOf::Limiter(limiter) => return self.add(&*limiter, owner, of, watch),
            TargetOf::Key(KeyGate { gate, lease }) => {
                let lease = match watch {
                    Some(watch) => Box::new(OfName(watch, lease)),
                    None => lease,
                };
                self.push(owner, of, Some(gate), Some(lease));
            }
        }
        Ok(())
    }

    fn add_node(&mut self, several: &dyn Several, of: For) -> usize {
        let all = several.all_several();
        let Some(itself) = all.first() else {
            unreachable!("it is the first of them");
        };
        let number = self.behind.add(itself, of.of, of.times);
        self.several.extend(all.into_iter().map(|it| (it, number)));
        number
    }

    fn push(
        &mut self,
        owner: Owner,
        of: For,
        gate: Option<Arc<dyn Joint>>,
        lease: Option<Box<dyn KeyLease>>,
    ) {
        let known = of.known;
        let member = Member {
            owner,
            gate,
            lease,
            known,
        };
        self.parts.push((member, of.name, of.of, of.times));
    }
}

/// The lease of a gate behind a name.
struct OfName<L>(Arc<dyn WatchReplaced>, L);

impl<L: KeyLease> KeyLease for OfName<L> {
    fn permit(&self, grant: Grant, era: Era) -> Permit<'static> {
        self.0.own(self.1.permit(grant, era))
    }
}

impl KeyLease for Box<dyn KeyLease> {
    fn permit(&self, grant: Grant, era: Era) -> Permit<'static> {
        (**self).permit(grant, era)
    }
}

/// A gate that is not that of a key.
struct OfGate(Arc<dyn Joint>);

impl KeyLease for OfGate {
    fn permit(&self, grant: Grant, era: Era) -> Permit<'static> {
        let gate = &*self.0;
        let permit = Permit::new(gate, grant, gate.gives_back());
        permit.in_era(era).into_owned()
    }
}
