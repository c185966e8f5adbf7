//! Permits taken by threads in batches: how much is out of reach meanwhile, and how much too many at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll::{Batched, Gate, ManualClock, Quota, Reason, TokenBucket};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const BATCH: u64 = 10;
const MOST: u64 = 3;
const HOLD: Duration = Duration::from_millis(10);

/// A hundred, and as good as nothing more in all the time a test takes.
fn hundred(time: &ManualClock) -> Batched<TokenBucket> {
    let rule = TokenBucket::greedy(Quota::per_hour(1)).burst(100);
    Batched::new(Gate::builder(rule).clock(time.clock()).build(), BATCH)
}

fn left(batched: &Batched<TokenBucket>) -> u64 {
    batched.gate().snapshot().available()
}

#[test]
fn a_thread_spends_what_it_took_alone() {
    let time = ManualClock::new();
    let batched = hundred(&time);
    for expected in [90, 80, 70] {
        for _ in 0..BATCH {
            batched.try_acquire(1).unwrap().forget();
            assert_eq!(left(&batched), expected);
        }
    }
    // As much as a batch, or more, is taken directly.
    batched.try_acquire(BATCH).unwrap().forget();
    assert_eq!(left(&batched), 60);
}

#[test]
fn what_it_does_not_spend_goes_back() {
    type End = fn(&Batched<TokenBucket>, &ManualClock);
    let ends: [(&str, End); 3] = [
        ("returned", |batched, _| batched.return_stock()),
        ("held too long", |batched, time| {
            time.advance(HOLD);
            // Too large for a batch: what is in stock goes back first.
            drop(batched.try_acquire(100));
        }),
        ("the thread ends", |_, _| {}),
    ];
    for (name, end) in ends {
        let time = ManualClock::new();
        let batched = hundred(&time);
        let thread = {
            let (batched, time) = (batched.clone(), time.clone());
            thread::spawn(move || {
                for cost in [1, 3] {
                    batched.try_acquire(cost).unwrap().forget();
                }
                assert_eq!(left(&batched), 90, "{name}");
                end(&batched, &time);
            })
        };
        // Joined, not only left: what a thread gives back last it gives back after its work.
        thread.join().unwrap();
        assert_eq!(left(&batched), 96, "{name}");
        assert_eq!(batched.snapshot().granted_total(), 2, "{name}");
    }
}

#[test]
fn two_limiters_on_one_thread_do_not_mix() {
    let time = ManualClock::new();
    // More than a thread has places for.
    let limiters: Vec<_> = (0..40).map(|_| hundred(&time)).collect();
    for _ in 0..3 {
        for batched in &limiters {
            batched.try_acquire(1).unwrap().forget();
        }
    }
    limiters.iter().for_each(Batched::return_stock);
    for batched in &limiters {
        assert_eq!(left(batched), 97);
        assert_eq!(batched.snapshot().granted_total(), 3);
    }
}

#[test]
fn what_others_take_directly_or_are_refused_leaves_a_stock_where_it_is() {
    let time = ManualClock::new();
    let batched = hundred(&time);
    batched.try_acquire(1).unwrap().forget();
    // More than a thread has places for.
    for _ in 0..64 {
        let rule = TokenBucket::greedy(Quota::per_hour(1));
        let other = Batched::new(Gate::builder(rule).clock(time.clock()).build(), 1);
        other.try_acquire(1).unwrap().forget();
        assert_eq!(
            other.try_acquire(1).unwrap_err().reason(),
            Reason::Exhausted
        );
        assert_eq!(other.snapshot().granted_total(), 1);
    }
    batched.try_acquire(1).unwrap().forget();
    assert_eq!(left(&batched), 90);
}

#[test]
fn a_closed_limiter_grants_nothing_from_stock() {
    let time = ManualClock::new();
    let batched = hundred(&time);
    batched.try_acquire(1).unwrap().forget();
    batched.gate().close();
    let denied = batched.try_acquire(1).unwrap_err();
    assert_eq!(denied.reason(), Reason::Closed);
}

