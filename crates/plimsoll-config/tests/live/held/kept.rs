//! What is used and what is out goes on counting, whatever becomes of a name.

use std::time::Duration;

use plimsoll::{ManualClock, Permit, Reason};
use plimsoll_config::Limits;
use plimsoll_kinds::Rate;

use super::{ADAPTIVE, RATES, SLOTS, file, held, held_keyed, kinds};
use crate::files::{build, replace};

#[test]
fn no_change_of_kind_closes_what_is_held_nor_the_edit_that_takes_it_back() {
    for from in kinds() {
        for to in kinds() {
            let time = ManualClock::new();
            let limits = build(&file(&from), &time);
            let asks = |limits: &Limits| {
                let limiter = limits.limiter("a");
                let keyed = limits.keyed("a");
                move || match (&limiter, &keyed) {
                    (Some(limiter), _) => limiter.try_acquire(1.into()).map(Permit::into_owned),
                    (_, Some(keyed)) => keyed.try_acquire("k", 1).map(Permit::into_owned),
                    _ => panic!("nothing"),
                }
            };
            let ask = asks(&limits);
            drop(ask());
            for text in [&to, &from, &to] {
                replace(&limits, &file(text));
                time.advance(Duration::from_secs(3600));
                assert!(ask().is_ok(), "{from} -> {to}: {:?}", ask().err());
                let looked_up = asks(&limits);
                time.advance(Duration::from_secs(3600));
                assert!(looked_up().is_ok(), "{from} -> {to}");
            }
        }
    }
}

#[test]
fn what_was_used_of_a_rate_stays_used_whatever_kind_it_becomes() {
    for from in RATES {
        for to in RATES {
            let time = ManualClock::new();
            let limits = build(&file(from), &time);
            let a = held(&limits);
            // A smooth limit owes what it lets through.
            assert!(a.try_acquire(7.into()).is_ok(), "{from}");
            let used = a.snapshot().in_use();
            replace(&limits, &file(to));
            assert!(a.snapshot().in_use() >= used.min(10), "{from} -> {to}");
            let granted = (0..20).filter(|_| a.try_acquire(1.into()).is_ok()).count();
            assert!(granted <= 3, "{from} -> {to}: {granted} more");
            // And back, and by way of something that is no rate at all.
            replace(&limits, &file(SLOTS[0]));
            replace(&limits, &file(from));
            let granted = (0..20).filter(|_| a.try_acquire(1.into()).is_ok()).count();
            assert!(
                granted <= 3,
                "{from} -> {to} -> slots -> {from}: {granted} more"
            );
        }
    }
}

#[test]
fn what_was_used_by_a_key_stays_used_whatever_kind_it_becomes() {
    for from in RATES {
        for to in RATES {
            let time = ManualClock::new();
            let keyed = |kind: &str, more: &str| file(&format!("{kind}, keyed: true{more}"));
            let limits = build(&keyed(from, ""), &time);
            let a = held_keyed(&limits);
            assert!(a.try_acquire("k", 7).is_ok(), "{from}");
            for more in ["", ", max_keys: 50", ", queue: { bound: 3 }", ", name: b"] {
                replace(&limits, &keyed(to, more));
                let granted = (0..20).filter(|_| a.try_acquire("k", 1).is_ok()).count();
                assert!(granted <= 3, "{from} -> {to}{more}: {granted} more");
                let fresh = format!("fresh{more}");
                assert!(a.try_acquire(&fresh, 1).is_ok(), "{from} -> {to}{more}");
                replace(&limits, &keyed(from, ""));
                let granted = (0..20).filter(|_| a.try_acquire("k", 1).is_ok()).count();
                assert!(
                    granted <= 3,
                    "{from} -> {to}{more} and back: {granted} more"
                );
            }
        }
    }
}

