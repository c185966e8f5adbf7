//! Which policies are active: how many, which are reused, and which are swept.

use std::net::Ipv4Addr;
use std::time::Duration;

use plimsoll::Moment;
use plimsoll_policy::{Decision, OpCode, Policies, PoliciesBuilder, Policy};

use crate::policies::{HARD, PEER, TICK, active, build, one, parts, peer, secs};

/// Handlers 1 to `n`, by their policies.
pub(crate) fn handlers(policies: &[(f64, f64)]) -> PoliciesBuilder {
    let declared = (1_u32..).zip(policies);
    declared.fold(Policies::builder(), |builder, (op, (rate, burst))| {
        builder.handler(op, Policy::per_second(*rate).burst(*burst))
    })
}

pub(crate) fn use_op(policies: &Policies, op: u32) -> Decision {
    policies.evaluate(op, PEER).unwrap()
}

#[test]
fn past_the_maximum_the_closest_policy_is_reused() {
    #[rustfmt::skip]
    let cases = [
        // Active, wanted, reused: its credit tells.
        ([(1.0, 1.0), (128.0, 64.0)], (16.0, 16.0),  0),
        ([(1.0, 1.0), (128.0, 64.0)], (128.0, 16.0), 63),
        ([(4.0, 4.0), (8.0, 8.0)],    (8.0, 4.0),    3), // as close: the lower rate
        ([(8.0, 8.0), (4.0, 4.0)],    (8.0, 4.0),    3), // whoever came first
        ([(4.0, 8.0), (4.0, 2.0)],    (4.0, 4.0),    1), // 4 and 2 away
        ([(4.0, 1.0), (4.0, 8.0)],    (4.0, 4.0),    0), // 3 and 4 away
    ];
    for (first, wanted, credit) in cases {
        let (policies, _) = build(handlers(&[first[0], first[1], wanted]).max_policies(2));
        let _ = use_op(&policies, 1);
        let _ = use_op(&policies, 2);
        let decision = use_op(&policies, 3);
        assert_eq!(decision.credit(), credit, "{wanted:?} among {first:?}");
        assert_eq!(policies.report().active_policies(), 2);
    }
}

#[test]
fn a_reused_policy_serves_on_when_there_is_room_again() {
    let policies = handlers(&[(1.0, 64.0), (128.0, 1.0), (1.0, 32.0)]);
    let (policies, time) = build(policies.max_policies(2).cleanup_interval(TICK));
    let _ = use_op(&policies, 1);
    let _ = use_op(&policies, 2);
    time.advance(secs(1800));
    assert_eq!(use_op(&policies, 3).credit(), 63, "by the policy of 1");
    time.advance(secs(1));
    assert_eq!(use_op(&policies, 3).credit(), 63);
    assert_eq!(active(&policies), [(1, 64)], "that of 2 was swept");
    assert_eq!(use_op(&policies, 3).credit(), 62, "nothing was forgotten");
    time.advance(secs(1801));
    let _ = use_op(&policies, 2);
    let _ = use_op(&policies, 3);
    assert_eq!(
        active(&policies),
        [(128, 1), (1, 32)],
        "its own, in the end"
    );
}

#[test]
fn all_tiers_fit_the_usual_maximum() {
    let tiers = |rps: u32| (0..7).map(move |burst| (f64::from(1 << rps), f64::from(1 << burst)));
    let all: Vec<(f64, f64)> = (0..8).flat_map(tiers).collect();
    let (policies, _) = build(handlers(&all));
    for op in 1..=56 {
        let _ = use_op(&policies, op);
    }
    let report = policies.report();
    assert_eq!((report.active_policies(), report.max_policies()), (56, 64));
}

#[test]
fn a_policy_unused_for_half_an_hour_is_swept_at_the_1024th_evaluation() {
    let policies = handlers(&[(1.0, 1.0), (2.0, 2.0), (0.0, 1.0)]);
    let (policies, time) = build(policies.cleanup_interval(secs(86_400)));
    let _ = use_op(&policies, 1);
    time.advance(secs(1));
    let _ = use_op(&policies, 2);
    time.advance(secs(1800));
    for evaluations in 3..1024 {
        let _ = use_op(&policies, 3);
        assert_eq!(policies.report().evaluations(), evaluations);
    }
    assert_eq!(active(&policies), [(2, 2), (1, 1)], "not its time yet");
    let _ = use_op(&policies, 3);
    assert_eq!(active(&policies), [(2, 2)], "exactly 1800 s is not longer");
    time.advance(Duration::from_nanos(1));
    for _ in 0..1023 {
        let _ = use_op(&policies, 3);
    }
    assert_eq!(active(&policies).len(), 1);
    let _ = use_op(&policies, 3);
    assert_eq!(active(&policies).len(), 0);
}

#[test]
fn a_policy_is_swept_when_the_interval_has_passed_however_few_packets_come() {
    let policies = handlers(&[(1.0, 1.0), (0.0, 1.0)]).policy_idle(secs(90));
    let (policies, time) = build(policies.cleanup_interval(secs(60)));
    let _ = use_op(&policies, 1);
    for (at, left) in [(30, 1), (60, 1), (91, 1), (119, 1), (120, 0)] {
        time.advance_to(Moment::from_nanos(at * 1_000_000_000));
        let _ = use_op(&policies, 2);
        assert_eq!(active(&policies).len(), left, "after {at} s");
    }
}

#[test]
fn many_subjects_are_swept_and_the_caller_is_answered() {
    let policies = handlers(&[(1.0, 1.0), (0.0, 1.0)]).max_subjects(2000);
    let (policies, time) = build(policies.cleanup_interval(TICK));
    for host in 0..1000_u32 {
        let address = Ipv4Addr::from(0xC000_0200 + host);
        assert!(policies.evaluate(1_u32, address).unwrap().is_allowed());
    }
    assert_eq!(policies.report().rows()[0].subjects(), 1000);
    time.advance(secs(1801));
    let _ = use_op(&policies, 2);
    assert_eq!(active(&policies), []);
    // From then on they are new.
    assert!(use_op(&policies, 1).is_allowed());
}

#[test]
fn a_policy_is_kept_as_long_as_it_locks_somebody_out() {
    let builder = one(1.0, 1.0).lockout(secs(7200)).max_soft_violations(1);
    let (policies, time) = build(builder.cleanup_interval(TICK));
    let _ = peer(&policies, 1);
    assert_eq!(parts(peer(&policies, 1)), (HARD, 7_200_000, 0));
    time.advance(secs(7199));
    let _ = policies.evaluate(OpCode(1), PEER).unwrap();
    assert_eq!(parts(peer(&policies, 1)), (HARD, 1000, 1));
}
