//! What must be true of the answers that all tasks got.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::Concurrency;
use plimsoll_redis::{Decision, Store};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::load::{
    BORROWED, DEADLINE, Ground, JOBS, MOST, RECOVERY, Role, SHARE, SHARED, SLACK, once, role_key,
};
use crate::tally::Tally;

/// What the tasks saw.
pub(crate) struct Report {
    pub(crate) ground: Arc<Ground>,
    pub(crate) observer: Store,
    pub(crate) tallies: Vec<(Role, u64, Tally)>,
}

impl Report {
    fn of(&self, role: Role) -> Tally {
        let tallies = self.tallies.iter().filter(|(other, ..)| *other == role);
        tallies.fold(Tally::default(), |sum, (.., tally)| sum.and(*tally))
    }

    /// Of those who see errors.
    pub(crate) fn counted(&self) -> Tally {
        self.of(Role::Counted)
    }

    /// The setting for outages was kept by everybody who was left to it, as all were for a while.
    pub(crate) fn outage_was_answered(&self) {
        let admit = self.of(Role::Admit);
        assert!(admit.granted_alone > 0, "{admit:?}");
        let deny = self.of(Role::Deny);
        assert!(deny.not_asked > 0 && deny.granted > 0, "{deny:?}");
        let local = self.of(Role::Local);
        assert!(local.granted_alone > 0, "{local:?}");
    }

    /// What must be true after every fault. `losses` is how often the store has forgotten everything.
    pub(crate) async fn check(self, losses: u64) -> Tally {
        for (role, id, tally) in &self.tallies {
            assert!(tally.longest < DEADLINE + SLACK, "{role:?} {id}: {tally:?}");
        }
        let lives = losses + 1;
        let local = self.of(Role::Local);
        assert!(local.granted_alone <= SHARE, "{local:?}");
        assert!(
            local.granted - local.granted_alone <= SHARED * lives,
            "{local:?}"
        );
        let borrowed = self.of(Role::Borrow).granted;
        assert!(
            borrowed <= BORROWED * lives + MOST * losses,
            "{borrowed} granted"
        );
        let most_held = self.ground.most_held.load(Ordering::SeqCst);
        assert!(most_held <= JOBS * lives, "{most_held} held");
        self.check_charges(losses).await;
        self.check_leases().await;
        self.counts_exactly().await;
        self.counted()
    }

    /// Nothing is charged twice, and nothing that was granted is forgotten unless everything is.
    async fn check_charges(&self, losses: u64) {
        let observed = self
            .observer
            .limiter("counted", once(1_000_000))
            .expect("a limiter");
        for (role, id, tally) in &self.tallies {
            if *role == Role::Counted {
                let charged = observed.look(id.to_string()).await.expect("a look").in_use;
                assert!(
                    charged <= tally.granted + tally.unknown,
                    "{charged}: {tally:?}"
                );
                assert!(
                    losses > 0 || charged >= tally.granted,
                    "{charged}: {tally:?}"
                );
            }
        }
    }

    /// Everything that was held comes back, at the latest when leases run out.
    async fn check_leases(&self) {
        let end = Instant::now() + RECOVERY;
        let jobs = &self.ground.jobs;
        let observed = self
            .observer
            .limiter(jobs.name(), Concurrency::new(jobs.limit()));
        let observed = observed.expect("a limiter");
        while observed
            .look(role_key(Role::Lease))
            .await
            .expect("a look")
            .in_use
            > 0
        {
            assert!(Instant::now() < end, "leases are held");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Of thirty who come together ten are granted: by the store that has seen it all.
    async fn counts_exactly(&self) {
        let rule = once(10);
        let limiter = self
            .ground
            .store
            .limiter("exact", rule.clone())
            .expect("a limiter");
        let observed = self.observer.limiter("exact", rule).expect("a limiter");
        for round in 0..20 {
            let key = format!("round {round}");
            let mut asked = JoinSet::new();
            for _ in 0..30 {
                let (limiter, key) = (limiter.clone(), key.clone());
                asked.spawn(async move { limiter.decide(key, 1).await });
            }
            let mut tally = Tally::default();
            while let Some(answer) = asked.join_next().await {
                match answer.expect("no panic") {
                    Ok(Decision::Granted(_)) => tally.granted += 1,
                    Ok(Decision::Denied(_)) => tally.denied += 1,
                    Err(error) => tally.failed(&error),
                }
            }
            let charged = observed.look(&key).await.expect("a look").in_use;
            assert!(
                charged >= tally.granted && charged <= 10,
                "{charged}: {tally:?}"
            );
            if tally.undecided() == 0 {
                assert_eq!((tally.granted, charged), (10, 10));
                return;
            }
            sleep(DEADLINE).await;
        }
        panic!("the store does not decide again");
    }
}
