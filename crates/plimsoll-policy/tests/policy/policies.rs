//! What policies decide, case by case.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use plimsoll::{ManualClock, Moment, Reason, TokenBucket};
use plimsoll_policy::{Closed, Decision, OpCode, Policies, PoliciesBuilder, Policy, Remote};

const SOFT: Option<Reason> = Some(Reason::SoftThrottle);
const HARD: Option<Reason> = Some(Reason::LockedOut);
const OP: OpCode = OpCode(7);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TICK: Duration = Duration::from_nanos(1);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// On a clock moved by hand.
fn build(builder: PoliciesBuilder) -> (Policies, ManualClock) {
    let time = ManualClock::new();
    (builder.clock(time.clock()).build().unwrap(), time)
}

/// One handler.
fn one(rate: f64, burst: f64) -> PoliciesBuilder {
    Policies::builder().handler(OP, Policy::per_second(rate).burst(burst))
}

fn peer(policies: &Policies, host: u8) -> Decision {
    let address = Ipv4Addr::new(192, 0, 2, host);
    policies.evaluate(OP, address).unwrap()
}

/// (reason, retry after in ms, credit)
fn parts(decision: Decision) -> (Option<Reason>, u32, u16) {
    assert_eq!(decision.is_allowed(), decision.reason().is_none());
    let (after, credit) = (decision.retry_after_ms(), decision.credit());
    (decision.reason(), after, credit)
}

/// What is active: rates and bursts.
fn active(policies: &Policies) -> Vec<(u64, u64)> {
    let report = policies.report();
    report.rows().iter().map(|r| (r.rps(), r.burst())).collect()
}

#[test]
fn the_table_of_decisions_holds() {
    let known = Remote::from(PEER);
    let free = || Policies::builder().without_fallback();
    let cold = || one(1.0, 1.0).initial_tokens(0);
    #[rustfmt::skip]
    let cases = [
        ("no policy",                    free(),                         known,           (None, 0, u16::MAX)),
        ("no policy, no address",        free(),                         Remote::UNKNOWN, (None, 0, u16::MAX)),
        ("no policy, no address, limit", Policies::builder(),            Remote::UNKNOWN, (SOFT, 1000, 0)),
        ("no policy, global limit",      Policies::builder(),            known,           (None, 0, 11)),
        ("rate 0",                       one(0.0, 1.0),                  known,           (None, 0, u16::MAX)),
        ("rate below 0",                 one(-3.0, 1.0),                 known,           (None, 0, u16::MAX)),
        ("rate 0, burst 0",              one(0.0, 0.0),                  known,           (None, 0, u16::MAX)),
        ("rate 0, no address",           one(0.0, 1.0),                  Remote::UNKNOWN, (None, 0, u16::MAX)),
        ("burst 0",                      one(1.0, 0.0),                  known,           (HARD, 2_147_483_647, 0)),
        ("burst below 0",                one(1.0, -0.5),                 known,           (HARD, 2_147_483_647, 0)),
        ("burst 0, no address",          one(1.0, 0.0),                  Remote::UNKNOWN, (HARD, 2_147_483_647, 0)),
        ("no address",                   one(1.0, 1.0),                  Remote::UNKNOWN, (SOFT, 1000, 0)),
        ("bucket grants",                one(5.0, 2.5),                  known,           (None, 0, 3)),
        ("bucket refuses",               cold(),                         known,           (SOFT, 1000, 0)),
        ("bucket locks out",             cold().max_soft_violations(1).lockout(secs(2)), known, (HARD, 2000, 0)),
    ];
    for (case, builder, remote, expected) in cases {
        let (policies, _) = build(builder);
        let decision = policies.evaluate(OP, remote).unwrap();
        assert_eq!(parts(decision), expected, "{case}");
    }
}

