//! Several limiters asked at once: what is refused leaves no trace.

use std::sync::Arc;
use std::time::Duration;

use crate::gates::{all, gate, per_second};
use crate::poll::poll;
use plimsoll::{
    Concurrency, Demand, Gate, Limiter, ManualClock, PenaltyBucket, Quota, Reason, Smooth,
    TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

/// What a limiter answers now and later, if nobody comes in between.
fn answers(limiter: &dyn Limiter) -> Vec<Result<(), plimsoll::Denied>> {
    (0..=4)
        .map(|cost| limiter.estimate(Demand::of(cost)))
        .collect()
}

/// A warm-up that was asked and put back had lost what it had stored. Where the one that refuses has subscribers, its state
/// is behind its lock, and both are decided together; otherwise its word refuses before the warm-up is asked.
#[test]
fn a_refused_attempt_leaves_no_trace_in_a_warm_up() {
    let time = ManualClock::new();
    let bursty = Smooth::bursty(2.0, Duration::from_secs(1));
    let warm_up = Smooth::warm_up(2.0, Duration::from_secs(4), 3.0);
    for (smooth, subscribers) in [
        (warm_up.clone(), false),
        (warm_up, true),
        (bursty.clone(), false),
        (bursty, true),
    ] {
        let full = gate(Concurrency::new(1), &time);
        let _held = full.try_acquire(1).unwrap();
        let _events = subscribers.then(|| full.subscribe(1));
        let asked = gate(smooth.clone(), &time);
        let twin = gate(smooth, &time);
        for members in [
            [asked.clone() as Arc<dyn Limiter>, full.clone()],
            [full.clone(), asked.clone()],
        ] {
            let both = all(&members);
            for millis in [0, 300, 1700] {
                time.advance(Duration::from_millis(millis));
                for cost in 1..=4 {
                    both.try_acquire(cost).unwrap_err();
                    drop(poll(&mut both.acquire(cost)));
                    both.reserve(Demand::of(cost)).unwrap_err();
                }
                assert_eq!(answers(&*asked), answers(&*twin));
            }
            drop((asked.try_acquire(2), twin.try_acquire(2)));
            assert_eq!(answers(&*asked), answers(&*twin));
        }
    }
}

fn penalty(bucket: TokenBucket) -> PenaltyBucket {
    PenaltyBucket::new(bucket)
        .lockout(2, Duration::from_secs(30))
        .soft_window(Duration::from_secs(60))
}

/// The count of refusals was cleared by what was taken and put back.
#[test]
fn a_refused_attempt_leaves_the_count_of_refusals_alone() {
    for subscribers in [false, true] {
        let time = ManualClock::new();
        let strict = gate(penalty(per_second(3)), &time);
        let full = gate(Concurrency::new(1), &time);
        let _held = full.try_acquire(1).unwrap();
        let _events = subscribers.then(|| full.subscribe(1));
        strict.try_acquire(1).unwrap().forget();
        let denied = strict.try_acquire(3).unwrap_err();
        assert_eq!(denied.reason(), Reason::SoftThrottle);
        // It has a token, but there is no slot.
        let both = all(&[strict.clone(), full.clone()]);
        let denied = both.try_acquire(1).unwrap_err();
        assert_eq!(denied.reason(), Reason::Exhausted);
        let denied = strict.try_acquire(3).unwrap_err();
        assert_eq!(denied.reason(), Reason::LockedOut);
    }
}

/// Thirty seconds were told, the lockout of a refusal that never was, where one second is enough. With subscribers, the one
/// that refuses first is decided together with the other.
#[test]
fn only_who_refuses_counts_the_refusal() {
    for subscribers in [false, true] {
        let time = ManualClock::new();
        let strict = gate(penalty(per_second(1)), &time);
        let empty = gate(per_second(1).initial(0), &time);
        let _events = subscribers.then(|| empty.subscribe(1));
        strict.try_acquire(1).unwrap().forget();
        strict.try_acquire(1).unwrap_err();
        let both = all(&[empty.clone(), strict.clone()]);
        for _ in 0..5 {
            let denied = both.try_acquire(1).unwrap_err();
            assert_eq!(denied.retry_after(), Some(SECOND));
        }
        assert_eq!(strict.snapshot().denied_total(), 1);
        time.advance(SECOND);
        both.try_acquire(1).unwrap().forget();

        // It counts its own: the second in a row locks out.
        for both in [
            all(&[strict.clone(), gate(per_second(10), &time)]),
            // Though another would refuse as well: it is asked first.
            all(&[strict.clone(), empty.clone()]),
        ] {
            let denied = both.try_acquire(1).unwrap_err();
            assert_eq!(denied.reason(), Reason::SoftThrottle);
            let denied = both.try_acquire(1).unwrap_err();
            assert_eq!(denied.reason(), Reason::LockedOut);
            assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
            time.advance(Duration::from_secs(30));
            strict.try_acquire(1).unwrap().forget();
            empty.try_acquire(1).unwrap().forget();
        }
        assert_eq!(strict.snapshot().denied_total(), 5);
    }
}

/// It was that of the one that refuses longest; and who came back when the first would have granted was refused again.
#[test]
fn the_refusal_is_that_of_the_first_and_lasts_as_long_as_the_longest() {
    let time = ManualClock::new();
    let named = |name: &str, millis| {
        let rule = TokenBucket::greedy(Quota::new(1, Duration::from_millis(millis))).initial(0);
        Arc::new(Gate::builder(rule).clock(time.clock()).name(name).build()) as Arc<dyn Limiter>
    };
    let three = all(&[named("a", 10), named("b", 30), named("c", 20)]);
    let denied = three.try_acquire(1).unwrap_err();
    assert_eq!(
        (denied.limiter(), denied.retry_after()),
        (Some("a"), Some(Duration::from_millis(30)))
    );
    assert_eq!(three.estimate(Demand::ONE), Err(denied));
}

/// On a clock that moves by itself each refused reservation kept a token of the first member: it was given back only in
/// the same nanosecond.
#[test]
fn refused_reservations_take_nothing_though_time_goes_on() {
    let first = Arc::new(
        Gate::builder(TokenBucket::greedy(Quota::new(
            5,
            Duration::from_secs(1000),
        )))
        .clock(plimsoll::Clock::precise())
        .build(),
    );
    let full = Arc::new(
        Gate::builder(Concurrency::new(1))
            .clock(plimsoll::Clock::precise())
            .build(),
    );
    let _held = full.try_acquire(1).unwrap();
    let both = all(&[first.clone(), full.clone()]);
    for _ in 0..5 {
        both.reserve(Demand::ONE).unwrap_err();
    }
    assert_eq!(first.snapshot().available(), 5);
}

/// Both remember what is undone: whichever of them refuses is asked first. Asked in the order of the members, the first had
/// lost a part of its warm-up to a reservation that was never made.
#[test]
fn a_refused_reservation_leaves_no_trace_where_two_members_remember() {
    for refuser in 0..2 {
        let time = ManualClock::new();
        let smooth = || gate(Smooth::warm_up(10.0, SECOND * 3, 3.0), &time);
        let (members, twin) = ([smooth(), smooth()], smooth());
        let _busy = members[refuser].reserve(40).unwrap();
        let both = all(&[members[0].clone(), members[1].clone()]);
        for _ in 0..5 {
            time.advance(SECOND / 10);
            let demand = Demand::of(3).within(Duration::from_millis(1));
            both.reserve(demand).unwrap_err();
        }
        let granted = &members[1 - refuser];
        for cost in [1, 5, 2] {
            let waits = [granted, &twin].map(|gate| gate.reserve(cost).unwrap().wait());
            assert_eq!(waits[0], waits[1], "{refuser}");
            time.advance(SECOND * 2);
        }
    }
}
