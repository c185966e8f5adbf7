//! What limiters report, as JSON. The forms are read by other programs: a change of one is a change of the interface.

use std::fmt::Debug;
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Load, QueueContext, Sample, Verdict};
use plimsoll::{
    Address, Carry, Concurrency, Counts, Demand, Event, EventKind, Full, Gate, ManualClock, Moment,
    Outcome, Priority, Queue, Quota, Reason, Snapshot, Standing, TokenBucket,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{from_value, json, to_value};

#[track_caller]
fn is_written_as<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    value: &T,
    form: serde_json::Value,
) {
    assert_eq!(to_value(value).expect("it has a form"), form);
    assert_eq!(&from_value::<T>(form).expect("it is read back"), value);
}

#[test]
fn words_are_those_of_as_str() {
    for priority in Priority::ALL {
        is_written_as(&priority, json!(priority.as_str()));
    }
    for reason in [
        Reason::Exhausted,
        Reason::TooLarge,
        Reason::QueueFull,
        Reason::Evicted,
        Reason::TimedOut,
        Reason::TooSoon,
        Reason::SoftThrottle,
        Reason::LockedOut,
        Reason::KeysFull,
        Reason::Saturated,
        Reason::Shed,
        Reason::Closed,
        Reason::NoKey,
        Reason::Unavailable,
    ] {
        is_written_as(&reason, json!(reason.as_str()));
    }
    for outcome in [Outcome::Success, Outcome::Overload, Outcome::Ignore] {
        is_written_as(&outcome, json!(outcome.as_str()));
    }
    assert!(from_value::<Reason>(json!("lunch")).is_err());
}

#[test]
fn a_moment_is_a_number_of_nanoseconds() {
    is_written_as(&Moment::from_nanos(1_500), json!(1_500));
    is_written_as(&Moment::from_nanos(u64::MAX), json!(u64::MAX));
}

#[test]
fn a_snapshot_is_named_as_its_getters() {
    let gate = Gate::new(Concurrency::new(4));
    let _permit = gate.try_acquire(3).expect("it fits");
    is_written_as(
        &gate.snapshot(),
        json!({
            "limit": 4, "available": 1, "in_use": 3, "queue_bound": 0, "queued": 0, "waiters": 0,
            "granted_total": 1, "denied_total": 0, "evicted_total": 0, "cancelled_total": 0,
        }),
    );
}

#[test]
fn fields_that_a_later_version_adds_may_be_missing() {
    let snapshot = from_value::<Snapshot>(json!({"limit": 4, "available": 4}));
    assert_eq!(snapshot.expect("it is read"), Snapshot::of(4, 4));
    let standing = from_value::<Standing>(json!({"limit": 4, "remaining": 1, "new": true}));
    assert_eq!(standing.expect("it is read"), Standing::new(4, 1));
}

#[test]
fn a_standing_and_a_refusal_say_when() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(2)).clock(time.clock());
    let gate = gate.name("api").build();
    gate.try_acquire(2).expect("it fits").forget();
    let (half, second) = (
        json!({"secs": 0, "nanos": 500_000_000}),
        json!({"secs": 1, "nanos": 0}),
    );
    is_written_as(
        &gate.standing(),
        json!({
            "limit": 2, "remaining": 0, "more_after": half, "reset": second, "window": second,
            "returns": false,
        }),
    );
    let denied = gate.try_acquire(1).expect_err("it is empty");
    assert_eq!(
        to_value(denied).expect("it has a form"),
        json!({
            "reason": "exhausted", "limit": 2, "remaining": 0, "retry_after": half, "reset": second,
            "limiter": "api",
        })
    );
}

#[test]
fn events_are_flat_and_named_by_their_kind() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .clock(time.clock())
        .build();
    let mut events = gate
        .subscribe(10)
        .filter(|event| event.kind != EventKind::InUseChanged);
    let permit = gate.try_acquire(1).expect("it fits");
    assert!(gate.try_acquire(1).is_err());
    time.advance(Duration::from_secs(2));
    permit.finish(Outcome::Success);

    let forms = [
        json!({"kind": "limit_changed", "at": 0, "in_use": 0}),
        json!({"kind": "processing", "priority": "normal", "at": 0, "in_use": 1}),
        json!({"kind": "rejected", "priority": "normal", "reason": "exhausted", "at": 0, "in_use": 1}),
        json!({
            "kind": "processed", "priority": "normal", "took": {"secs": 2, "nanos": 0},
            "outcome": "success", "at": 2_000_000_000_u64, "in_use": 0,
        }),
    ];
    for mut form in forms {
        form["limit"] = json!(1);
        form["queue_bound"] = json!(0);
        form["queued"] = json!(0);
        let event: Event = events.next().expect("there is one more");
        assert_eq!(form["kind"], event.kind.as_str());
        is_written_as(&event, form);
    }
}