#[test]
fn closed_policies_decide_nothing() {
    for builder in [one(0.0, 1.0), one(1.0, 1.0), one(1.0, 0.0)] {
        let (policies, _) = build(builder);
        let _ = policies.evaluate(OP, PEER).unwrap();
        policies.close();
        policies.close();
        assert_eq!(policies.evaluate(OP, PEER), Err(Closed));
        assert_eq!(policies.clone().evaluate(OpCode(1), PEER), Err(Closed));
        let report = policies.report();
        assert_eq!((report.active_policies(), report.evaluations()), (0, 1));
    }
}

#[test]
fn policies_are_rounded_up_to_tiers() {
    let cases = [
        (Policy::per_second(1.0), (1, 1)),
        (Policy::per_second(5.0).burst(2.5), (8, 4)),
        (Policy::per_second(200.0).burst(100.0), (128, 64)),
        (Policy::per_second(f64::INFINITY).burst(f64::MAX), (128, 64)),
    ];
    for (policy, tier) in cases {
        let (policies, _) = build(Policies::builder().handler(OP, policy));
        let _ = peer(&policies, 1);
        assert_eq!(active(&policies), [tier], "{policy:?}");
    }
}

#[test]
fn hints_are_whole_milliseconds_that_suffice() {
    let (policies, time) = build(one(128.0, 1.0));
    assert_eq!(parts(peer(&policies, 1)), (None, 0, 0));
    // 7.8125 ms
    assert_eq!(parts(peer(&policies, 1)), (SOFT, 8, 0));
    time.advance(Duration::from_millis(8));
    assert_eq!(parts(peer(&policies, 1)), (None, 0, 0));
}

#[test]
fn refusals_in_a_row_become_a_lockout() {
    let (policies, time) = build(one(1.0, 2.0).lockout(secs(2)));
    #[rustfmt::skip]
    let steps = [
        (0,    (None, 0, 1)),
        (0,    (None, 0, 0)),
        (0,    (SOFT, 1000, 0)),
        (0,    (SOFT, 1000, 0)),
        (0,    (HARD, 2000, 0)),
        (500,  (HARD, 1500, 0)),
        (1499, (HARD, 1, 1)),
        (1,    (None, 0, 1)),
        (0,    (None, 0, 0)),
        (0,    (SOFT, 1000, 0)),
    ];
    for (step, (later, expected)) in steps.into_iter().enumerate() {
        time.advance(Duration::from_millis(later));
        assert_eq!(parts(peer(&policies, 1)), expected, "step {step}");
    }
}

#[test]
fn refusals_far_apart_and_lockouts_of_nothing_lock_nobody_out() {
    let slow = TokenBucket::greedy(plimsoll::Quota::per_hour(1));
    let fallback = Policies::builder().fallback(slow);
    let (policies, time) = build(fallback.lockout(secs(60)).soft_window(secs(1)));
    let _ = peer(&policies, 1);
    for _ in 0..10 {
        assert_eq!(peer(&policies, 1).reason(), SOFT);
        time.advance(Duration::from_millis(1001));
    }
    let (policies, _) = build(one(1.0, 1.0));
    let _ = peer(&policies, 1);
    for _ in 0..10 {
        assert_eq!(parts(peer(&policies, 1)), (SOFT, 1000, 0));
    }
}

#[test]
fn a_subject_is_an_operation_and_an_address_without_port() {
    let (policies, _) = build(one(1.0, 1.0).handler(8_u16, Policy::per_second(1.0)));
    let ask = |op: u32, address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        policies.evaluate(op, address).unwrap().is_allowed()
    };
    assert!(ask(7, "192.0.2.1:1"));
    assert!(!ask(7, "192.0.2.1:2"), "another port");
    assert!(!ask(7, "[::ffff:192.0.2.1]:3"), "the same, mapped");
    assert!(ask(8, "[::ffff:192.0.2.1]:3"), "another operation");
    assert!(!ask(8, "192.0.2.1:1"), "the same again");
    assert!(ask(7, "192.0.2.2:1"), "another address");
    assert!(ask(7, "[2001:db8::1]:1"));
    assert!(!ask(7, "[2001:db8::1]:2"), "another port");
    assert!(ask(7, "[2001:db8::2]:1"), "another address");
}

