//! Random decisions about many subjects, each in one script, answer as in memory.

use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::together::{Ask, Permits};
use plimsoll::{
    Concurrency, Demand, Denied, FixedWindow, Gate, Limiter, ManualClock, Moment, Quota, Reason,
    SlidingCounter, SlidingLog, SlidingWindow, Standing, TokenBucket,
};
use plimsoll_redis::{RedisLimiter, Store, StoreAnswer, StoreAsk, StorePermits};
use proptest::prelude::*;

const START: u64 = 1_789_000_000_123_456_789;

/// What a refusal says of one limit.
fn facts(denied: &Denied) -> (Reason, Option<Duration>, u64, u64, Option<Duration>) {
    (
        denied.reason(),
        denied.retry_after(),
        denied.limit(),
        denied.remaining(),
        denied.reset(),
    )
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// Exactly as long as the last refusal said, or a nanosecond less.
    WaitAsTold {
        early: bool,
    },
    Decide {
        asks: Vec<(usize, u64)>,
        shadows: Vec<(usize, u64)>,
        then: Then,
    },
    /// Returns what was granted longest ago.
    Return,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Hold,
    Undo,
}

/// One subject, here and there.
struct Pair {
    gate: Box<dyn Limiter>,
    redis: RedisLimiter,
    key: &'static str,
    counts_refusals: bool,
}

/// Nine subjects of six kinds; the first two limits are asked about two keys each. If they are `everyday`, scripts decide
/// them the quick way.
fn pairs(store: &Store, time: &ManualClock, everyday: bool) -> Vec<Pair> {
    let (period, gap, initial) = if everyday { (1000, 0, 5) } else { (1100, 3, 2) };
    let quota = |units| Quota::new(units, Duration::from_millis(period));
    let log = SlidingLog::new(quota(7)).min_gap(Duration::from_millis(gap));
    let bucket = TokenBucket::per_second(5).initial(initial);
    let counting = SlidingLog::new(quota(6)).counting_refusals();
    let mut pairs = Vec::new();
    macro_rules! pair {
        ($name:literal, $key:literal, $rule:expr) => {
            let gate = Gate::builder($rule).clock(time.clock()).name($name);
            pairs.push(Pair {
                gate: Box::new(gate.build()),
                redis: store.limiter($name, $rule).expect("a limit"),
                key: $key,
                counts_refusals: $name == "counting",
            });
        };
    }
    pair!("bucket", "user 1", bucket.clone());
    pair!("bucket", "user 2", bucket.clone());
    pair!("window", "user 1", FixedWindow::new(quota(9)));
    pair!("window", "tenant", FixedWindow::new(quota(9)));
    pair!("log", "tenant", log.clone());
    pair!("counting", "tenant", counting.clone());
    pair!("counter", "everybody", SlidingCounter::new(quota(8)));
    pair!("segments", "everybody", SlidingWindow::new(quota(8), 4));
    pair!("jobs", "tenant", Concurrency::new(6));
    pairs
}

const PAIRS: usize = 9;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let asks = |most| prop::collection::vec((0..PAIRS, 0..4_u64), 0..most);
    let then = prop_oneof![3 => Just(Then::Hold), 1 => Just(Then::Undo)];
    let decide = (asks(6), asks(3), then).prop_map(|(asks, shadows, then)| {
        // In memory nothing is both.
        let enforced = |of: usize| asks.iter().any(|(other, _)| *other == of);
        let shadows = shadows.into_iter().filter(|(of, _)| !enforced(*of));
        let mut once = Vec::<(usize, u64)>::new();
        for (of, cost) in shadows {
            if once.iter().all(|(other, _)| *other != of) {
                once.push((of, cost));
            }
        }
        Step::Decide {
            asks,
            shadows: once,
            then,
        }
    });
    let step = prop_oneof![
        6 => decide,
        1 => Just(Step::Return),
        1 => (0..700_000_000_u64).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(|early| Step::WaitAsTold { early }),
    ];
    prop::collection::vec(step, 1..40)
}

struct Run<'a> {
    time: ManualClock,
    store: Store,
    pairs: &'a [Pair],
    held: Vec<(Permits<'a>, StorePermits)>,
    told: Duration,
}

/// What is asked of each subject that is asked.
fn sums(asks: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let mut sums = Vec::<(usize, u64)>::new();
    for &(of, cost) in asks {
        match sums.iter_mut().find(|(other, _)| *other == of) {
            Some((_, sum)) => *sum += cost,
            None => sums.push((of, cost)),
        }
    }
    sums
}

