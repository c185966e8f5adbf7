//! Giving back what is not used.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::task::JoinSet;

use super::lender::Lender;
use super::portion::Portion;
use crate::StoreError;

impl Lender {
    /// Starts the task that gives back what is not used, unless it runs.
    pub(super) fn keep_sweeping(self: &Arc<Self>) {
        if self.sweeping.load(Ordering::SeqCst) || self.sweeping.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut sweeper = Sweeper(Arc::downgrade(self));
        let (clock, pause) = (self.clock.clone(), self.settings.keep / 2);
        let spawned = self.background.spawn(async move {
            loop {
                clock.sleep_until(clock.precise_now().plus(pause)).await;
                if !sweeper.sweep() {
                    return;
                }
            }
        });
        if !spawned {
            self.sweeping.store(false, Ordering::SeqCst);
        }
    }

    /// Takes out what is not used any more, with `all` everything, and forgets keys that say nothing.
    fn gather(&self, all: bool) -> Vec<(Arc<[u8]>, Portion)> {
        let now = self.clock.precise_now();
        let mut gathered = Vec::new();
        self.table.retain(|key, stock| {
            for portion in stock.clear(now, all) {
                stock.forget_refusal();
                gathered.push((Arc::clone(key), portion));
            }
            !stock.is_idle(now, self.settings.keep)
        });
        gathered
    }

    /// Gives everything back that is not used, and waits until the store knows.
    pub(crate) async fn give_back_all(self: &Arc<Self>) -> Result<(), StoreError> {
        // Together, so that they travel together.
        let mut returns = JoinSet::new();
        for (key, portion) in self.gather(true) {
            let limiter = self.limiter.clone();
            returns.spawn(async move {
                limiter
                    .put_back(&key, portion.left, portion.tag.taken)
                    .await
            });
        }
        let mut answer = Ok(());
        while let Some(returned) = returns.join_next().await {
            if let Ok(Err(error)) = returned {
                self.count_lost(true);
                answer = Err(error);
            }
        }
        answer
    }
}

/// The task that sweeps. It does not keep anything alive, and whoever ends it leaves room for another.
struct Sweeper(Weak<Lender>);

impl Sweeper {
    /// Says whether there is anything left to sweep.
    fn sweep(&mut self) -> bool {
        let Some(lender) = self.0.upgrade() else {
            return false;
        };
        for (key, portion) in lender.gather(false) {
            lender.give_back(&key, vec![portion]);
        }
        if lender.table.len() > 0 {
            return true;
        }
        lender.sweeping.store(false, Ordering::SeqCst);
        // Somebody may have come in the last moment, and relied on this one.
        if lender.table.len() > 0 && !lender.sweeping.swap(true, Ordering::SeqCst) {
            return true;
        }
        // From here on there may be another.
        self.0 = Weak::new();
        false
    }
}

/// A runtime that ends takes its tasks with it, and there may be another.
impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(lender) = self.0.upgrade() {
            lender.sweeping.store(false, Ordering::SeqCst);
        }
    }
}

/// The last one gives everything back.
impl Drop for Lender {
    fn drop(&mut self) {
        let portions = self.gather(true);
        if portions.is_empty() {
            return;
        }
        let limiter = self.limiter.clone();
        self.background.spawn(async move {
            for (key, portion) in portions {
                // Nobody is left to tell.
                let _ = limiter
                    .put_back(&key, portion.left, portion.tag.taken)
                    .await;
            }
        });
    }
}