#[test]
fn ipv6_addresses_can_be_limited_by_prefix() {
    let (policies, _) = build(one(1.0, 1.0).ipv6_prefix(64));
    let ask = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        policies.evaluate(OP, address).unwrap().is_allowed()
    };
    assert!(ask("2001:db8::1"));
    assert!(!ask("2001:db8::ffff:1"));
    assert!(ask("2001:db8:0:1::1"));
    assert!(ask("192.0.2.1") && ask("192.0.2.2"), "IPv4 is as it was");
}

#[test]
fn handlers_without_policy_share_a_limit_for_each_address() {
    let fallback = TokenBucket::per_second(1).burst(2);
    let (policies, _) = build(one(1.0, 1.0).fallback(fallback));
    let ask = |op: u32, host: u8| {
        let address = Ipv4Addr::new(192, 0, 2, host);
        parts(policies.evaluate(op, address).unwrap())
    };
    assert_eq!(ask(100, 1), (None, 0, 1));
    assert_eq!(ask(200, 1), (None, 0, 0));
    assert_eq!(ask(300, 1), (SOFT, 1000, 0));
    assert_eq!(ask(300, 2), (None, 0, 1), "another address");
    assert_eq!(ask(7, 1), (None, 0, 0), "a policy of its own");
}

#[test]
fn without_room_for_another_subject_it_is_refused_and_nobody_is_forgotten() {
    for (lockout, expected) in [(secs(2), (HARD, 2000, 0)), (secs(0), (SOFT, 1000, 0))] {
        let (policies, time) = build(one(1.0, 2.0).max_subjects(1).lockout(lockout));
        assert_eq!(parts(peer(&policies, 1)), (None, 0, 1));
        assert_eq!(parts(peer(&policies, 2)), expected);
        assert_eq!(parts(peer(&policies, 1)), (None, 0, 0));
        time.advance(secs(2));
        let again = parts(peer(&policies, 2));
        assert_eq!(again, (None, 0, 1), "the first is as good as new");
    }
}

#[test]
fn subjects_that_start_with_less_keep_what_they_save_until_they_are_stale() {
    let cold = one(2.0, 4.0).initial_tokens(0).subject_idle(secs(60));
    // It comes seldom, and would always be new if it were forgotten meanwhile. (So few subjects are kept together,
    // so that each evaluation forgets whom it can.)
    let (policies, time) = build(cold.max_subjects(100));
    assert_eq!(parts(peer(&policies, 1)), (SOFT, 500, 0));
    time.advance(secs(59));
    assert_eq!(parts(peer(&policies, 1)), (None, 0, 3));
    time.advance(secs(61));
    assert_eq!(parts(peer(&policies, 1)), (SOFT, 500, 0), "stale");
    // More tokens than the bucket holds is a full bucket.
    let (policies, _) = build(one(2.0, 4.0).initial_tokens(64));
    assert_eq!(parts(peer(&policies, 1)), (None, 0, 3));
}

/// Handlers 1 to `n`, by their policies.
fn handlers(policies: &[(f64, f64)]) -> PoliciesBuilder {
    let declared = (1_u32..).zip(policies);
    declared.fold(Policies::builder(), |builder, (op, (rate, burst))| {
        builder.handler(op, Policy::per_second(*rate).burst(*burst))
    })
}

