//! Renews held leases and detects lost ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::{LeaseState, Moment};

use super::{HeldLeases, Leases};
use crate::StoreError;
use crate::answer::Answer;
use crate::rule::number;
use crate::script::RENEW;

/// Minimum pause before a failed renewal is retried.
const RETRY: Duration = Duration::from_millis(10);

impl Leases {
    /// Renews all leases until none is held.
    pub(super) async fn renew(self: Arc<Self>) {
        let mut running = Running(&self, Some(|held| &mut held.renewing));
        let mut pause = self.length / 3;
        loop {
            tokio::time::sleep(pause).await;
            let Some(batches) = self.batches() else {
                running.1 = None;
                return;
            };
            // Concurrent calls share the connection's pipeline.
            let renewed: Vec<_> = batches
                .into_iter()
                .map(|(key, members)| tokio::spawn(Arc::clone(&self).renew_key(key, members)))
                .collect();
            let mut failed = false;
            for batch in renewed {
                failed |= !batch.await.unwrap_or(false);
            }
            pause = self.length / 3;
            if failed {
                // Leaves time for several retries before a lease is lost.
                pause = pause.min((self.length / 20).max(RETRY));
            }
        }
    }

    /// The held leases by key. `None` if there are none: then the task ends.
    fn batches(&self) -> Option<Vec<(Vec<u8>, Vec<String>)>> {
        let mut held = self.held();
        held.renewing = !held.keys.is_empty();
        held.renewing.then(|| {
            let batches = held.keys.iter();
            let batch = batches.map(|(key, members)| (key.clone(), members.keys().cloned()));
            batch
                .map(|(key, members)| (key, members.collect()))
                .collect()
        })
    }

    /// Renews the leases of one key. Returns whether the store answered.
    async fn renew_key(self: Arc<Self>, key: Vec<u8>, members: Vec<String>) -> bool {
        let asked = self.clock.precise_now();
        let Ok(gone) = self.try_renew(&key, &members).await else {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let mut lost = Vec::new();
        let mut held = self.held();
        if let Some(known) = held.keys.get_mut(&key) {
            for (member, gone) in members.iter().zip(gone) {
                if gone {
                    lost.extend(known.remove(member));
                } else if let Some(holding) = known.get_mut(member) {
                    holding.ends = asked.plus(self.length);
                    holding.state.renew(holding.ends);
                }
            }
            if known.is_empty() {
                held.keys.remove(&key);
            }
        }
        // Unlocks before waiters are woken.
        drop(held);
        self.store.health().lost(lost.len());
        lost.iter().for_each(|holding| holding.state.lose());
        true
    }

    /// Returns for each lease whether the store has lost it.
    async fn try_renew(&self, key: &[u8], members: &[String]) -> Result<Vec<bool>, StoreError> {
        let length = number(self.length.as_nanos());
        let mut arguments = vec![String::new(), self.store.now(), length];
        arguments.extend_from_slice(members);
        let answer = self.store.run(&RENEW, &[key.to_vec()], &arguments).await?;
        let mut answer = Answer::new(answer)?;
        let gone = members.iter().map(|_| Ok(answer.number::<u8>()? == 0));
        gone.collect()
    }

    /// Marks leases as lost that were not renewed in time, until none is held.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut running = Running(&self, Some(|held| &mut held.watching));
        loop {
            let (lost, next) = self.run_out();
            self.store.health().lost(lost.len());
            lost.iter().for_each(LeaseState::lose);
            let Some(next) = next else {
                running.1 = None;
                return;
            };
            self.clock.sleep_until(next).await;
        }
    }

    /// The leases that have expired on the clock of this process, and the moment at which the next one does. `None` if
    /// no lease is held: then the task ends.
    fn run_out(&self) -> (Vec<LeaseState>, Option<Moment>) {
        let now = self.clock.precise_now();
        let mut held = self.held();
        let (mut lost, mut next) = (Vec::new(), None);
        held.keys.retain(|_, members| {
            members.retain(|_, holding| {
                let holds = now < holding.ends;
                if holds {
                    next = Some(next.map_or(holding.ends, |next: Moment| next.min(holding.ends)));
                } else {
                    lost.push(holding.state.clone());
                }
                holds
            });
            !members.is_empty()
        });
        held.watching = next.is_some();
        (lost, next)
    }
}

/// Clears the flag of a task that is dropped with its runtime, so that another one may start.
struct Running<'a>(&'a Leases, Option<fn(&mut HeldLeases) -> &mut bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(flag) = self.1 {
            *flag(&mut self.0.held()) = false;
        }
    }
}