#[test]
fn a_demand_is_its_cost_its_priority_and_how_long_it_waits() {
    let within = Demand::of(3).priority(Priority::Critical);
    let within = within.within(Duration::from_secs(2));
    is_written_as(
        &within,
        json!({"cost": 3, "priority": "critical", "wait": {"within": {"secs": 2, "nanos": 0}}}),
    );
    let normal = |wait| json!({"cost": 1, "priority": "normal", "wait": wait});
    is_written_as(&Demand::ONE, normal(json!("unlimited")));
    is_written_as(&Demand::ONE.at_once(), normal(json!("at_once")));
    let until = Demand::ONE.until(Moment::from_nanos(7));
    is_written_as(&until, normal(json!({"until": 7})));
    let short: Demand = from_value(json!({"cost": 1})).expect("the rest has defaults");
    assert_eq!(short, Demand::ONE);
}

/// A kept demand passes the bound of a queue, which nothing from outside of the process may.
#[test]
fn a_demand_from_outside_is_never_one_that_is_kept() {
    let kept = Demand::ONE.kept_until(Some(Moment::from_nanos(7)));
    let form = to_value(kept).expect("it has a form");
    let read: Demand = from_value(form).expect("it is read back");
    assert_eq!(read, Demand::ONE.until(Moment::from_nanos(7)));
    let forged = json!({"cost": 1, "wait": {"kept": 7}});
    assert!(from_value::<Demand>(forged).is_err());
}

#[test]
fn settings_are_read_back() {
    is_written_as(
        &Queue::fifo(5).timeout(Duration::from_secs(1)),
        json!({
            "bound": 5, "order": "fifo", "full": "incoming", "counts": "excess",
            "timeout": {"secs": 1, "nanos": 0},
        }),
    );
    is_written_as(
        &Queue::random(5)
            .seed(9)
            .full(Full::Newest)
            .counts(Counts::Waiting),
        json!({
            "bound": 5, "order": {"random": {"seed": 9}}, "full": "newest", "counts": "waiting",
            "timeout": null,
        }),
    );
    let none = Queue::fifo(5).timeout(Duration::from_secs(1)).timeout(None);
    assert_eq!(none, Queue::fifo(5));
    for (carry, form) in [
        (Carry::AsIs, "as_is"),
        (Carry::Used, "used"),
        (Carry::Proportional, "proportional"),
        (Carry::Reset, "reset"),
    ] {
        is_written_as(&carry, json!(form));
    }
}

#[test]
fn a_quota_is_checked_when_it_is_read() {
    let minute = json!({"secs": 60, "nanos": 0});
    is_written_as(&Quota::per_minute(5), json!({"units": 5, "period": minute}));
    let error = from_value::<Quota>(json!({"units": 0, "period": minute}));
    let error = error.expect_err("it admits nothing");
    assert_eq!(error.to_string(), "`limit` is 0: expected at least 1");
}

#[test]
fn an_address_is_written_as_people_write_it() {
    for text in [
        "192.0.2.77",
        "192.0.2.0/24",
        "0.0.0.0/0",
        "2001:db8::1",
        "2001:db8::/64",
        "::/0",
    ] {
        let address: Address = from_value(json!(text)).expect(text);
        is_written_as(&address, json!(text));
    }
    for wrong in [
        "192.0.2.1/33",
        "::/129",
        "::/255",
        "192.0.2.1/",
        "example.org",
        "",
    ] {
        let error = from_value::<Address>(json!(wrong)).expect_err(wrong);
        let told = format!("expected an IP address, or a network such as 192.0.2.0/24: {wrong:?}");
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn measurements_are_read_back() {
    let sample = Sample::new(Moment::from_nanos(1), Moment::from_nanos(4), 2);
    is_written_as(
        &sample.overload(true),
        json!({
            "start": 1, "end": 4, "in_flight": 2, "overload": true, "refused": false, "weight": 1,
        }),
    );
    let load = Load::new(Moment::from_nanos(5), 2, 3);
    is_written_as(&load, json!({"now": 5, "in_flight": 2, "queued": 3}));
    is_written_as(
        &QueueContext::default(),
        json!({"limit": 0, "in_flight": 0, "queued": 0, "latency": null}),
    );
    let insight = Gate::new(Adaptive::new(Verdict::new())).insight();
    assert_eq!(
        to_value(insight).expect("it has a form"),
        json!({
            "limit": 20, "queue": null, "lost": 0, "baseline": null, "signal": null,
            "decision": "start", "doubt": null,
        })
    );
}
