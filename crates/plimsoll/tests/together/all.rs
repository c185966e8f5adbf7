//! Several limiters at once: all or none, charged once, and the refusal says who it was.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    All, Clock, Concurrency, Demand, Denied, Gate, Limiter, ManualClock, Outcome, Quota, Reason,
    Rule, TokenBucket,
};

use crate::gates::gate;
use crate::rules;

const TEN: Quota = Quota::per_second(10);

fn named<R: Rule>(name: &str, rule: R, time: &ManualClock) -> Arc<dyn Limiter> {
    Arc::new(Gate::builder(rule).clock(time.clock()).name(name).build())
}

/// A limiter of every kind.
fn every(time: &ManualClock) -> Vec<Arc<dyn Limiter>> {
    let mut limiters = rules::rates(TEN, None, &time.clock());
    limiters.push(named("concurrency", Concurrency::new(10), time));
    limiters
}

/// A limiter with nothing left.
fn empty(name: &str, time: &ManualClock) -> Arc<dyn Limiter> {
    named(name, TokenBucket::greedy(TEN).initial(0), time)
}

/// What a limiter answers to every cost, and everything it says about itself.
fn seen(limiter: &dyn Limiter) -> (Vec<Result<(), Denied>>, plimsoll::Snapshot) {
    let answers = (0..=11).map(|cost| limiter.estimate(Demand::of(cost)));
    (answers.collect(), limiter.snapshot())
}

#[test]
fn what_was_taken_before_the_refusal_is_given_back_exactly() {
    let time = ManualClock::new();
    let members = every(&time);
    let never = Quota::new(1, Duration::from_secs(1 << 30));
    let never = TokenBucket::greedy(never).burst(10).initial(0);
    let last = named("never", never, &time);
    let all = All::new(members.iter().cloned().chain([last]));
    // At odd moments, with fractions of tokens and used segments about.
    for nanos in [0, 1, 99_999_999, 123_456_789, 777_777_777] {
        time.advance(Duration::from_nanos(nanos));
        for member in &members {
            drop(member.try_acquire(Demand::of(3)));
        }
        let before: Vec<_> = members.iter().map(|member| seen(&**member)).collect();
        for cost in 0..=10 {
            all.try_acquire(cost).unwrap_err();
        }
        let after: Vec<_> = members.iter().map(|member| seen(&**member)).collect();
        for (before, after) in before.into_iter().zip(after) {
            assert_eq!(before.0, after.0);
            let counts =
                |seen: plimsoll::Snapshot| (seen.available(), seen.in_use(), seen.granted_total());
            assert_eq!(counts(before.1), counts(after.1));
        }
    }
}

#[test]
fn each_member_is_charged_once() {
    let time = ManualClock::new();
    let members = every(&time);
    let all = All::new(members.iter().cloned());
    let permit = all.try_acquire(4).unwrap();
    for member in &members {
        let snapshot = member.snapshot();
        let counts = (snapshot.available(), snapshot.granted_total());
        assert_eq!(counts, (6, 1), "{:?}", member.name());
    }
    drop(permit);
    for member in &members {
        let left = if member.name() == Some("concurrency") {
            10
        } else {
            6
        };
        assert_eq!(member.snapshot().available(), left, "{:?}", member.name());
    }
    let totals = all.snapshot();
    assert_eq!((totals.granted_total(), totals.denied_total()), (1, 0));
}

#[test]
fn a_permit_of_all_behaves_as_any_permit() {
    let time = ManualClock::new();
    let slots = gate(Concurrency::new(10), &time);
    let rate = gate(TokenBucket::greedy(TEN), &time);
    let all = All::new([slots.clone() as Arc<dyn Limiter>, rate.clone()]);
    let mut permit = all.try_acquire(6).unwrap();
    let part = permit.split(2).unwrap();
    drop(part);
    assert_eq!(slots.snapshot().in_use(), 4);
    permit.merge(all.try_acquire(1).unwrap()).unwrap();
    permit = permit.merge(slots.try_acquire(1).unwrap()).map_or_else(
        |other| {
            drop(other);
            permit
        },
        |()| panic!("a permit of one member is none of all"),
    );
    std::thread::scope(|scope| {
        let owned = permit.into_owned();
        scope.spawn(move || owned.finish(Outcome::Success));
    });
    assert_eq!(slots.snapshot().in_use(), 0);
    assert_eq!(rate.snapshot().available(), 3);
}

#[test]
fn undoing_a_permit_of_all_gives_back_to_every_member() {
    let time = ManualClock::new();
    time.advance(Duration::from_nanos(123_456_789));
    let members = every(&time);
    let all = All::new(members.iter().cloned());
    all.try_acquire(3).unwrap().forget();
    let before: Vec<_> = members.iter().map(|member| seen(&**member)).collect();
    all.try_acquire(4).unwrap().undo();
    let after: Vec<_> = members.iter().map(|member| seen(&**member)).collect();
    assert_eq!(before, after);
}