impl<'a> Run<'a> {
    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Wait(nanos) => self.time.advance(Duration::from_nanos(*nanos)),
            Step::WaitAsTold { early } => {
                let early = Duration::from_nanos(u64::from(*early));
                self.time.advance(self.told.saturating_sub(early));
            }
            Step::Return if self.held.is_empty() => {}
            Step::Return => {
                let (here, there) = self.held.remove(0);
                drop(here);
                prop_assert!(there.release().await.expect("an answer"));
            }
            Step::Decide {
                asks,
                shadows,
                then,
            } => self.decide(asks, shadows, *then).await?,
        }
        self.compare_states().await
    }

    async fn decide(
        &mut self,
        asks: &[(usize, u64)],
        shadows: &[(usize, u64)],
        then: Then,
    ) -> Result<(), TestCaseError> {
        let pairs = self.pairs;
        let ask = |&(of, cost): &(usize, u64)| {
            let pair: &Pair = &pairs[of];
            StoreAsk::new(&pair.redis, pair.key, cost)
        };
        let mut there: Vec<_> = asks.iter().map(ask).collect();
        there.extend(shadows.iter().map(|shadow| ask(shadow).shadow()));
        let sums = sums(asks);
        let too_large = |&(of, sum): &(usize, u64)| sum > pairs[of].redis.limit();
        if sums.iter().any(too_large) {
            let decision = self.store.decide_all(&there).await.expect("a decision");
            let denied = decision.into_result().expect_err("more than ever fits");
            prop_assert_eq!(denied.reason(), Reason::TooLarge);
            return Ok(());
        }
        let estimates = pairs.iter().enumerate().map(|(of, pair)| {
            let cost = sums.iter().chain(shadows).find(|(other, _)| *other == of);
            cost.map(|(_, cost)| pair.gate.estimate(Demand::of(*cost)))
        });
        let estimates: Vec<_> = estimates.collect();
        let peeked = self.store.peek_all(&there).await.expect("answers");
        let here: Vec<_> = asks
            .iter()
            .map(|&(of, cost)| Ask::limiter(&*pairs[of].gate, cost))
            .collect();
        let mut permits = Permits::new();
        let answer = Ask::try_all(&here, &mut permits);
        let mut shadowed = Vec::new();
        if answer.is_ok() {
            for &(of, cost) in shadows {
                let permit = pairs[of].gate.try_acquire(cost.into());
                shadowed.push(permit.as_ref().err().cloned());
                permit.into_iter().for_each(|permit| permits.push(permit));
            }
        }
        let decision = self.store.decide_all(&there).await.expect("a decision");
        prop_assert_eq!(decision.is_admitted(), answer.is_ok());
        prop_assert_eq!(peeked.is_granted(), answer.is_ok());
        prop_assert!(!decision.is_compensated());

        let refuser = answer.as_ref().err().map(|refused| asks[refused.index].0);
        let all: Vec<_> = asks.iter().chain(shadows).collect();
        prop_assert_eq!(decision.answers().len(), all.len());
        for (index, (&&(of, _), answer)) in all.iter().zip(decision.answers().iter()).enumerate() {
            let pair = &pairs[of];
            prop_assert_eq!(answer.shadow, index >= asks.len());
            prop_assert_eq!(answer.cause, None);
            let estimate = estimates[of].as_ref().expect("asked");
            match estimate {
                Ok(()) => {
                    prop_assert!(answer.grants(), "{:?}", answer);
                    prop_assert_eq!(answer.standing, pair.gate.standing());
                }
                Err(denied) => {
                    let noted = refuser == Some(of) || (refuser.is_none() && answer.shadow);
                    compare(denied, answer, pair, noted)?;
                    if let Some(Some(denied)) = index
                        .checked_sub(asks.len())
                        .and_then(|it| shadowed.get(it))
                    {
                        compare(denied, answer, pair, true)?;
                    }
                }
            }
        }
        match (answer, decision.into_result()) {
            (Err(here), Err(there)) => {
                prop_assert_eq!(here.denied.retry_after(), there.retry_after());
                self.told = there.retry_after().unwrap_or_default();
            }
            (Ok(()), Ok(there)) => match then {
                Then::Hold => self.held.push((permits, there)),
                Then::Undo => {
                    permits.undo();
                    there.undo().await.expect("an answer");
                }
            },
            (here, there) => prop_assert!(false, "{:?} and {:?}", here, there),
        }
        Ok(())
    }

    async fn compare_states(&self) -> Result<(), TestCaseError> {
        for pair in self.pairs {
            let here = pair.gate.snapshot();
            let there = pair.redis.look(pair.key).await.expect("a look");
            let here = (here.available(), here.in_use());
            prop_assert_eq!(here, (there.available, there.in_use), "{:?}", pair.redis);
        }
        Ok(())
    }
}

/// Compares a refusal with that of one limit.
fn compare(
    here: &Denied,
    there: &StoreAnswer,
    pair: &Pair,
    noted: bool,
) -> Result<(), TestCaseError> {
    let denied = there.denied.as_ref().expect("a refusal");
    prop_assert_eq!(denied.limiter(), pair.gate.name());
    // What it would be told if it counted the refusal.
    if noted || !pair.counts_refusals {
        prop_assert_eq!(facts(here), facts(denied));
    }
    let standing: Standing = pair.gate.standing();
    prop_assert_eq!(
        (
            there.standing.limit,
            there.standing.window,
            there.standing.returns
        ),
        (standing.limit, standing.window, standing.returns)
    );
    prop_assert_eq!(there.standing.remaining, Some(denied.remaining()));
    Ok(())
}

fn compare_with_memory(everyday: bool) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = Server::start();
    let run = async |steps: Vec<Step>| {
        let time = ManualClock::starting_at(Moment::from_nanos(START));
        let store = server.store().clock(time.clock()).open().expect("a store");
        let pairs = pairs(&store, &time, everyday);
        for pair in &pairs {
            pair.redis.forget(pair.key).await.expect("forgetting");
            pair.redis.begin(pair.key).await.expect("a beginning");
        }
        let mut run = Run {
            time,
            store,
            pairs: &pairs,
            held: Vec::new(),
            told: Duration::ZERO,
        };
        for step in &steps {
            run.step(step).await?;
        }
        for (_, there) in run.held.drain(..) {
            there.release().await.expect("an answer");
        }
        Ok(())
    };
    for_all(25, &steps(), |steps| runtime.block_on(run(steps)));
}

#[test]
fn decisions_about_many_subjects_answer_as_in_memory() {
    compare_with_memory(false);
}

#[test]
fn decisions_about_many_subjects_answer_as_in_memory_the_quick_way() {
    compare_with_memory(true);
}
