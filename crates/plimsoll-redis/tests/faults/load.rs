//! 64 tasks that ask all the time, and what must be true of their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Concurrency, FixedWindow, PerKey, Quota, Reason};
use plimsoll_redis::{
    Borrow, Circuit, Decision, Fleet, Outage, RedisLimiter, RedisRule, Store, StoreBuilder,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::report::Report;
use crate::server::patient;
use crate::tally::Tally;

/// How long a call may take: more than usual, because the machine may have much to do.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);
/// How much later an answer may come because the machine has much to do.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// Within this time after a fault all must be well.
pub(crate) const RECOVERY: Duration = Duration::from_secs(20);

const COUNTED: u64 = 24;
const OF_EACH: u64 = 8;

pub(crate) const SHARED: u64 = 400;
pub(crate) const SHARE: u64 = SHARED / 4;
pub(crate) const BORROWED: u64 = 1000;
pub(crate) const MOST: u64 = 20;
pub(crate) const JOBS: u64 = 4;
const LEASE: Duration = Duration::from_secs(2);

/// So many in a window that does not end during a test.
pub(crate) const fn once(units: u64) -> FixedWindow {
    let days = Duration::from_secs(1000 * 24 * 60 * 60);
    FixedWindow::new(Quota::new(units, days)).aligned_to_epoch()
}

/// How a task asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Sees errors, and has a key of its own, so that everything it is charged for is known.
    Counted,
    Admit,
    Deny,
    Local,
    Borrow,
    Lease,
}

/// What all tasks share.
pub(crate) struct Ground {
    pub(crate) store: Store,
    counted: RedisLimiter,
    admit: Fleet,
    deny: Fleet,
    local: Fleet,
    borrow: Fleet,
    pub(crate) jobs: RedisLimiter,
    stop: AtomicBool,
    /// By each of those who see errors.
    decided: Vec<AtomicU64>,
    undecided: AtomicU64,
    held: AtomicU64,
    pub(crate) most_held: AtomicU64,
}

/// Tasks that ask until they are stopped.
pub(crate) struct Load {
    ground: Arc<Ground>,
    tasks: JoinSet<(Role, u64, Tally)>,
    /// Looks at the store without going through the fault.
    observer: Store,
}

/// A store that gives up soon and comes back soon.
pub(crate) fn hasty(store: StoreBuilder) -> Store {
    let circuit = Circuit::new().backoff(Duration::from_millis(50), Duration::from_millis(400));
    let store = store.deadline(DEADLINE).circuit(circuit);
    store.open().expect("a store")
}

impl Load {
    /// Asks the store at `url`, and looks at the one at `direct`, which is the same without a detour.
    pub(crate) fn on(url: &str, direct: &str) -> Self {
        let observer = patient(Store::builder(direct)).open();
        Self::start(hasty(Store::builder(url)), observer.expect("a store"))
    }

