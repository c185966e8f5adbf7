//! A client that learns the quota of a partner from its refusals, against partners with several algorithms, in virtual time.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Response, StatusCode};
use plimsoll::{FixedWindow, Gate, Limiter, ManualClock, Pausable, Quota, SlidingLog, TokenBucket};
use plimsoll_tower::partner::{LearnRate, PartnerLayer};
use tower::{Layer, Service, service_fn};

/// What came of a run: answered and refused by the partner in each second.
struct Run {
    seconds: Vec<(u64, u64)>,
    rate: f64,
}

impl Run {
    /// Answered per second, and the part of all calls that was refused, from a second on.
    fn from(&self, second: usize) -> (f64, f64) {
        let later = &self.seconds[second..];
        let answered: u64 = later.iter().map(|(answered, _)| answered).sum();
        let refused: u64 = later.iter().map(|(_, refused)| refused).sum();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        (
            answered as f64 / later.len() as f64,
            refused as f64 / (answered + refused).max(1) as f64,
        )
    }
}

/// A client that always has something to ask, every two milliseconds once, for so many seconds.
fn run(
    partner: impl Fn(&ManualClock) -> Arc<dyn Limiter>,
    learn: LearnRate,
    seconds: usize,
    fields: fn(&mut Response<()>, &plimsoll::Denied),
    always: fn(&mut Response<()>),
) -> Run {
    let time = ManualClock::new();
    let limit = partner(&time);
    let gate = Gate::builder(Pausable::new(TokenBucket::per_second(1))).clock(time.clock());
    let layer = PartnerLayer::new(gate.build()).learn_rate(learn);
    let counts = Arc::new(Mutex::new((0_u64, 0_u64)));
    let counted = Arc::clone(&counts);
    let mut client = layer.layer(service_fn(move |()| {
        let mut response = Response::new(());
        let mut counts = counted.lock().expect("not poisoned");
        match limit.try_acquire(1.into()) {
            Ok(_) => counts.0 += 1,
            Err(denied) => {
                counts.1 += 1;
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                fields(&mut response, &denied);
            }
        }
        always(&mut response);
        std::future::ready(Ok::<_, Infallible>(response))
    }));
    let mut seconds_seen = Vec::new();
    for _ in 0..seconds {
        for _ in 0..500 {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(client.poll_ready(&mut cx).is_ready());
            let mut call = std::pin::pin!(client.call(()));
            let answer = call.as_mut().poll(&mut cx);
            assert!(matches!(answer, Poll::Ready(_)), "nothing waits here");
            time.advance(Duration::from_millis(2));
        }
        let mut counts = counts.lock().expect("not poisoned");
        seconds_seen.push(std::mem::take(&mut *counts));
    }
    Run {
        seconds: seconds_seen,
        rate: layer.learned_rate().expect("it learns"),
    }
}

fn retry_after(response: &mut Response<()>, denied: &plimsoll::Denied) {
    let after = denied.retry_after().expect("it knows").as_secs_f64().ceil();
    let after = after.to_string().parse().expect("a value");
    response.headers_mut().insert("retry-after", after);
}

fn nothing(_: &mut Response<()>, _: &plimsoll::Denied) {}

fn silent(_: &mut Response<()>) {}

/// A partner on a clock.
type Partner = fn(&ManualClock) -> Arc<dyn Limiter>;

/// Partners that let 50 a second through, each in its way.
fn partners() -> [(&'static str, Partner); 4] {
    [
        ("a token bucket", |time| {
            let rule = TokenBucket::per_second(50);
            Arc::new(Gate::builder(rule).clock(time.clock()).build())
        }),
        ("a window of a second", |time| {
            let rule = FixedWindow::new(Quota::per_second(50));
            Arc::new(Gate::builder(rule).clock(time.clock()).build())
        }),
        ("a window of ten seconds", |time| {
            let rule = FixedWindow::new(Quota::new(500, Duration::from_secs(10)));
            Arc::new(Gate::builder(rule).clock(time.clock()).build())
        }),
        ("a log", |time| {
            let rule = SlidingLog::new(Quota::per_second(50));
            Arc::new(Gate::builder(rule).clock(time.clock()).build())
        }),
    ]
}

#[test]
fn the_rate_settles_close_below_the_quota_whatever_the_partner_counts_by() {
    for (name, partner) in partners() {
        for (told, fields, from) in [
            ("when", retry_after as fn(&mut _, &_), &[1, 400][..]),
            ("nothing", nothing, &[10]),
        ] {
            for initial in from.iter().copied() {
                let learn = LearnRate::from(Quota::per_second(initial)).min(Quota::per_second(1));
                let run = run(partner, learn, 90, fields, silent);
                let (answered, refused) = run.from(40);
                let what = format!(
                    "{name}, told {told}, from {initial}: {answered:.1}/s, {:.2} % refused, rate {:.1}",
                    refused * 100.0,
                    run.rate
                );
                println!("{what}");
                assert!((40.0..=50.5).contains(&answered), "{what}");
                assert!(refused <= 0.02, "{what}");
                // Also at first: each answer adds a quarter, so two windows of 500 that are used up add 250 at most.
                let most = run.seconds.iter().map(|(a, r)| a + r).max().expect("some");
                assert!(most <= 300.max(initial * 3 / 2), "{what}: {most}");
            }
        }
    }
}

#[test]
fn a_policy_that_is_told_is_taken_at_once() {
    let learn = LearnRate::from(Quota::per_second(1));
    let (_, partner) = partners()[0];
    let run = run(partner, learn, 30, nothing, |response| {
        let policy = r#""api";q=3000;w=60"#.parse().expect("a value");
        response.headers_mut().insert("ratelimit-policy", policy);
    });
    let (answered, refused) = run.from(2);
    assert!((answered - 47.5).abs() < 1.0, "{answered}");
    assert!(refused < 0.001, "{refused}");
    assert!((run.rate - 47.5).abs() < 0.01, "{}", run.rate);
}

#[test]
fn it_stays_between_its_floor_and_its_ceiling_and_does_not_grow_unused() {
    let (_, partner) = partners()[0];
    let learn = LearnRate::from(Quota::per_second(10)).max(Quota::per_second(20));
    let bounded = run(partner, learn, 60, nothing, silent);
    assert!((bounded.rate - 20.0).abs() < 1e-9, "{}", bounded.rate);
    assert_eq!(bounded.from(0).1, 0.0, "nothing is refused");
    // A partner that refuses everything.
    let none: Partner = |time| {
        let rule = FixedWindow::new(Quota::new(1, Duration::from_secs(100_000)));
        Arc::new(Gate::builder(rule).clock(time.clock()).build())
    };
    let learn = LearnRate::from(Quota::per_second(10)).min(Quota::per_second(9));
    let refused = run(none, learn, 120, nothing, silent);
    assert!((refused.rate - 9.25).abs() < 0.3, "{}", refused.rate);
    let calls: u64 = refused.seconds.iter().map(|(a, r)| a + r).sum();
    assert!(calls < 20, "the pauses grow: {calls}");
}
