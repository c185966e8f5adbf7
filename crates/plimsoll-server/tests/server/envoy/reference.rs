//! Domains of the reference server's configuration.

use tonic::Code;

use super::{DAY, OK, OVER, Served, descriptor};

#[tokio::test]
async fn statuses_are_filled_and_a_refusal_says_when_to_come_back() {
    let mut served = Served::new(
        "{ domain: d, descriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 2, name: per-user } }] }",
    )
    .await;
    let first = served
        .ask(vec![descriptor("user=a"), descriptor("other=b")])
        .await;
    assert_eq!((first.overall_code, first.codes()), (OK, vec![OK, OK]));
    let status = &first.statuses[0];
    let limit = status.current_limit.as_ref().expect("a limit");
    assert_eq!(
        (limit.requests_per_unit, limit.unit, limit.name.as_str()),
        (2, DAY, "per-user")
    );
    assert_eq!((status.limit_remaining, limit.unit_multiplier), (1, None));
    let reset = status.duration_until_reset.expect("a time");
    assert!((1..=86_400).contains(&reset.seconds) && reset.nanos == 0);
    assert_eq!(first.statuses[1].current_limit, None);
    assert_eq!(first.header("retry-after"), None);
    assert_eq!(first.said(&["plimsoll", "verdict"]).as_deref(), Some("ok"));
    served.ask(vec![descriptor("user=a")]).await;
    let third = served.ask(vec![descriptor("user=a")]).await;
    assert_eq!((third.overall_code, third.remaining()), (OVER, vec![0]));
    let wait: i64 = third
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("a number");
    assert!((1..=86_400).contains(&wait));
    assert_eq!(
        third.header("ratelimit-policy"),
        Some(r#""per-user";q=2;w=86400"#)
    );
    assert!(
        third
            .header("ratelimit")
            .expect("a field")
            .starts_with(r#""per-user";r=0;t="#)
    );
    let said = |name| third.said(&["plimsoll", name]);
    assert_eq!(said("verdict").as_deref(), Some("over_limit"));
    assert_eq!(said("limit").as_deref(), Some("per-user"));
    assert_eq!(said("reason").as_deref(), Some("exhausted"));
    assert_eq!(said("remaining").as_deref(), Some("0"));
    let other = served.ask(vec![descriptor("user=b")]).await;
    assert_eq!(other.remaining(), [1], "each value has its own counter");
    served.stop().await;
}

#[tokio::test]
async fn a_refused_request_eats_no_other_quota() {
    let mut served = Served::new(
        "
domain: d
descriptors:
  - { key: small, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: large, rate_limit: { unit: year, requests_per_unit: 100 } }
  - { key: banned, rate_limit: { unit: year, requests_per_unit: 0 } }
",
    )
    .await;
    let both = || vec![descriptor("large=x"), descriptor("small=x")];
    assert_eq!(served.ask(both()).await.remaining(), [99, 0]);
    for _ in 0..5 {
        let refused = served.ask(both()).await;
        assert_eq!(
            (refused.overall_code, refused.codes()),
            (OVER, vec![OK, OVER])
        );
        assert_eq!(refused.remaining(), [99, 0]);
    }
    let banned = served
        .ask(vec![descriptor("large=x"), descriptor("banned=x")])
        .await;
    assert_eq!(
        (banned.codes(), banned.remaining()),
        (vec![OK, OVER], vec![99, 0])
    );
    // Of the same counter twice both are asked for together.
    let twice = served
        .ask(vec![descriptor("small=y"), descriptor("small=y")])
        .await;
    assert_eq!(twice.overall_code, OVER);
    served.stop().await;
}

#[tokio::test]
async fn hits_are_of_the_request_or_of_a_descriptor_and_may_be_nothing_or_negative() {
    let mut served = Served::new(
        "
domain: d
descriptors:
  - { key: a, rate_limit: { unit: year, requests_per_unit: 10 } }
  - { key: b, rate_limit: { unit: year, requests_per_unit: 10 } }
",
    )
    .await;
    let both = vec![descriptor("a=x"), descriptor("b=x").hits(5)];
    let first = served.try_ask("d", both, 3).await.expect("an answer");
    assert_eq!(first.remaining(), [7, 5]);
    let looked = served.ask(vec![descriptor("a=x").hits(0)]).await;
    assert_eq!((looked.codes(), looked.remaining()), (vec![OK], vec![7]));
    // At the limit a look still says yes; above it, no.
    let full = served.ask(vec![descriptor("a=x").hits(7)]).await;
    assert_eq!((full.codes(), full.remaining()), (vec![OK], vec![0]));
    let looked = served.ask(vec![descriptor("a=x").hits(0)]).await;
    assert_eq!((looked.codes(), looked.remaining()), (vec![OK], vec![0]));
    let over = served.ask(vec![descriptor("a=x")]).await;
    assert_eq!(over.codes(), [OVER]);
    let looked = served.ask(vec![descriptor("a=x").hits(0)]).await;
    assert_eq!((looked.overall_code, looked.codes()), (OVER, vec![OVER]));
    // Who looks at an exceeded limit takes nothing of another.
    let refused = served
        .ask(vec![descriptor("a=x").hits(0), descriptor("b=x")])
        .await;
    assert_eq!(
        (refused.overall_code, refused.remaining()),
        (OVER, vec![0, 5])
    );
    let back = served.ask(vec![descriptor("a=x").hits(4).negative()]).await;
    assert_eq!((back.codes(), back.remaining()), (vec![OK], vec![4]));
    let looked = served.ask(vec![descriptor("a=x").hits(0)]).await;
    assert_eq!((looked.codes(), looked.remaining()), (vec![OK], vec![4]));
    let back = served
        .ask(vec![descriptor("a=x").hits(100).negative()])
        .await;
    assert_eq!(back.remaining(), [10], "not below nothing");
    served.stop().await;
}

/// Envoy looks at the start of a stream and charges at its end, when it knows what it cost.
#[tokio::test]
async fn who_charges_more_than_is_left_finds_nothing_left() {
    let mut served = Served::new(
        "{ domain: d, descriptors: [{ key: tokens, rate_limit: { unit: year, requests_per_unit: 100 } }] }",
    )
    .await;
    let (look, charge) = (
        || vec![descriptor("tokens=x").hits(0)],
        |hits| vec![descriptor("tokens=x").hits(hits)],
    );
    let mut passed = 0;
    while served.ask(look()).await.overall_code == OK && passed < 10 {
        passed += 1;
        served.ask(charge(60)).await;
    }
    assert_eq!(passed, 2, "the second one is above the limit");
    served.stop().await;
}

#[tokio::test]
async fn a_limit_that_comes_with_the_request_is_in_the_place_of_the_configuration() {
    let mut served = Served::new(
        "{ domain: d, descriptors: [{ key: k, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }] }",
    )
    .await;
    let own = |limit, times| vec![descriptor("k=v").own(limit, DAY, times)];
    let first = served.ask(own(2, None)).await;
    let limit = first.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!(
        (limit.requests_per_unit, limit.unit, limit.name.as_str()),
        (2, DAY, "")
    );
    assert_eq!(first.remaining(), [1]);
    served.ask(own(2, None)).await;
    assert_eq!(
        served.ask(own(2, None)).await.overall_code,
        OVER,
        "no shadow mode"
    );
    // Other numbers for the same entries: what was used stays used, and what was above the limit counts too.
    assert_eq!(served.ask(own(10, None)).await.remaining(), [6]);
    let thirty = served
        .ask(vec![descriptor("other=v").own(100, 1, Some(30))])
        .await;
    let limit = thirty.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.unit, limit.unit_multiplier), (1, Some(30)));
    let reset = thirty.statuses[0]
        .duration_until_reset
        .expect("a time")
        .seconds;
    assert!((1..=30).contains(&reset));
    let none = served
        .ask(vec![descriptor("third=v").own(0, DAY, None)])
        .await;
    assert_eq!(none.overall_code, OVER);
    let wrong = served
        .try_ask("d", vec![descriptor("k=v").own(1, 0, None)], 0)
        .await;
    let wrong = wrong.expect_err("no unit");
    assert_eq!(
        (wrong.code(), wrong.message()),
        (
            Code::InvalidArgument,
            "descriptors[0].limit: expected a unit from SECOND to WEEK, found 0"
        )
    );
    let wrong = served
        .try_ask("d", vec![descriptor("k=v").own(1, DAY, Some(0))], 0)
        .await;
    assert_eq!(wrong.expect_err("no unit").code(), Code::InvalidArgument);
    served.stop().await;
}

