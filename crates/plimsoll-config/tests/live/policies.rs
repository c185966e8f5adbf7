//! Policies of a file: by operation and caller, through changes, and with the defaults of the file.

use std::time::Duration;

use plimsoll::{ManualClock, Reason};

use crate::files::{build, config, replace};

const PACKETS: &str = "policies: { lockout: 60s, max_soft_violations: 2 }
limits:
  packets:
    kind: policies
    handlers: { login: { rps: 0.5, burst: 1.5 }, search: { rps: 5, burst: 3 }, ping: { rps: 0 }, ban: { rps: 1, burst: -1 } }
    fallback: { rps: 1, burst: 2 }
    key: [descriptor:op, client]
";

#[test]
fn policies_of_a_file_decide_by_operation_and_caller() {
    let time = ManualClock::new();
    let limits = build(PACKETS, &time);
    let packets = limits.keyed("packets").expect("there");
    let ask = |key| {
        packets
            .try_acquire(key, 1)
            .map_err(|denied| (denied.reason(), denied.retry_after()))
    };
    let second = Some(Duration::from_secs(1));
    // A rate of 0.5 and a burst of 1.5 are rounded up to 1 and 2.
    assert!(ask("login|a").is_ok() && ask("login|a").is_ok());
    assert_eq!(
        ask("login|a").expect_err("refused"),
        (Reason::SoftThrottle, second)
    );
    assert!(ask("login|b").is_ok(), "another caller");
    assert!(ask("search|a").is_ok(), "another operation");
    // The second refusal in a row: the lockout of the section.
    let minute = Some(Duration::from_secs(60));
    assert_eq!(
        ask("login|a").expect_err("locked"),
        (Reason::LockedOut, minute)
    );
    // A rate at or below 0 is no limit, a burst at or below 0 a hard denial.
    assert!((0..1000).all(|_| ask("ping|a").is_ok()));
    assert_eq!(
        ask("ban|a").expect_err("refused"),
        (Reason::LockedOut, None)
    );
    // Operations without a policy share the fallback, for each caller.
    assert!(ask("move|a").is_ok() && ask("chat|a").is_ok());
    assert_eq!(ask("move|a").expect_err("refused").0, Reason::SoftThrottle);
    assert!(ask("move|b").is_ok());
}

#[test]
fn what_callers_have_used_of_policies_outlives_a_change() {
    let time = ManualClock::new();
    let limits = build(PACKETS, &time);
    let packets = limits.keyed("packets").expect("there");
    for key in ["login|a", "login|a", "move|a", "chat|a"] {
        assert!(packets.try_acquire(key, 1).is_ok());
    }
    let changes = replace(&limits, &PACKETS.replace("60s", "30s"));
    assert_eq!(
        changes.replaced,
        ["packets"],
        "a default of its settings has changed"
    );
    assert!(packets.try_acquire("login|a", 1).is_err());
    assert!(packets.try_acquire("move|a", 1).is_err());
    assert!(packets.try_acquire("login|b", 1).is_ok());
    let changes = replace(&limits, &PACKETS.replace("60s", "30s"));
    assert_eq!(changes.unchanged, ["packets"]);
}

#[test]
fn defaults_of_policies_come_from_the_file() {
    let text = "ipv6_prefix: 64
policies:
  fallback: { rps: 2, burst: 3 }
  max_soft_violations: 2
  soft_window: 10s
  lockout: 30s
  initial_tokens: 1
  subject_idle: 20s
  max_subjects: 2
  max_policies: 1
  policy_idle: 40s
  cleanup_interval: 1s
";
    let time = ManualClock::new();
    let policies = config(text).policies().clock(time.clock());
    let policies = policies
        .handler(1_u32, plimsoll_policy::Policy::per_second(1.0).burst(4.0))
        .handler(2_u32, plimsoll_policy::Policy::per_second(64.0).burst(4.0))
        .build()
        .expect("in range");
    let ask = |op: u32, peer: &str| {
        let peer: std::net::IpAddr = peer.parse().expect("an address");
        policies.evaluate(op, peer).expect("open")
    };
    // initial_tokens
    assert!(ask(1, "192.0.2.1").is_allowed());
    assert_eq!(ask(1, "192.0.2.1").reason(), Some(Reason::SoftThrottle));
    // max_soft_violations and soft_window and lockout
    time.advance(Duration::from_millis(500));
    assert_eq!(ask(1, "192.0.2.1").retry_after_ms(), 30_000);
    // ipv6_prefix, max_subjects: the third network has no room
    assert!(ask(1, "2001:db8::1").is_allowed());
    assert!(!ask(1, "2001:db8::2").is_allowed());
    assert_eq!(ask(1, "198.51.100.1").reason(), Some(Reason::LockedOut));
    // max_policies: another tier is served by the one that is there
    let _ = ask(2, "192.0.2.9");
    assert_eq!(policies.report().active_policies(), 1);
    // fallback
    let granted = (0..9).filter(|_| ask(3, "192.0.2.3").is_allowed()).count();
    assert_eq!(granted, 3);
    // policy_idle and cleanup_interval
    time.advance(Duration::from_secs(41));
    let _ = ask(3, "192.0.2.3");
    assert_eq!(policies.report().active_policies(), 0);
    // subject_idle: what began with few tokens is forgotten, so there is room
    assert!(ask(1, "198.51.100.1").is_allowed());
}