/// Takes from every thread while the clock moves on by so many milliseconds; tells what was used when.
///
/// A thread that is held up after a grant notes it late: one grant of each may be noted in a stretch of
/// time that it was made before.
fn hammer(
    batched: &Batched<TokenBucket>,
    time: &ManualClock,
    threads: u64,
    millis: u64,
) -> Vec<(u64, u64)> {
    let running = AtomicBool::new(true);
    thread::scope(|scope| {
        let work = |number| {
            let running = &running;
            scope.spawn(move || {
                let mut used = Vec::new();
                while running.load(Ordering::Relaxed) {
                    if let Ok(permit) = batched.try_acquire(1 + number % MOST) {
                        used.push((time.now().as_nanos(), permit.cost()));
                    }
                }
                used
            })
        };
        let threads: Vec<_> = (0..threads).map(work).collect();
        for _ in 0..millis {
            time.advance(Duration::from_millis(1));
            thread::yield_now();
        }
        running.store(false, Ordering::Relaxed);
        let used = threads.into_iter().map(|thread| thread.join());
        used.flat_map(|used| used.expect("it does not panic"))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_stretch_of_time_sees_more_than_is_allowed_and_what_threads_may_hold(
        threads in 1u64..6,
        batch in 1u64..20,
        burst in 20u64..60,
        refill in 1u64..40,
        millis in 1u64..60,
    ) {
        let time = ManualClock::new();
        let quota = Quota::new(refill, Duration::from_millis(10));
        let rule = TokenBucket::greedy(quota).burst(burst);
        let gate = Gate::builder(rule).clock(time.clock()).build();
        let batched = Batched::new(gate, batch).hold(Duration::from_millis(3));
        let mut used = hammer(&batched, &time, threads, millis);
        prop_assert_eq!(batched.snapshot().granted_total(), used.len() as u64);
        used.sort_unstable();
        for (at, &(from, _)) in used.iter().enumerate() {
            let held = threads * (batch - 1) + threads * MOST;
            let mut sum = 0;
            for &(to, cost) in &used[at..] {
                sum += cost;
                let gained = (to - from) * refill / 10_000_000;
                prop_assert!(sum <= (burst + held) + gained);
            }
        }
        // Whatever happened, with everything returned it is a bucket as any.
        time.advance(Duration::from_secs(60));
        prop_assert_eq!(left(&batched), burst);
    }

    #[test]
    fn no_more_is_out_of_reach_than_what_threads_may_hold(
        threads in 1u64..6,
        batch in 1u64..15,
        taken in 1u64..5,
    ) {
        let time = ManualClock::new();
        let rule = TokenBucket::greedy(Quota::per_hour(1)).burst(100);
        let gate = Gate::builder(rule).clock(time.clock()).build();
        let batched = Batched::new(gate, batch);
        let all_have = std::sync::Barrier::new(usize::try_from(threads).expect("a few") + 1);
        let seen = thread::scope(|scope| {
            let work = |_| {
                scope.spawn(|| {
                    for _ in 0..taken {
                        batched.try_acquire(1).map(drop).expect("there are enough");
                    }
                    all_have.wait();
                    all_have.wait();
                })
            };
            let threads: Vec<_> = (0..threads).map(work).collect();
            all_have.wait();
            let seen = batched.gate().snapshot();
            all_have.wait();
            threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
            seen
        });
        let stranded = seen.in_use() - (threads * taken);
        prop_assert!(stranded <= (threads * (batch - 1)));
        prop_assert_eq!(batched.gate().snapshot().in_use(), threads * taken);
    }
}

/// What was refused because the limiter is closed had been taken from the stock, and counted as granted.
#[test]
fn what_is_refused_when_it_is_closed_is_not_counted_as_granted() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(100)).clock(time.clock());
    let batched = Batched::new(gate.build(), 10);
    batched.try_acquire(2).unwrap().forget();
    batched.gate().close();
    for _ in 0..3 {
        assert!(batched.try_acquire(1).is_err());
    }
    batched.return_stock();
    let seen = batched.snapshot();
    assert_eq!((seen.granted_total(), seen.in_use()), (1, 2));
}