fn use_op(policies: &Policies, op: u32) -> Decision {
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

#[test]
fn options_out_of_range_are_named() {
    let new = Policies::builder;
    let long = Duration::from_millis(2_147_483_648);
    #[rustfmt::skip]
    let cases = [
        (new().max_policies(0),         "`max_policies` is 0: expected from 1 to 64"),
        (new().max_policies(65),        "`max_policies` is 65: expected from 1 to 64"),
        (new().policy_idle(secs(0)),    "`policy_idle` is 0s: expected more than 0"),
        (new().cleanup_interval(secs(0)), "`cleanup_interval` is 0s: expected more than 0"),
        (new().max_subjects(0),         "`max_subjects` is 0: expected at least 1"),
        (new().subject_idle(secs(0)),          "`subject_idle` is 0s: expected more than 0"),
        (new().max_soft_violations(0),  "`max_soft_violations` is 0: expected at least 1"),
        (new().soft_window(secs(0)),    "`soft_window` is 0s: expected more than 0"),
        (new().lockout(long),           "`lockout` is 2147483.648s: expected at most 2147483647 ms"),
        (new().initial_tokens(65),      "`initial_tokens` is 65: expected at most 64"),
        (new().ipv6_prefix(0),          "`ipv6_prefix` is 0: expected from 1 to 128"),
        (new().ipv6_prefix(129),        "`ipv6_prefix` is 129: expected from 1 to 128"),
        (one(f64::NAN, 1.0),            "`requests_per_second` is NaN: expected a number"),
        (one(1.0, f64::NAN),            "`burst` is NaN: expected a number"),
        (one(1.0, 1.0).handler(OP, Policy::unlimited()), "`handler` is 7: expected one policy for each"),
    ];
    for (builder, expected) in cases {
        assert_eq!(builder.build().unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_report_lists_the_active_policies_the_highest_first() {
    let (policies, time) = build(handlers(&[(5.0, 2.5), (5.0, 9.0), (200.0, 1.0)]));
    time.advance(secs(86_400));
    let _ = use_op(&policies, 1);
    let _ = policies.evaluate(1_u32, Ipv4Addr::LOCALHOST).unwrap();
    time.advance(secs(61));
    let _ = use_op(&policies, 3);
    let _ = use_op(&policies, 2);
    time.advance(Duration::from_millis(500));

    let report = policies.report();
    assert_eq!(report.time(), Moment::from_nanos(86_461_500_000_000));
    assert_eq!((report.active_policies(), report.max_policies()), (3, 64));
    assert_eq!(report.evaluations(), 4);
    let last_used = report.rows()[2].last_used();
    assert_eq!(last_used, Moment::from_nanos(86_400_000_000_000));
    let text = "\
1970-01-02T00:01:01Z: 3 of 64 policies active, 4 evaluations
  rps  burst  subjects  last used
  128      1         1  1970-01-02T00:01:01Z
    8     16         1  1970-01-02T00:01:01Z
    8      4         2  1970-01-02T00:00:00Z
";
    assert_eq!(report.to_string(), text);
}

#[test]
fn a_report_has_at_most_32_rows_in_every_form() {
    let tiers = |rps: u32| (0..7).map(move |burst| (f64::from(1 << rps), f64::from(1 << burst)));
    let all: Vec<(f64, f64)> = (0..8).flat_map(tiers).collect();
    let (policies, _) = build(handlers(&all));
    for op in 1..=56 {
        let _ = use_op(&policies, op);
    }
    let report = policies.report();
    assert_eq!((report.active_policies(), report.rows().len()), (56, 32));
    assert_eq!((report.rows()[0].rps(), report.rows()[31].rps()), (128, 8));
    let text = report.to_string();
    assert!(text.starts_with("1970-01-01T00:00:00Z: 56 of 64 policies active"));
    assert!(text.ends_with("  and 24 more\n"), "{text}");
    let pairs: Vec<_> = report.pairs().collect();
    assert_eq!(pairs.len(), 4 + 32 * 4);
    assert_eq!(pairs[1], ("ActivePolicies".to_owned(), "56".to_owned()));
    assert_eq!(pairs[131].0, "Policies[31].LastUsedUtc");
}

#[cfg(feature = "serde")]
#[test]
fn a_report_can_be_written_by_serde() {
    let (policies, time) = build(handlers(&[(5.0, 2.5)]));
    time.advance(secs(3));
    let _ = use_op(&policies, 1);
    let written = serde_json::to_value(policies.report()).unwrap();
    let expected = serde_json::json!({
        "time": 3_000_000_000_u64,
        "active_policies": 1,
        "max_policies": 64,
        "evaluations": 1,
        "rows": [{"rps": 8, "burst": 4, "subjects": 1, "last_used": 3_000_000_000_u64}],
    });
    assert_eq!(written, expected);
}

#[test]
fn the_port_is_kept_to_report_and_takes_no_part() {
    let one: SocketAddr = "192.0.2.1:40000".parse().unwrap();
    let other: SocketAddr = "192.0.2.1:40001".parse().unwrap();
    let (one, other) = (Remote::from(one), Remote::from(other));
    assert_eq!(one, other);
    assert_eq!((one.port(), other.port()), (Some(40000), Some(40001)));
    assert_eq!(one.to_string(), "192.0.2.1:40000");
    assert_eq!(Remote::from(PEER).to_string(), "192.0.2.1");
    assert_eq!(Remote::UNKNOWN.to_string(), "unknown");
    assert_eq!(std::collections::HashSet::from([one, other]).len(), 1);
}

#[test]
fn decisions_are_told_with_operation_and_port() {
    let (policies, _) = build(handlers(&[(1.0, 2.0), (0.0, 1.0)]));
    let _ = use_op(&policies, 1);
    let mut events = policies.subscribe(100);
    let peer = SocketAddr::from((PEER, 40_000));
    for _ in 0..2 {
        let _ = policies.evaluate(1_u32, peer).unwrap();
    }
    let _ = policies.evaluate(2_u32, peer).unwrap();
    let _ = policies.evaluate(9_u32, Remote::UNKNOWN).unwrap();
    let told: Vec<_> = events
        .by_ref()
        .map(|it| {
            let key = (it.key.op.0, it.key.remote.port());
            (key, it.event.kind.as_str(), it.event.limit, it.event.in_use)
        })
        .collect();
    assert_eq!(
        told,
        [
            ((1, Some(40_000)), "processing", 2, 2),
            ((1, Some(40_000)), "rejected", 2, 2),
            ((2, Some(40_000)), "processing", 0, 0),
            ((9, None), "rejected", 0, 0),
        ]
    );
    drop(events);
    let (tell, heard) = std::sync::mpsc::channel();
    let listener = policies
        .subscribe_with(move |it| tell.send(it.key.op).unwrap())
        .unwrap();
    let _ = policies.evaluate(2_u32, peer).unwrap();
    assert_eq!(heard.recv().unwrap(), OpCode(2));
    listener.finish();
}

#[cfg(feature = "tracing")]
mod logs {
    use std::fmt::{Debug, Write};
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Notes every event as a line.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }

    impl Subscriber for Notes {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "plimsoll::policy"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn missing_policies_lockouts_sweeps_and_the_end_are_logged() {
        let notes = Notes::default();
        tracing::subscriber::with_default(notes.clone(), || {
            let builder = one(1.0, 1.0).lockout(secs(30)).max_soft_violations(1);
            let (policies, time) = build(builder.cleanup_interval(secs(60)));
            let peer = SocketAddr::from((PEER, 40_000));
            let ask = |op: u32, remote: Remote| {
                let _ = policies.evaluate(op, remote).unwrap();
            };
            ask(7, peer.into());
            ask(7, peer.into()); // a lockout begins
            time.advance(secs(1));
            ask(7, peer.into()); // and goes on
            ask(7, Remote::UNKNOWN);
            ask(9, peer.into());
            time.advance(secs(1801));
            ask(9, peer.into());
            policies.close();
            policies.close();
        });
        let lines = notes.0.lock().unwrap();
        let expected = [
            "WARN message=lockout op=7 remote=\"192.0.2.1:40000\" retry_after_ms=30000",
            "WARN message=a packet without an address op=7",
            "TRACE message=no policy op=9 remote=\"192.0.2.1:40000\" fallback=true",
            "TRACE message=no policy op=9 remote=\"192.0.2.1:40000\" fallback=true",
            "DEBUG message=swept policies=1 subjects=1",
            "INFO message=closed policies=0 subjects=1 evaluations=6",
        ];
        assert_eq!(*lines, expected);
    }
}