#[test]
fn permits_of_the_old_kind_count_in_the_new_one_until_they_come_back() {
    for from in SLOTS {
        for to in SLOTS {
            let time = ManualClock::new();
            let limits = build(&file(from), &time);
            let a = held(&limits);
            let mut out: Vec<_> = (0..7)
                .map(|_| a.try_acquire(1.into()).expect("room"))
                .collect();
            replace(&limits, &file(to));
            let more: Vec<_> = (0..20)
                .filter_map(|_| a.try_acquire(1.into()).ok())
                .collect();
            assert_eq!(more.len(), 3, "{from} -> {to}");
            assert_eq!(a.snapshot().in_use(), 10, "{from} -> {to}");
            drop(out.pop());
            assert_eq!(a.snapshot().in_use(), 9, "{from} -> {to}");
            let again = a.try_acquire(1.into());
            assert!(
                again.is_ok(),
                "{from} -> {to}: what came back is there again"
            );
            // Through a third one, with permits of three out.
            replace(&limits, &file(from));
            assert!(a.try_acquire(1.into()).is_err(), "{from} -> {to} -> {from}");
            drop((out, more, again));
            assert_eq!(a.snapshot().in_use(), 0, "{from} -> {to} -> {from}");
            let all: Vec<_> = (0..20)
                .filter_map(|_| a.try_acquire(1.into()).ok())
                .collect();
            assert_eq!(all.len(), 10, "{from} -> {to} -> {from}");
        }
    }
}

#[test]
fn permits_that_are_out_count_in_a_smaller_limit_too() {
    let time = ManualClock::new();
    let limits = build(&file("kind: concurrency, limit: 10"), &time);
    let a = held(&limits);
    let mut out: Vec<_> = (0..8)
        .map(|_| a.try_acquire(1.into()).expect("room"))
        .collect();
    replace(
        &limits,
        &file("kind: adaptive, algorithm: aimd, min: 3, initial: 3, max: 3"),
    );
    for left in (0..8).rev() {
        assert_eq!(
            a.try_acquire(1.into()).is_ok(),
            left + 1 < 3,
            "{} out",
            left + 1
        );
        out.pop();
    }
    assert_eq!(a.snapshot().in_use(), 0);
}

/// Seen to fail: the second permit did not fit the limit of 1 beside the first, so it was not counted.
#[test]
fn permits_that_exceed_a_limit_that_finds_itself_count_in_it_all_the_same() {
    let time = ManualClock::new();
    let limits = build(&file(ADAPTIVE), &time);
    let a = held(&limits);
    let first = a.try_acquire(1.into()).expect("room");
    replace(&limits, &file("kind: concurrency, limit: 3"));
    let second = a.try_acquire(1.into()).expect("room");
    replace(&limits, &file(ADAPTIVE));
    drop(first);
    assert!(a.try_acquire(1.into()).is_err(), "the second is out");
    drop(second);
    assert!(a.try_acquire(1.into()).is_ok());
}

#[test]
fn what_the_file_forgets_is_refused_and_works_again_when_it_comes_back() {
    for kind in kinds() {
        let time = ManualClock::new();
        let limits = build(&file(&kind), &time);
        let (one, keyed) = (limits.limiter("a"), limits.keyed("a"));
        let ask = || match (&one, &keyed) {
            (Some(one), _) => one.try_acquire(1.into()).map(Permit::into_owned),
            (_, Some(keyed)) => keyed.try_acquire("k", 1).map(Permit::into_owned),
            _ => panic!("nothing"),
        };
        drop(ask());
        assert_eq!(
            replace(&limits, "limiters: {}")
                .removed
                .last()
                .map(String::as_str),
            Some("a")
        );
        let denied = ask().expect_err("the file knows it no more");
        assert_eq!(
            (denied.reason(), denied.limiter()),
            (Reason::Closed, Some("a")),
            "{kind}"
        );
        assert_eq!(
            replace(&limits, &file(&kind))
                .added
                .last()
                .map(String::as_str),
            Some("a")
        );
        time.advance(Duration::from_secs(3600));
        assert!(ask().is_ok(), "{kind}");
    }
}

