//! Limiters that answer at once: ours and the peers'.
//!
//! To be granted every time, a limiter has a billion a second and a burst of as many, more than anybody
//! can ask for; to be denied every time, it has one an hour, and that one is gone.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::QuantaUpkeepClock;
use plimsoll::{Batched, Clock, FixedWindow, Gate, Quota, Rule, SlidingWindow, TokenBucket};
use rate_net::{CoarseClock, DirectLimiter};

use crate::asking::{Answer, Trial, asked};
use crate::contender::Contender;
use crate::contender::Role::{Ours, Peer};

const BILLION: u32 = 1_000_000_000;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const TICK: Duration = Duration::from_millis(1);

pub(crate) const BUCKET: &str = "plimsoll TokenBucket";
pub(crate) const BATCHED: &str = "plimsoll TokenBucket, in batches of 32";
pub(crate) const PRECISE: &str = "plimsoll TokenBucket, precise clock";
pub(crate) const UNCOUNTED: &str = "plimsoll TokenBucket, no totals";
pub(crate) const FIXED: &str = "plimsoll FixedWindow";
pub(crate) const SLIDING: &str = "plimsoll SlidingWindow, 10 segments";
pub(crate) const GOVERNOR: &str = "governor";

pub(crate) fn ours() -> Vec<Contender<Trial>> {
    vec![
        ours_is(BUCKET, |answer| Gate::new(bucket(answer))),
        asked(Ours, BATCHED, batched, |batched| {
            granted(batched.try_acquire(1))
        }),
        ours_is(PRECISE, |answer| {
            Gate::builder(bucket(answer))
                .clock(Clock::precise())
                .build()
        }),
        ours_is(UNCOUNTED, |answer| {
            Gate::builder(bucket(answer)).totals(false).build()
        }),
        ours_is("plimsoll TokenBucket, uneven rate", |answer| {
            Gate::new(uneven(answer))
        }),
        ours_is(FIXED, |answer| Gate::new(FixedWindow::new(window(answer)))),
        ours_is(SLIDING, |answer| {
            Gate::new(SlidingWindow::new(window(answer), 10))
        }),
    ]
}

fn ours_is<R: Rule>(
    name: &'static str,
    make: impl Fn(Answer) -> Gate<R> + 'static,
) -> Contender<Trial> {
    let make = move |answer| {
        let gate = make(answer);
        assert!(gate.try_acquire(1).is_ok(), "one to take");
        gate
    };
    asked(Ours, name, make, |gate| granted(gate.try_acquire(1)))
}

fn batched(answer: Answer) -> Batched<TokenBucket> {
    let batch = match answer {
        Answer::Granted => 32,
        Answer::Denied => 1,
    };
    let batched = Batched::new(Gate::new(bucket(answer)), batch);
    assert!(batched.try_acquire(1).is_ok(), "one to take");
    batched
}

fn bucket(answer: Answer) -> TokenBucket {
    match answer {
        Answer::Granted => TokenBucket::per_second(BILLION.into()),
        Answer::Denied => TokenBucket::greedy(Quota::per_hour(1)),
    }
}

/// A rate of which a nanosecond is not a whole part, so that telling the time of the next token takes a
/// division.
fn uneven(answer: Answer) -> TokenBucket {
    match answer {
        Answer::Granted => TokenBucket::per_second((BILLION - 1).into()),
        Answer::Denied => TokenBucket::greedy(Quota::new(7, HOUR)).burst(1),
    }
}

fn window(answer: Answer) -> Quota {
    Quota::per_hour(match answer {
        Answer::Granted => u32::MAX.into(),
        Answer::Denied => 1,
    })
}