#[tokio::test]
async fn limits_replace_others_and_what_is_unlimited_does_too() {
    let mut served = Served::new(
        "
domain: d
descriptors:
  - { key: banned, rate_limit: { unit: year, requests_per_unit: 0, name: banned } }
  - { key: more, rate_limit: { unit: year, requests_per_unit: 2, replaces: [{ name: banned }, { name: other }] } }
  - { key: all, rate_limit: { unlimited: true, replaces: [{ name: banned }] } }
  - { key: other, rate_limit: { unit: year, requests_per_unit: 1, name: other } }
",
    )
    .await;
    let asked = || {
        vec![
            descriptor("banned=x"),
            descriptor("more=x"),
            descriptor("other=x"),
        ]
    };
    for left in [1, 0] {
        let passed = served.ask(asked()).await;
        assert_eq!(
            (passed.overall_code, passed.remaining()),
            (OK, vec![0, left, 0])
        );
        assert_eq!(passed.statuses[0].current_limit, None);
    }
    assert_eq!(served.ask(asked()).await.overall_code, OVER);
    let other = served.ask(vec![descriptor("other=x")]).await;
    assert_eq!(other.overall_code, OK, "what was replaced was not charged");
    let free = served
        .ask(vec![descriptor("banned=x"), descriptor("all=x")])
        .await;
    assert_eq!(
        (free.overall_code, free.remaining()),
        (OK, vec![0, u32::MAX])
    );
    served.stop().await;
}