#[test]
fn taking_a_limit_out_of_the_file_and_putting_it_back_refills_nothing() {
    for kind in RATES {
        let time = ManualClock::new();
        let limits = build(&file(kind), &time);
        // Nobody holds it.
        assert!(held(&limits).try_acquire(10.into()).is_ok(), "{kind}");
        replace(&limits, "limiters: {}");
        replace(&limits, "limiters: {}");
        replace(&limits, &file(kind));
        assert!(held(&limits).try_acquire(1.into()).is_err(), "{kind}");
    }
}

#[test]
fn names_that_come_and_go_are_not_kept_for_ever() {
    let time = ManualClock::new();
    let text =
        |at: u32| format!("limiters: {{ n{at}: {{ kind: fixed_window, limit: 1, window: 1s }} }}");
    let limits = build(&text(0), &time);
    for at in 1..50 {
        let one = limits.limiter(&format!("n{}", at - 1)).expect("there");
        let weak = std::sync::Arc::downgrade(one.shared());
        assert!(one.try_acquire(1.into()).is_ok());
        drop(one);
        replace(&limits, &text(at));
        time.advance(Duration::from_secs(2));
        replace(&limits, &text(at));
        assert!(
            weak.upgrade().is_none(),
            "nobody holds it, and nobody could gain"
        );
    }
}

#[test]
fn a_rate_that_is_held_as_a_rate_goes_on_as_whatever_it_becomes() {
    let time = ManualClock::new();
    let limits = build(&file(RATES[4]), &time);
    let rate = Rate::try_from(held(&limits)).expect("a rate");
    replace(&limits, &file("kind: concurrency, limit: 1"));
    for _ in 0..3 {
        assert!(rate.try_acquire(1.into()).is_ok());
    }
    replace(&limits, &file("kind: fixed_window, limit: 2, window: 1m"));
    assert!(rate.try_acquire(2.into()).is_ok());
    assert!(rate.try_acquire(1.into()).is_err());
}

#[test]
fn reservations_work_behind_a_name_that_has_changed() {
    let time = ManualClock::new();
    let limits = build(&file("kind: concurrency, limit: 1"), &time);
    let a = held(&limits);
    replace(
        &limits,
        &file("kind: token_bucket, burst: 1, refill: 1, every: 1s"),
    );
    let now = a.reserve(1.into()).expect("now");
    let later = a.reserve(1.into()).expect("later");
    assert_eq!(
        (now.wait(), later.wait()),
        (Some(Duration::ZERO), Some(Duration::from_secs(1)))
    );
    drop(later);
    assert_eq!(
        a.reserve(1.into()).expect("later").wait(),
        Some(Duration::from_secs(1))
    );
}

#[test]
fn refusals_and_totals_go_on_under_the_name_that_the_file_says() {
    let time = ManualClock::new();
    let limits = build(&file("kind: fixed_window, limit: 1, window: 1h"), &time);
    let a = held(&limits);
    assert!(a.try_acquire(1.into()).is_ok());
    replace(
        &limits,
        &file("kind: fixed_window, limit: 1, window: 1h, name: calls"),
    );
    let denied = a.try_acquire(1.into()).expect_err("used up");
    assert_eq!((denied.limiter(), a.name()), (Some("calls"), Some("calls")));
    replace(&limits, &file("kind: concurrency, limit: 1"));
    assert!(a.try_acquire(1.into()).is_ok());
    let seen = a.snapshot();
    assert_eq!((seen.granted_total(), seen.denied_total()), (2, 1));
}

#[test]
fn what_the_program_closes_stays_closed() {
    let time = ManualClock::new();
    let limits = build(&file("kind: fixed_window, limit: 1, window: 1h"), &time);
    let a = held(&limits);
    a.close();
    for kind in kinds() {
        replace(&limits, &file(&kind));
        let denied = a.try_acquire(1.into()).expect_err("closed");
        assert_eq!(denied.reason(), Reason::Closed);
    }
}
