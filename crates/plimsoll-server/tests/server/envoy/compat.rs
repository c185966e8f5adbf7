//! What the reference server serves beside gRPC, where it is wanted.

use serde_json::{Value, json};

use super::{Served, descriptor};
use crate::http::send;

const CONFIG: &str = "
domain: d
descriptors:
  - key: k
    rate_limit: { unit: week, requests_per_unit: 5, name: wk }
  - key: s
    value: v
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: a
    descriptors:
      - key: b
        descriptors:
          - { key: c, rate_limit: { unit: year, requests_per_unit: 5 } }
";

async fn served() -> Served {
    Served::with(
        &[("deep/er/config.yml", CONFIG), (".hidden", "not: [yaml")],
        |envoy| envoy.compat = true,
    )
    .await
}

#[tokio::test]
async fn json_is_that_of_protobuf() {
    let served = served().await;
    let ask = |body: Value| {
        let http = served.server.http;
        async move { send(http, "POST", "/json", Some(&body), "").await }
    };
    let answer = ask(json!({ "domain": "d", "descriptors": [{ "entries": [{ "key": "k", "value": "x" }], "hitsAddend": "2" }] })).await;
    assert_eq!(answer.status, 200);
    let told = answer.json();
    assert_eq!(told["overallCode"], "OK");
    let status = &told["statuses"][0];
    assert_eq!(
        status["currentLimit"],
        json!({ "name": "wk", "requestsPerUnit": 5, "unit": "WEEK" })
    );
    assert_eq!(status["limitRemaining"], 3);
    let reset = status["durationUntilReset"].as_str().expect("a time");
    assert!(reset.ends_with('s'));
    let headers = told["responseHeadersToAdd"].as_array().expect("headers");
    assert_eq!(
        headers[0],
        json!({ "key": "RateLimit-Limit", "value": "5" })
    );
    assert_eq!(
        headers[1],
        json!({ "key": "RateLimit-Remaining", "value": "3" })
    );
    assert_eq!(headers[2]["value"], reset.trim_end_matches('s'));
    let over = ask(json!({ "domain": "d", "hits_addend": 9, "descriptors": [{ "entries": [{ "key": "k", "value": "x" }] }] })).await;
    assert_eq!(
        (over.status, &over.json()["overallCode"]),
        (429, &json!("OVER_LIMIT"))
    );
    assert_eq!(
        over.json()["statuses"][0].get("limitRemaining"),
        None,
        "0 is left out"
    );
    let own = ask(json!({ "domain": "d", "descriptors": [{ "entries": [{ "key": "z", "value": "x" }], "limit": { "requestsPerUnit": 3, "unit": "SECOND", "unitMultiplier": 30 } }] })).await;
    assert_eq!(
        own.json()["statuses"][0]["currentLimit"],
        json!({ "requestsPerUnit": 3, "unit": "SECOND", "unitMultiplier": 30 })
    );
    for (wrong, why) in [
        (
            json!({ "domain": "d" }),
            "descriptor list must not be empty",
        ),
        (json!({ "domain": "d", "nothing": 1 }), "unknown field"),
        (json!({ "domain": "d", "hitsAddend": -1 }), "did not match"),
        (
            json!({ "domain": "d", "hitsAddend": 5_000_000_000_u64 }),
            "expected a whole number from 0 to 4294967295",
        ),
        (json!([]), "descriptor list must not be empty"),
    ] {
        let answer = ask(wrong.clone()).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(
            answer.body.contains(why) || wrong.is_array(),
            "{wrong} {}",
            answer.body
        );
    }
    let health = send(served.server.http, "GET", "/healthcheck", None, "").await;
    assert_eq!((health.status, health.body.as_str()), (200, "OK"));
    served.stop().await;
}

#[tokio::test]
async fn statistics_have_the_names_of_the_reference_server() {
    let mut served = served().await;
    served.ask(vec![descriptor("k=x").hits(2)]).await;
    served.ask(vec![descriptor("k=x").hits(5)]).await;
    served.ask(vec![descriptor("s=v")]).await;
    served.ask(vec![descriptor("s=v")]).await;
    served.ask(vec![descriptor("a=1,b=2,c=3")]).await;
    served
        .ask(vec![descriptor("k=x,y=z").own(5, 4, None)])
        .await;
    let _ = served.try_ask("unknown", vec![descriptor("a=b")], 0).await;
    let _ = served.try_ask("", vec![descriptor("a=b")], 0).await;
    let admin = served.server.admin;
    let stats = send(admin, "GET", "/stats", None, "").await.body;
    for line in [
        "ratelimit.service.rate_limit.d.k.total_hits: 7",
        "ratelimit.service.rate_limit.d.k.over_limit: 2",
        "ratelimit.service.rate_limit.d.k.near_limit: 1",
        "ratelimit.service.rate_limit.d.k.within_limit: 2",
        "ratelimit.service.rate_limit.d.s_v.shadow_mode: 1",
        "ratelimit.service.rate_limit.d.s_v.over_limit: 1",
        "ratelimit.service.rate_limit.d.a.b.c.total_hits: 1",
        "ratelimit.service.rate_limit.d.k_x.y_z.total_hits: 1",
        "ratelimit.service.rate_limit.unknown.domain_not_found: 1",
        "ratelimit.service.call.should_rate_limit.service_error: 1",
        "ratelimit.service.config_load_success: 1",
        "ratelimit.service.config_load_error: 0",
        "ratelimit_server.ShouldRateLimit.total_requests: 8",
    ] {
        assert!(stats.lines().any(|it| it == line), "{line}\n{stats}");
    }
    let config = send(admin, "GET", "/rlconfig", None, "").await.body;
    let lines: Vec<&str> = config.lines().collect();
    assert_eq!(
        lines,
        [
            "d.k: unit=WEEK requests_per_unit=5, shadow_mode: false",
            "d.s_v: unit=HOUR requests_per_unit=1, shadow_mode: true",
            "d.a.b.c: unit=YEAR requests_per_unit=5, shadow_mode: false",
        ]
    );
    let metrics = send(admin, "GET", "/metrics", None, "").await.body;
    for line in [
        r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="k"} 7"#,
        r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="a",key2="b"} 1"#,
        r#"ratelimit_service_should_rate_limit_error{err_type="service_error"} 1"#,
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}");
    }
    served.stop().await;
}

#[tokio::test]
async fn without_the_switch_none_of_it_is_there() {
    let served = Served::new(CONFIG).await;
    for (port, path) in [
        (served.server.http, "/healthcheck"),
        (served.server.http, "/json"),
        (served.server.admin, "/stats"),
        (served.server.admin, "/rlconfig"),
    ] {
        let answer = send(port, "GET", path, None, "").await;
        assert_eq!(answer.status, 404, "{path}");
    }
    served.stop().await;
}