    pub(crate) fn start(store: Store, observer: Store) -> Self {
        let limiter = |name: &str, rule: RedisRule| store.limiter(name, rule).expect("a limiter");
        let fleet = |name: &str, units: u64, outage| {
            let limiter = limiter(name, once(units).into());
            limiter.fleet().outage(outage)
        };
        let built = |fleet: plimsoll_redis::FleetBuilder| fleet.build().expect("a fleet");
        let share = Outage::Local { share: 0.25 };
        let borrow = fleet("borrow", BORROWED, Outage::Deny).borrowing(Borrow::new().max(MOST));
        let jobs = JOBS;
        let ground = Arc::new(Ground {
            counted: limiter("counted", once(1_000_000).into()),
            admit: built(fleet("admit", 1_000_000, Outage::Admit)),
            deny: built(fleet("deny", 1_000_000, Outage::Deny)),
            local: built(fleet("local", SHARED, share)),
            borrow: built(borrow),
            jobs: limiter("jobs", RedisRule::from(Concurrency::new(jobs)).lease(LEASE)),
            stop: AtomicBool::new(false),
            decided: (0..COUNTED).map(|_| AtomicU64::new(0)).collect(),
            undecided: AtomicU64::new(0),
            held: AtomicU64::new(0),
            most_held: AtomicU64::new(0),
            store,
        });
        let mut tasks = JoinSet::new();
        let others = [
            Role::Admit,
            Role::Deny,
            Role::Local,
            Role::Borrow,
            Role::Lease,
        ];
        let others = others
            .into_iter()
            .flat_map(|role| (0..OF_EACH).map(move |id| (role, id)));
        for (role, id) in (0..COUNTED).map(|id| (Role::Counted, id)).chain(others) {
            let ground = Arc::clone(&ground);
            tasks.spawn(async move { (role, id, ground.ask_on(role, id).await) });
        }
        Self {
            ground,
            tasks,
            observer,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.ground.store
    }

    /// Waits until the store has decided so much more, and something for everybody: it works. Says how long
    /// that took.
    pub(crate) async fn decides(&mut self, more: u64) -> Duration {
        let (began, before) = (Instant::now(), self.decided());
        let aim = before.iter().sum::<u64>() + more;
        let ground = Arc::clone(&self.ground);
        let enough = || {
            let now = ground.decided();
            let all = now.iter().zip(&before).all(|(now, before)| now > before);
            all && now.iter().sum::<u64>() >= aim
        };
        self.until("decisions", enough).await;
        began.elapsed()
    }

    /// How often the store has decided so far, for each of those who see errors.
    pub(crate) fn decided(&self) -> Vec<u64> {
        self.ground.decided()
    }

    /// Waits until so many more could not be decided: the fault is felt.
    pub(crate) async fn suffers(&mut self, more: u64) {
        let ground = Arc::clone(&self.ground);
        let aim = ground.undecided.load(Ordering::Relaxed) + more;
        self.until("a fault", || {
            ground.undecided.load(Ordering::Relaxed) >= aim
        })
        .await;
    }

    /// Goes on for a time: servers fail and recover in real time.
    pub(crate) async fn goes_on(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.until("time", || Instant::now() >= end).await;
    }

    /// Waits until it is so.
    pub(crate) async fn until(&mut self, what: &str, so: impl Fn() -> bool) {
        let end = Instant::now() + RECOVERY;
        while !so() {
            assert!(Instant::now() < end, "not within {RECOVERY:?}: {what}");
            // Nobody ends by itself, except in a panic.
            if let Some(ended) = self.tasks.try_join_next() {
                panic!("{ended:?} instead of {what}");
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops all tasks. They end, or they are stuck.
    pub(crate) async fn finish(mut self) -> Report {
        self.ground.stop.store(true, Ordering::Relaxed);
        let mut tallies = Vec::new();
        while let Some(ended) = timeout(DEADLINE + RECOVERY, self.tasks.join_next())
            .await
            .expect("a task is stuck")
        {
            tallies.push(ended.expect("no panic"));
        }
        Report {
            ground: self.ground,
            observer: self.observer,
            tallies,
        }
    }
}

impl Ground {
    fn decided(&self) -> Vec<u64> {
        let decided = self.decided.iter();
        decided.map(|each| each.load(Ordering::Relaxed)).collect()
    }

    async fn ask_on(&self, role: Role, id: u64) -> Tally {
        let mut tally = Tally::default();
        while !self.stop.load(Ordering::Relaxed) {
            let (began, before) = (Instant::now(), tally.undecided());
            self.ask(role, id, &mut tally).await;
            tally.longest = tally.longest.max(began.elapsed());
            if tally.undecided() > before {
                self.undecided.fetch_add(1, Ordering::Relaxed);
            } else if role == Role::Counted {
                let place = usize::try_from(id).expect("small");
                self.decided[place].fetch_add(1, Ordering::Relaxed);
            }
            sleep(Duration::from_millis(20)).await;
        }
        tally
    }

    async fn ask(&self, role: Role, id: u64, tally: &mut Tally) {
        let (fleet, refusals): (_, &[Reason]) = match role {
            Role::Counted => return self.ask_counted(id, tally).await,
            Role::Lease => return self.hold(tally).await,
            Role::Admit => (&self.admit, &[]),
            Role::Deny => (&self.deny, &[Reason::Unavailable]),
            Role::Local => (&self.local, &[Reason::Exhausted]),
            Role::Borrow => (&self.borrow, &[Reason::Exhausted, Reason::Unavailable]),
        };
        // What is answered without the store is about the share, or about nothing.
        let alone = |limit: Option<u64>| match role {
            Role::Admit => limit.is_none(),
            _ => limit == Some(SHARE),
        };
        match fleet.acquire_owned(role_key(role), 1.into()).await {
            Ok(permit) => {
                let alone = alone(permit.standing().map(|standing| standing.limit));
                tally.granted += 1;
                tally.granted_alone += u64::from(alone);
                tally.not_asked += u64::from(alone);
            }
            Err(denied) => {
                assert!(refusals.contains(&denied.reason()), "{role:?}: {denied:?}");
                let alone = alone(Some(denied.limit()));
                if alone || denied.reason() == Reason::Unavailable {
                    tally.not_asked += 1;
                } else {
                    tally.denied += 1;
                }
            }
        }
    }

    async fn ask_counted(&self, id: u64, tally: &mut Tally) {
        match self.counted.decide(id.to_string(), 1).await {
            Ok(Decision::Granted(_)) => tally.granted += 1,
            Ok(Decision::Denied(_)) => tally.denied += 1,
            Err(error) => tally.failed(&error),
        }
    }

    async fn hold(&self, tally: &mut Tally) {
        match self.jobs.decide(role_key(Role::Lease), 1).await {
            Ok(Decision::Granted(permit)) => {
                tally.granted += 1;
                let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
                self.most_held.fetch_max(held, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.held.fetch_sub(1, Ordering::SeqCst);
                // In the background, whether there is a store or not.
                drop(permit);
            }
            Ok(Decision::Denied(_)) => tally.denied += 1,
            Err(error) => tally.failed(&error),
        }
    }
}

pub(crate) fn role_key(role: Role) -> &'static str {
    match role {
        Role::Counted => "counted",
        Role::Admit => "admit",
        Role::Deny => "deny",
        Role::Local => "local",
        Role::Borrow => "borrow",
        Role::Lease => "lease",
    }
}