#[test]
fn the_refusal_names_the_first_that_refuses() {
    let time = ManualClock::new();
    let full = |name| named(name, TokenBucket::greedy(TEN), &time);
    let all = |members: Vec<Arc<dyn Limiter>>| Arc::new(All::new(members)) as Arc<dyn Limiter>;
    let anonymous = gate(TokenBucket::greedy(TEN).initial(0), &time) as Arc<dyn Limiter>;
    let outer = |name: &str, member| All::new([full("a"), member]).with_name(name);
    let cases = [
        (
            All::new([full("a"), empty("b", &time), empty("c", &time)]),
            Some("b"),
        ),
        (
            All::new([full("a"), all(vec![full("b"), empty("c", &time)])]),
            Some("c"),
        ),
        (outer("outer", empty("b", &time)), Some("b")),
        (outer("outer", anonymous.clone()), Some("outer")),
        (outer("outer", all(vec![anonymous.clone()])), Some("outer")),
        (All::new([full("a"), anonymous]), None),
    ];
    for (all, name) in cases {
        assert_eq!(all.try_acquire(1).unwrap_err().limiter(), name, "{all:?}");
        assert_eq!(all.estimate(Demand::ONE).unwrap_err().limiter(), name);
    }
}

#[test]
fn all_would_grant_when_the_last_of_those_would_that_refuse() {
    let time = ManualClock::new();
    let slow = |name, millis| {
        let quota = Quota::new(1, Duration::from_millis(millis));
        named(name, TokenBucket::greedy(quota).initial(0), &time)
    };
    let slots = || {
        let gate = gate(Concurrency::new(1), &time);
        gate.try_acquire(1).unwrap().forget();
        gate as Arc<dyn Limiter>
    };
    let full = || named("full", TokenBucket::greedy(TEN), &time);
    let millis = |millis| Some(Duration::from_millis(millis));
    let cases = [
        (
            All::new([slow("a", 10), slow("b", 30), slow("c", 20)]),
            millis(30),
        ),
        (All::new([slow("a", 30), slow("b", 10), full()]), millis(30)),
        (All::new([slow("a", 30), slots()]), None),
        (All::new([slots(), slow("a", 30)]), None),
    ];
    for (all, expected) in cases {
        let denied = all.try_acquire(1).unwrap_err();
        assert_eq!(denied.retry_after(), expected, "{all:?}");
        assert_eq!(all.estimate(Demand::ONE), Err(denied));
    }
}

#[test]
fn who_comes_back_exactly_then_is_granted() {
    let time = ManualClock::new();
    let members = rules::rates(TEN, None, &time.clock());
    let all = All::new(members.clone());
    for (member, cost) in members.iter().zip([9, 7, 5, 3]) {
        member.try_acquire(Demand::of(cost)).unwrap().forget();
        time.advance(Duration::from_millis(130));
    }
    for cost in [7, 8, 9, 10] {
        let Err(denied) = all.try_acquire(cost) else {
            continue;
        };
        let after = denied.retry_after().unwrap();
        time.advance(after - Duration::from_nanos(1));
        assert!(all.try_acquire(cost).is_err(), "{cost}");
        time.advance(Duration::from_nanos(1));
        assert!(all.try_acquire(cost).is_ok(), "{cost}");
    }
}

#[test]
fn it_shows_the_tightest_of_its_members() {
    let time = ManualClock::new();
    let slots = gate(Concurrency::new(4), &time);
    let rate = gate(TokenBucket::greedy(TEN), &time);
    let all = All::new([slots.clone() as Arc<dyn Limiter>, rate.clone()]);
    let _three = slots.try_acquire(3).unwrap();
    rate.try_acquire(5).unwrap().forget();
    let seen = all.snapshot();
    assert_eq!((seen.limit(), seen.available(), seen.in_use()), (4, 1, 5));
    assert_eq!(all.try_acquire(2).unwrap_err().reason(), Reason::Exhausted);
    assert_eq!(all.try_acquire(5).unwrap_err().reason(), Reason::TooLarge);
    assert_eq!(all.snapshot().denied_total(), 2);
}

#[test]
fn closing_it_closes_its_members() {
    let time = ManualClock::new();
    let members = every(&time);
    let all = All::new(members.iter().cloned());
    all.close();
    assert_eq!(all.try_acquire(1).unwrap_err().reason(), Reason::Closed);
    for member in members {
        let denied = member.try_acquire(Demand::ONE).unwrap_err();
        assert_eq!(denied.reason(), Reason::Closed);
    }
}

#[test]
fn members_may_go_by_different_clocks() {
    let time = ManualClock::new();
    let here = gate(TokenBucket::greedy(TEN), &time);
    here.try_acquire(9).unwrap().forget();
    let elsewhere = Arc::new(
        Gate::builder(TokenBucket::greedy(TEN))
            .clock(Clock::precise())
            .build(),
    );
    let all = All::new([elsewhere as Arc<dyn Limiter>, here.clone()]);
    all.try_acquire(1).unwrap().undo();
    assert_eq!(here.snapshot().available(), 1);
}