pub(crate) fn peers() -> Vec<Contender<Trial>> {
    vec![
        asked(
            Peer,
            GOVERNOR,
            |answer| {
                let limiter = governor::RateLimiter::direct(governor_quota(answer));
                assert!(limiter.check().is_ok(), "one to take");
                limiter
            },
            |limiter| granted(limiter.check()),
        ),
        asked(
            Peer,
            "governor, upkeep clock",
            |answer| {
                let clock = QuantaUpkeepClock::from_interval(TICK).expect("a thread");
                let quota = governor_quota(answer);
                let limiter = governor::RateLimiter::direct_with_clock(quota, clock);
                assert!(limiter.check().is_ok(), "one to take");
                limiter
            },
            |limiter| granted(limiter.check()),
        ),
        asked(
            Peer,
            "leaky-bucket",
            |answer| leaky_bucket(answer).build(),
            |limiter| limiter.try_acquire(1),
        ),
        asked(
            Peer,
            "leaky-bucket, unfair",
            |answer| leaky_bucket(answer).fair(false).build(),
            |limiter| limiter.try_acquire(1),
        ),
        asked(Peer, "ratelimit", ratelimit, |limiter| {
            granted(limiter.try_wait())
        }),
        asked(
            Peer,
            "rate-net",
            |answer| {
                let limiter = DirectLimiter::with_quota(rate_net_quota(answer));
                assert!(limiter.check().is_allow(), "one to take");
                limiter
            },
            |limiter| allowed(limiter.check()),
        ),
        asked(
            Peer,
            "rate-net, coarse clock",
            |answer| {
                let clock = CoarseClock::spawn(TICK).expect("a thread");
                let quota = rate_net_quota(answer);
                let limiter = DirectLimiter::with_quota(quota).with_clock(clock);
                assert!(limiter.check().is_allow(), "one to take");
                limiter
            },
            |limiter| allowed(limiter.check()),
        ),
        asked(
            Peer,
            "throttle-net",
            |answer| {
                let builder = throttle_net::Throttle::builder();
                match answer {
                    Answer::Granted => builder.per_second(BILLION).build(),
                    Answer::Denied => builder.rate(1, HOUR).initial(0).build(),
                }
            },
            |limiter| limiter.try_acquire(),
        ),
        // Its slowest rate is one a second, longer than a trial lasts.
        asked(
            Peer,
            "async-rate-limiter",
            |answer| match answer {
                Answer::Granted => async_rate_limiter::RateLimiter::new(BILLION as usize),
                Answer::Denied => {
                    let limiter = async_rate_limiter::RateLimiter::new(1);
                    assert!(limiter.try_acquire().is_ok(), "one to take");
                    limiter
                }
            },
            |limiter| granted(limiter.try_acquire()),
        ),
    ]
}

/// A grant of a rate says yes and no more. A refusal is kept whole: who is refused wants to know for how
/// long.
pub(crate) fn granted<P, D>(answer: Result<P, D>) -> bool {
    match answer {
        Ok(_) => true,
        Err(denied) => {
            black_box(&denied);
            false
        }
    }
}

pub(crate) fn allowed(decision: rate_net::Decision) -> bool {
    if decision.is_deny() {
        black_box(&decision);
    }
    decision.is_allow()
}

fn governor_quota(answer: Answer) -> governor::Quota {
    match answer {
        Answer::Granted => governor::Quota::per_second(NonZeroU32::new(BILLION).expect("not zero")),
        Answer::Denied => governor::Quota::per_hour(NonZeroU32::MIN),
    }
}

fn leaky_bucket(answer: Answer) -> leaky_bucket::Builder {
    let mut builder = leaky_bucket::RateLimiter::builder();
    match answer {
        // It sees to its refills only when it has run out.
        Answer::Granted => builder.max(1 << 40).initial(1 << 40),
        Answer::Denied => builder.max(1).initial(0).interval(HOUR),
    };
    builder
}

fn ratelimit(answer: Answer) -> ratelimit::Ratelimiter {
    let (rate, period, initial) = match answer {
        Answer::Granted => (BILLION, SECOND, BILLION),
        Answer::Denied => (1, HOUR, 0),
    };
    ratelimit::Ratelimiter::builder(u64::from(rate))
        .period(period)
        .initial_available(u64::from(initial))
        .build()
        .expect("a valid rate")
}

fn rate_net_quota(answer: Answer) -> rate_net::Quota {
    match answer {
        Answer::Granted => rate_net::Quota::per_second(BILLION),
        Answer::Denied => rate_net::Quota::rate(1, HOUR).expect("a valid rate"),
    }
}
