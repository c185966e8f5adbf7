//! Returns unused permits to the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::task::JoinSet;

use super::lender::Lender;
use super::portion::Portion;
use crate::StoreError;

impl Lender {
    /// Starts the task that returns unused permits, unless it runs.
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

    /// Removes expired portions, or with `all` every portion, and evicts idle keys.
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

    /// Returns all unused permits and waits for the store.
    pub(crate) async fn give_back_all(self: &Arc<Self>) -> Result<(), StoreError> {
        // Concurrent calls share the connection's pipeline.
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

/// The sweep task. It holds a weak reference. When it ends, another one may start.
struct Sweeper(Weak<Lender>);

impl Sweeper {
    /// Returns whether anything is left to sweep.
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
        // A key may have been added after the check, by a caller that saw this task running.
        if lender.table.len() > 0 && !lender.sweeping.swap(true, Ordering::SeqCst) {
            return true;
        }
        // From here on another task may run.
        self.0 = Weak::new();
        false
    }
}

/// If the task is dropped with its runtime, another one may start.
impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(lender) = self.0.upgrade() {
            lender.sweeping.store(false, Ordering::SeqCst);
        }
    }
}

/// Returns all unused permits.
impl Drop for Lender {
    fn drop(&mut self) {
        let portions = self.gather(true);
        if portions.is_empty() {
            return;
        }
        let limiter = self.limiter.clone();
        self.background.spawn(async move {
            for (key, portion) in portions {
                // No caller is left to report an error to.
                let _ = limiter
                    .put_back(&key, portion.left, portion.tag.taken)
                    .await;
            }
        });
    }
}
