//! Tiers, and limits for single keys.

use std::time::Duration;

use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, Limits};
use plimsoll_tower::Head;

use crate::limits;

const TIERS: &str = "limits:
  tokens:
    kind: token_bucket
    burst: 2
    refill: 1
    every: 1h
    key: header:authorization
    tiers:
      by: header:x-plan
      pro: { kind: token_bucket, burst: 5, refill: 1, every: 1h }
      internal: unlimited
    overrides:
      robot: blocked
      vip: { kind: token_bucket, burst: 9, refill: 1, every: 1h }
routes: [{ match: /**, limits: [tokens] }]
";

fn granted(limits: &Limits, ask: Ask<'_>) -> usize {
    (0..100)
        .take_while(|_| limits.try_decide(&[ask]).is_ok())
        .count()
}

#[test]
fn a_tier_has_a_limit_of_its_own() {
    let (limits, _time) = limits(TIERS);
    let tokens = Ask::new("tokens");
    assert_eq!(granted(&limits, tokens.key("a")), 2);
    assert_eq!(granted(&limits, tokens.key("b").tier("pro")), 5);
    assert_eq!(granted(&limits, tokens.key("c").tier("internal")), 100);
    assert_eq!(granted(&limits, tokens.key("d").tier("no such plan")), 2);
    assert_eq!(granted(&limits, tokens.key("robot")), 0);
    assert_eq!(
        granted(&limits, tokens.key("vip").tier("pro")),
        9,
        "the key counts before the tier"
    );
}

#[test]
fn the_refusal_of_a_tier_has_the_name_of_the_limit() {
    let (limits, _time) = limits(TIERS);
    let ask = Ask::new("tokens").key("b").tier("pro").cost(6);
    assert_eq!(
        limits
            .try_decide(&[ask])
            .expect_err("it is refused")
            .limit(),
        "tokens"
    );
}

#[test]
fn what_was_used_stays_used_when_a_key_changes_its_tier() {
    let (limits, time) = limits(TIERS);
    let anna = Ask::new("tokens").key("anna");
    assert_eq!(granted(&limits, anna), 2);
    assert_eq!(granted(&limits, anna.tier("pro")), 3, "2 of 5 are used");
    assert_eq!(granted(&limits, anna), 0);
    assert_eq!(
        granted(&limits, anna.tier("pro")),
        0,
        "changing back and forth gains nothing"
    );
    time.advance(Duration::from_secs(3600));
    assert_eq!(granted(&limits, anna.tier("pro")), 1);
}

#[test]
fn what_was_used_before_an_unlimited_tier_counts_in_the_next_one() {
    let (limits, _time) = limits(TIERS);
    let anna = Ask::new("tokens").key("anna");
    assert_eq!(granted(&limits, anna), 2);
    assert_eq!(granted(&limits, anna.tier("internal")), 100);
    assert_eq!(granted(&limits, anna.tier("pro")), 3, "2 of 5 are used");
}

#[test]
fn another_file_does_not_forget_which_tier_a_key_had() {
    let (limits, _time) = limits(TIERS);
    let anna = Ask::new("tokens").key("anna");
    assert_eq!(granted(&limits, anna.tier("pro")), 5);
    // Another tier stands before the one that she had.
    let tiers =
        "by: header:x-plan\n      basic: { kind: token_bucket, burst: 3, refill: 1, every: 1h }";
    let text = TIERS.replace("by: header:x-plan", tiers);
    let config = Config::from_str("limits.yaml", &text, Format::Yaml).expect("it is right");
    limits.replace(&config).expect("it can be built");
    assert_eq!(granted(&limits, anna.tier("basic")), 0, "5 are used");
    assert_eq!(granted(&limits, anna), 0);
    assert_eq!(granted(&limits, anna.key("bert").tier("basic")), 3);
}

/// What each limit says of a decision that is looked at.
fn peeked(limits: &Limits, ask: Ask<'_>) -> (bool, Option<Duration>, Option<u64>) {
    let remaining = |answer: Option<plimsoll_engine::Answer<'_>>| answer?.standing?.remaining;
    match limits.peek(&[ask]) {
        Ok(hold) => (true, None, remaining(hold.answers().next())),
        Err(refusal) => {
            let remaining = remaining(refusal.answers().next());
            (false, refusal.retry_after(), remaining)
        }
    }
}

#[test]
fn looking_at_another_tier_leaves_nothing_behind() {
    let (looked_at, _time) = limits(TIERS);
    let (alone, _time) = limits(TIERS);
    let anna = Ask::new("tokens").key("anna");
    for limits in [&looked_at, &alone] {
        assert!(limits.try_decide(&[anna.tier("pro").cost(4)]).is_ok());
    }
    let request = |plan: &str| {
        let request = http::Request::get("/").header("authorization", "anna");
        request
            .header("x-plan", plan)
            .body(())
            .expect("it is right")
    };
    for tier in ["no such plan", "internal", "pro", "no such plan"] {
        let _ = looked_at.peek(&[anna.tier(tier)]);
        let _ = looked_at.peek_request(&Head::of(&request(tier)));
        let _ = looked_at.asks_of(&Head::of(&request(tier)));
    }
    // 1 of 5 is left, and nothing of 2: as if nobody had looked.
    for limits in [&looked_at, &alone] {
        assert_eq!(granted(limits, anna.tier("pro")), 1);
        assert_eq!(granted(limits, anna), 0);
    }
}

#[test]
fn looking_at_another_tier_says_what_a_decision_would() {
    let (limits, time) = limits(TIERS);
    let anna = Ask::new("tokens").key("anna");
    assert!(limits.try_decide(&[anna.cost(1)]).is_ok());
    assert_eq!(
        peeked(&limits, anna.tier("pro").cost(4)),
        (true, None, Some(4))
    );
    assert!(!peeked(&limits, anna.tier("pro").cost(5)).0);
    assert!(limits.try_decide(&[anna.tier("pro").cost(4)]).is_ok());
    // 5 are used, 3 more than the limit itself ever has.
    let looked = peeked(&limits, anna);
    assert_eq!(
        looked,
        (false, Some(Duration::from_secs(4 * 3600)), Some(0))
    );
    let refusal = limits.try_decide(&[anna]).expect_err("5 are used");
    assert_eq!(refusal.retry_after(), looked.1);
    time.advance(Duration::from_secs(4 * 3600));
    assert!(peeked(&limits, anna).0);
    assert!(limits.try_decide(&[anna]).is_ok());
}
