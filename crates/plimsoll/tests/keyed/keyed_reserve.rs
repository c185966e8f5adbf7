//! Reservations for a key are those of a gate: they are cancelled, undone and served as there, and the key keeps its place.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{
    Concurrency, Demand, Gate, Keyed, KeyedBuilder, ManualClock, Permit, Queue, Quota, Reason,
    Reservation, Rule, SlidingLog, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

fn keyed<R: Rule + Clone>(rule: R, time: &ManualClock) -> KeyedBuilder<String, R> {
    Keyed::builder(rule).clock(time.clock())
}

fn bucket() -> TokenBucket {
    TokenBucket::greedy(Quota::per_second(2))
}

fn poll(reservation: &mut Reservation<'static>) -> Poll<Result<Permit<'static>, plimsoll::Denied>> {
    Pin::new(reservation).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_reservation_is_served_at_its_time_and_outlives_the_limit() {
    let time = ManualClock::new();
    let keyed = keyed(bucket(), &time).build();
    let mut now = keyed.reserve_owned("red", 2).unwrap();
    let mut later = keyed.reserve_owned("red", 1).unwrap();
    assert_eq!(
        (now.wait(), later.wait()),
        (Some(Duration::ZERO), Some(SECOND / 2))
    );
    assert!(
        keyed
            .reserve_owned("blue", 2)
            .unwrap()
            .wait()
            .unwrap()
            .is_zero()
    );
    drop(keyed);
    assert!(poll(&mut now).is_ready());
    assert!(poll(&mut later).is_pending());
    time.advance(SECOND / 2);
    let Poll::Ready(Ok(permit)) = poll(&mut later) else {
        panic!("its time has come");
    };
    assert_eq!(permit.granted_at(), time.clock().precise_now());
}

/// Whatever happens to reservations while time goes on, a key is left as a gate is.
#[test]
fn dropping_and_undoing_leave_a_key_as_they_leave_a_gate() {
    fn check<R: Rule + Clone>(rule: &R) {
        for undoes in [false, true] {
            for millis in [0, 250, 500, 1_000, 1_700] {
                let time = ManualClock::new();
                let gate = Gate::builder(rule.clone()).clock(time.clock()).build();
                let keyed = keyed(rule.clone(), &time).build();
                let ways: [&dyn Fn() -> Reservation<'static>; 2] =
                    [&|| gate.reserve_owned(1).unwrap(), &|| {
                        keyed.reserve_owned("red", 1).unwrap()
                    }];
                let made = ways.map(|reserve| [reserve(), reserve(), reserve()]);
                time.advance(Duration::from_millis(millis));
                for [first, second, third] in made {
                    for reservation in [third, first] {
                        if undoes {
                            reservation.undo();
                        } else {
                            drop(reservation);
                        }
                    }
                    drop(second);
                }
                let left = keyed.standing("red");
                assert_eq!(left, gate.standing(), "{undoes} {millis}");
                if undoes && millis == 0 {
                    assert_eq!(left.remaining, Some(2));
                }
            }
        }
    }
    check(&bucket());
    check(&TokenBucket::interval(Quota::per_second(2)));
    check(&SlidingLog::new(Quota::per_second(2)));
}

#[test]
fn the_permit_of_a_reservation_is_undone_by_its_key() {
    let time = ManualClock::new();
    let keyed = keyed(bucket(), &time).build();
    let gate = Gate::builder(bucket()).clock(time.clock()).build();
    let mut of_key = [0, 1, 2].map(|_| keyed.reserve_owned("red", 1).unwrap());
    let mut of_gate = [0, 1, 2].map(|_| gate.reserve_owned(1).unwrap());
    time.advance(SECOND / 2);
    let permit = |reservation: &mut _| match poll(reservation) {
        Poll::Ready(Ok(permit)) => permit,
        _ => panic!("its time has come"),
    };
    for at in [2, 0, 1] {
        keyed.undo("red", permit(&mut of_key[at]));
        permit(&mut of_gate[at]).undo();
        assert_eq!(keyed.standing("red"), gate.standing());
    }
    assert!(keyed.standing("red").remaining > Some(0));
}

#[test]
fn a_reservation_holds_a_place_in_the_queue_of_a_key_and_gives_it_up() {
    let time = ManualClock::new();
    let keyed = keyed(Concurrency::new(1), &time)
        .queue(Queue::fifo(1))
        .max_keys(1)
        .build();
    let busy = keyed.try_acquire("red", 1).unwrap();
    let mut waiting = keyed.reserve_owned("red", 1).unwrap();
    assert_eq!(waiting.wait(), None);
    let full = keyed.reserve_owned("red", 1).unwrap_err();
    assert_eq!(full.reason(), Reason::QueueFull);
    drop(busy);
    // The key keeps its place.
    let denied = keyed.try_acquire("blue", 1).unwrap_err();
    assert_eq!(denied.reason(), Reason::KeysFull);
    let Poll::Ready(Ok(permit)) = poll(&mut waiting) else {
        panic!("there is room");
    };
    let second = keyed.reserve_owned("red", 1).unwrap();
    drop(permit);
    drop(second);
    assert!(keyed.try_acquire("blue", 1).is_ok());
}

#[test]
fn what_cannot_be_had_in_time_is_refused() {
    let time = ManualClock::new();
    let keyed = keyed(bucket(), &time).build();
    keyed.try_acquire("red", 2).unwrap().forget();
    let late = Demand::of(2).within(SECOND / 2);
    assert!(keyed.reserve_owned("red", late).is_err());
    assert!(keyed.reserve_owned("red", 3).is_err());
    assert!(
        keyed
            .reserve_owned("red", Demand::of(1).within(SECOND / 2))
            .is_ok()
    );
    keyed.close();
    let closed = keyed.reserve_owned("red", 1).unwrap_err();
    assert_eq!(closed.reason(), Reason::Closed);
}
