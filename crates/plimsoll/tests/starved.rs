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
    2 * Clock::system().resolution()
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

/// A log of 500 in 100 ms granted 1,000 within 100 ms: the thread that moved the clock was not scheduled.
#[test]
fn a_log_holds_in_real_time_on_a_starved_machine() {
    let period = Duration::from_millis(100);
    let grants = granted_by(SlidingLog::new(Quota::new(500, period)));
    let most = most_within(&grants, period - late());
    assert!(most <= 500, "{most}");
    assert!(grants.len() >= 500, "{}", grants.len());
}

#[test]
fn a_bucket_holds_in_real_time_on_a_starved_machine() {
    let grants = granted_by(TokenBucket::per_second(1000).with_burst(100));
    for millis in [1, 10, 50, 200, 600] {
        let span = Duration::from_millis(millis);
        let bound = 100 + (span + late()).as_millis();
        let most = most_within(&grants, span) as u128;
        assert!(most <= bound, "{most} in {span:?}, at most {bound}");
    }
    assert!(grants.len() >= 100, "{}", grants.len());
}

#[test]
fn the_default_clock_is_never_later_than_it_says() {
    let (system, precise) = (Clock::system(), Clock::precise());
    let start = (precise.now(), real());
    let lags = starved(|done| {
        let mut worst = (Duration::ZERO, Duration::ZERO);
        while !done.load(Ordering::Relaxed) {
            let before = precise.now();
            let since = start.1.elapsed();
            let coarse = system.now();
            worst.0 = worst.0.max(before.since(coarse));
            // The precise time agrees with the standard library's: read before that, it is not ahead.
            worst.1 = worst.1.max(before.since(start.0.plus(since)));
        }
        vec![worst]
    });
    let late_by = lags.iter().map(|(late, _)| *late).max().unwrap();
    let ahead_by = lags.iter().map(|(_, ahead)| *ahead).max().unwrap();
    assert!(late_by <= late(), "{late_by:?} late, at most {:?}", late());
    assert!(ahead_by <= Duration::from_micros(500), "{ahead_by:?} ahead");
    println!("late by {late_by:?}, ahead by {ahead_by:?}");
    // And on the other side, the precise time is not behind by more than it takes to read both.
    for _ in 0..1000 {
        let since = start.1.elapsed();
        let after = precise.now();
        assert!(after.plus(Duration::from_micros(500)) >= start.0.plus(since));
    }
}