#[tokio::test]
async fn shadow_mode_of_a_rule_counts_and_tells_and_lets_pass() {
    let mut served = Served::new(
        "
domain: d
descriptors:
  - { key: s, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 1, name: tomorrow } }
  - { key: real, rate_limit: { unit: year, requests_per_unit: 3 } }
",
    )
    .await;
    let both = || vec![descriptor("s=x"), descriptor("real=x")];
    let first = served.ask(both()).await;
    let shadow = |answer: &super::Answer, name| answer.said(&["plimsoll", "shadow", name]);
    assert_eq!(shadow(&first, "verdict").as_deref(), Some("ok"));
    let second = served.ask(both()).await;
    assert_eq!((second.overall_code, second.codes()), (OK, vec![OK, OK]));
    assert_eq!(second.remaining(), [0, 1]);
    assert_eq!(shadow(&second, "verdict").as_deref(), Some("over_limit"));
    assert_eq!(shadow(&second, "limit").as_deref(), Some("tomorrow"));
    assert_eq!(second.said(&["plimsoll", "verdict"]).as_deref(), Some("ok"));
    served.ask(both()).await;
    assert_eq!(
        served.ask(both()).await.codes(),
        [OK, OVER],
        "others still deny"
    );
    served.stop().await;
}

#[tokio::test]
async fn global_shadow_mode_tells_each_verdict_and_refuses_nothing() {
    let text = "{ domain: d, descriptors: [{ key: k, rate_limit: { unit: year, requests_per_unit: 1 } }] }";
    let mut served = Served::with(&[("a", text)], |envoy| envoy.shadow = true).await;
    served.ask(vec![descriptor("k=v")]).await;
    let second = served.ask(vec![descriptor("k=v")]).await;
    assert_eq!((second.overall_code, second.codes()), (OK, vec![OVER]));
    served.stop().await;
}

const QUOTAS: &str = "
domain: d
descriptors:
  - { key: q1, quota_mode: true, metadata: { tier: gold, first: 1 }, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: q2, quota_mode: true, metadata: { tier: silver, second: yes }, rate_limit: { unit: year, requests_per_unit: 2 } }
  - { key: real, rate_limit: { unit: year, requests_per_unit: 10 } }
  - { key: none, rate_limit: { unit: year, requests_per_unit: 0 } }
";

#[tokio::test]
async fn of_quotas_one_is_enough() {
    let mut served = Served::new(QUOTAS).await;
    let all = || vec![descriptor("q1=x"), descriptor("q2=x"), descriptor("real=x")];
    let first = served.ask(all()).await;
    assert_eq!((first.overall_code, first.remaining()), (OK, vec![0, 1, 9]));
    assert_eq!(
        first.said(&["tier"]).as_deref(),
        Some("gold"),
        "the first one counts"
    );
    assert_eq!(first.said(&["second"]).as_deref(), Some("yes"));
    let second = served.ask(all()).await;
    assert_eq!(
        (second.overall_code, second.codes()),
        (OK, vec![OVER, OK, OK])
    );
    assert_eq!(
        second.said(&["tier"]).as_deref(),
        Some("silver"),
        "of those that passed"
    );
    let third = served.ask(all()).await;
    assert_eq!(
        (third.overall_code, third.codes()),
        (OVER, vec![OVER, OVER, OK])
    );
    assert_eq!(third.remaining(), [0, 0, 8], "nothing was taken");
    let ordinary = served
        .ask(vec![descriptor("q2=y"), descriptor("none=x")])
        .await;
    assert_eq!(
        (ordinary.overall_code, ordinary.remaining()),
        (OVER, vec![2, 0])
    );
    served.stop().await;
}

#[tokio::test]
async fn with_global_quota_mode_what_has_no_limit_is_a_quota_that_passed() {
    let mut served = Served::with(&[("a", QUOTAS)], |envoy| envoy.quota = true).await;
    let refused = served.ask(vec![descriptor("none=x")]).await;
    assert_eq!(refused.overall_code, OVER);
    let passed = served
        .ask(vec![descriptor("none=x"), descriptor("unknown=x")])
        .await;
    assert_eq!((passed.overall_code, passed.codes()), (OK, vec![OVER, OK]));
    let passed = served
        .ask(vec![descriptor("none=x"), descriptor("real=x")])
        .await;
    assert_eq!((passed.overall_code, passed.remaining()), (OK, vec![0, 9]));
    served.stop().await;
}

#[tokio::test]
async fn what_says_nothing_is_refused_in_the_words_of_the_reference_server() {
    let mut served = Served::new(QUOTAS).await;
    let no_domain = served.try_ask("", vec![descriptor("q1=x")], 0).await;
    let status = no_domain.expect_err("no domain");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unknown, "rate limit domain must not be empty")
    );
    let status = served
        .try_ask("d", Vec::new(), 0)
        .await
        .expect_err("no descriptors");
    assert_eq!(
        (status.code(), status.message()),
        (
            Code::Unknown,
            "rate limit descriptor list must not be empty"
        )
    );
    let unknown = served.try_ask("other", vec![descriptor("q1=x")], 0).await;
    let unknown = unknown.expect("no limit");
    assert_eq!((unknown.overall_code, unknown.codes()), (OK, vec![OK]));
    served.stop().await;
}
