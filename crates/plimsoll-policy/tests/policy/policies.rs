//! What policies decide, case by case.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use plimsoll::{ManualClock, Reason, TokenBucket};
use plimsoll_policy::{Closed, Decision, OpCode, Policies, PoliciesBuilder, Policy, Remote};

pub(crate) const SOFT: Option<Reason> = Some(Reason::SoftThrottle);
pub(crate) const HARD: Option<Reason> = Some(Reason::LockedOut);
pub(crate) const OP: OpCode = OpCode(7);
pub(crate) const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const TICK: Duration = Duration::from_nanos(1);

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// On a clock moved by hand.
pub(crate) fn build(builder: PoliciesBuilder) -> (Policies, ManualClock) {
    let time = ManualClock::new();
    (builder.clock(time.clock()).build().unwrap(), time)
}

/// One handler.
pub(crate) fn one(rate: f64, burst: f64) -> PoliciesBuilder {
    Policies::builder().handler(OP, Policy::per_second(rate).burst(burst))
}

pub(crate) fn peer(policies: &Policies, host: u8) -> Decision {
    let address = Ipv4Addr::new(192, 0, 2, host);
    policies.evaluate(OP, address).unwrap()
}

/// (reason, retry after in ms, credit)
pub(crate) fn parts(decision: Decision) -> (Option<Reason>, u32, u16) {
    assert_eq!(decision.is_allowed(), decision.reason().is_none());
    let (after, credit) = (decision.retry_after_ms(), decision.credit());
    (decision.reason(), after, credit)
}

/// What is active: rates and bursts.
pub(crate) fn active(policies: &Policies) -> Vec<(u64, u64)> {
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
