//! More threads than processors, all of them busy: the default clock is late by no more than it says, and limits hold
//! in real time.
//!
//! Only real time can show that, so this is one of the few tests that take it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll::{Clock, Gate, Limiter, Quota, Rule, SlidingLog, TokenBucket};

/// A grant, which happened between these two spans from the start.
type Grant = (Duration, Duration);

#[expect(clippy::disallowed_methods, reason = "a claim about real time")]
fn real() -> Instant {
    Instant::now()
}

/// By how much the clock may be late.
fn late() -> Duration {
    3 * Clock::system().resolution()
}

/// Keeps every processor busy while `work` runs on some threads of its own; returns what they return.
fn starved<T: Send>(work: impl Fn(&AtomicBool) -> Vec<T> + Sync) -> Vec<T> {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 * processors {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let askers: Vec<_> = (0..2 * processors)
            .map(|_| scope.spawn(|| work(&done)))
            .collect();
        let start = real();
        while start.elapsed() < Duration::from_millis(900) {
            thread::park_timeout(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
        let asked = askers.into_iter().map(|asker| asker.join());
        asked.flat_map(|asked| asked.expect("no panic")).collect()
    })
}

/// Everything a limiter grants to those who ask all the time, in the order in which they began to ask.
fn granted_by<R: Rule>(rule: R) -> Vec<Grant> {
    let gate = Gate::new(rule);
    let limiter: &dyn Limiter = &gate;
    let start = real();
    let mut grants = starved(|done| {
        let mut grants = Vec::new();
        while !done.load(Ordering::Relaxed) {
            let before = start.elapsed();
            if let Ok(permit) = limiter.try_acquire(1.into()) {
                permit.forget();
                grants.push((before, start.elapsed()));
            }
        }
        grants
    });
    grants.sort_unstable();
    grants
}

/// The most that was certainly granted within any span of that length.
fn most_within(grants: &[Grant], span: Duration) -> usize {
    let from_each = grants.iter().enumerate().map(|(first, (start, _))| {
        let end = *start + span;
        grants[first..]
            .iter()
            .take_while(|(before, _)| *before <= end)
            .filter(|(_, after)| *after <= end)
            .count()
    });
    from_each.max().unwrap_or(0)
}

/// A machine that is itself stopped by its host handles its ticks late, and nobody in it can tell: once is an accident.
#[track_caller]
fn holds(test: impl Fn() -> Result<(), String>) {
    let failed: Vec<_> = (0..3).map_while(|_| test().err()).collect();
    assert!(failed.len() < 3, "{failed:?}");
}

fn at_most(most: usize, bound: usize, span: Duration) -> Result<(), String> {
    if most <= bound {
        return Ok(());
    }
    Err(format!("{most} in {span:?}, at most {bound}"))
}

/// A log of 500 in 100 ms granted 1,000 within 100 ms: the thread that moved the clock was not scheduled.
#[test]
fn a_log_holds_in_real_time_on_a_starved_machine() {
    holds(|| {
        let period = Duration::from_millis(100);
        let grants = granted_by(SlidingLog::new(Quota::new(500, period)));
        assert!(grants.len() >= 500, "{}", grants.len());
        let span = period - late();
        at_most(most_within(&grants, span), 500, span)
    });
}

#[test]
fn a_bucket_holds_in_real_time_on_a_starved_machine() {
    holds(|| {
        let grants = granted_by(TokenBucket::per_second(1000).burst(100));
        assert!(grants.len() >= 100, "{}", grants.len());
        for millis in [1, 10, 50, 200, 600] {
            let span = Duration::from_millis(millis);
            let refilled = usize::try_from((span + late()).as_millis()).expect("a second");
            at_most(most_within(&grants, span), 100 + refilled, span)?;
        }
        Ok(())
    });
}

/// It was late by as long as the thread that moved it had to wait for a processor.
#[test]
fn the_default_clock_is_never_later_than_it_says() {
    let (system, precise) = (Clock::system(), Clock::precise());
    let start = (precise.now(), real());
    holds(|| {
        let lags = starved(|done| {
            let mut worst = (Duration::ZERO, Duration::ZERO);
            while !done.load(Ordering::Relaxed) {
                let before = precise.now();
                let coarse = system.now();
                let since = start.1.elapsed();
                worst.0 = worst.0.max(before.since(coarse));
                worst.1 = worst.1.max(before.since(start.0.plus(since)));
            }
            vec![worst]
        });
        for (late_by, ahead_by) in lags {
            if late_by > late() {
                return Err(format!("{late_by:?} late, at most {:?}", late()));
            }
            // Read before the standard library's time, the precise time is not ahead of it.
            if ahead_by > Duration::from_micros(500) {
                return Err(format!("{ahead_by:?} ahead"));
            }
        }
        // And read after it, not behind.
        for _ in 0..1000 {
            let since = start.1.elapsed();
            let behind = start.0.plus(since).since(precise.now());
            if behind > Duration::from_micros(500) {
                return Err(format!("{behind:?} behind"));
            }
        }
        Ok(())
    });
}
