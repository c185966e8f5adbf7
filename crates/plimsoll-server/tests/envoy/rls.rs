//! The rate-limit service, asked by Envoy itself.

use std::time::Duration;

use plimsoll_server::Settings;

use crate::proxy::{Bootstrap, Dir, Proxy, Running, program, upstream};

const CONFIG: &str = "
domain: web
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 2, name: per-user } }
  - { key: tomorrow, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1, name: tomorrow } }
  - { key: cost, rate_limit: { unit: day, requests_per_unit: 10, name: cost } }
  - { key: tokens, rate_limit: { unit: day, requests_per_unit: 100, name: tokens } }
";

const OWN: &str = "
limits:
  slots: { kind: concurrency, limit: 1, key: descriptor:tenant }
  half_minute: { kind: sliding_log, limit: 1, window: 30s, key: header:user }
routes:
  - { match: /**, hosts: [own], headers: { tenant: present }, limits: [slots] }
  - { match: /**, hosts: [own], limits: [half_minute] }
";

/// A route with limits. They stand with the filter: those of the route itself know neither hits nor the end of a stream.
fn route(path: &str, limits: &str) -> String {
    let of = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
    format!(
        "- {{ match: {{ prefix: {path} }}, route: {{ cluster: upstream }}, typed_per_filter_config: {{ envoy.filters.http.ratelimit: {{ '@type': {of}, rate_limits: [{limits}] }} }} }}\n"
    )
}

/// The descriptor of a header field.
fn header(name: &str, key: &str, more: &str) -> String {
    format!(
        "{{ actions: [{{ request_headers: {{ header_name: {name}, descriptor_key: {key} }} }}] {more} }}"
    )
}

fn settings(dir: &Dir) -> Settings {
    dir.write("config/web.yaml", CONFIG);
    let mut settings = Settings::default();
    settings.file = Some(dir.write("own.yaml", OWN));
    settings.envoy.config = vec![dir.0.join("config")];
    settings
}

async fn front(dir: &Dir, rls: &Running, filter: &str, routes: &str) -> Option<Proxy> {
    let program = program("Envoy in front of a service")?;
    let with = Bootstrap {
        rls: rls.grpc,
        upstream: upstream().await,
        filter,
        routes,
    };
    Some(Proxy::start(&program, dir, &with).await)
}

#[tokio::test]
async fn what_envoy_is_told_it_tells_and_without_us_it_lets_pass() {
    let dir = Dir::new();
    let server = Running::with(settings(&dir)).await;
    let late = header("x-account", "tokens", ", hits_addend: { number: 0 }")
        + ", "
        + &header(
            "x-account",
            "tokens",
            ", apply_on_stream_done: true, hits_addend: { format: '%REQ(x-cost)%' }",
        );
    let routes = [
        route("/user", &header("x-user", "user", "")),
        route("/tomorrow", &header("x-user", "tomorrow", "")),
        route(
            "/cost",
            &header(
                "x-user",
                "cost",
                ", hits_addend: { format: '%REQ(x-cost)%' }",
            ),
        ),
        route("/tokens", &late),
    ]
    .concat();
    let filter =
        "domain: web, failure_mode_deny: false, enable_x_ratelimit_headers: DRAFT_VERSION_03";
    let Some(proxy) = front(&dir, &server, filter, &routes).await else {
        return server.stop().await;
    };
    // 429 with its own header fields and ours.
    let first = proxy.get("/user", "x-user: anna\r\n").await;
    assert_eq!((first.status, first.body.as_str()), (200, "up\n"));
    let limit = first.field("x-ratelimit-limit");
    assert_eq!(limit, Some(r#"2, 2;w=86400;name="per-user""#));
    assert_eq!(first.field("x-ratelimit-remaining"), Some("1"));
    proxy.get("/user", "x-user: anna\r\n").await;
    let third = proxy.get("/user?third", "x-user: anna\r\n").await;
    assert_eq!(third.status, 429, "{third:?}");
    let seconds = |name| third.field(name).and_then(|it| it.parse::<u64>().ok());
    assert!(seconds("retry-after").is_some_and(|it| (1..=86_400).contains(&it)));
    assert!(seconds("x-ratelimit-reset").is_some());
    assert_eq!(
        third.field("ratelimit-policy"),
        Some(r#""per-user";q=2;w=86400"#)
    );
    assert_eq!(third.field("x-envoy-ratelimited"), Some("true"));
    let line = proxy.logged("/user?third ").await;
    assert_eq!(line, "/user?third 429 RL over_limit per-user - -");
    let other = proxy.get("/user", "x-user: bob\r\n").await;
    assert_eq!(other.status, 200);
    // Shadow in its own log.
    for (path, shadow) in [("/tomorrow?a", "ok"), ("/tomorrow?b", "over_limit")] {
        assert_eq!(proxy.get(path, "x-user: anna\r\n").await.status, 200);
        let line = proxy.logged(&format!("{path} ")).await;
        assert_eq!(line, format!("{path} 200 - ok - {shadow} tomorrow"));
    }
    // Hits of a header field.
    let costs = proxy.get("/cost", "x-user: anna\r\nx-cost: 7\r\n").await;
    assert_eq!(costs.field("x-ratelimit-remaining"), Some("3"));
    assert_eq!(
        proxy
            .get("/cost", "x-user: anna\r\nx-cost: 4\r\n")
            .await
            .status,
        429
    );
    // A look at the start of a stream, and the charge at its end.
    let mut passed = 0;
    for _ in 0..200 {
        if proxy
            .get("/tokens", "x-account: 7\r\nx-cost: 60\r\n")
            .await
            .status
            != 200
        {
            break;
        }
        passed += 1;
    }
    // The charge comes after the answer: one more may have looked before it.
    assert!((2..=4).contains(&passed), "{passed}");
    // We stop: it lets pass.
    server.stop().await;
    let alone = proxy.get("/user?alone", "x-user: anna\r\n").await;
    assert_eq!(alone.status, 200, "{alone:?}");
}

#[tokio::test]
async fn nothing_fails_while_the_configuration_changes_and_without_us_it_may_refuse() {
    let dir = Dir::new();
    let mut settings = settings(&dir);
    // Nor while connections become old.
    settings.grpc_age = Some(Duration::from_millis(50));
    let server = Running::with(settings).await;
    let routes = route("/", &header("x-user", "load", ""));
    let filter = "domain: web, failure_mode_deny: true, status_on_error: { code: 503 }";
    let Some(proxy) = front(&dir, &server, filter, &routes).await else {
        return server.stop().await;
    };
    let limit = |number: u32| {
        format!(
            "{{ domain: web, descriptors: [{{ key: load, rate_limit: {{ unit: day, requests_per_unit: 1000000, name: n{number} }} }}] }}"
        )
    };
    let mut seen = Vec::new();
    let (mut number, mut asked) = (1, 0);
    dir.write("config/web.yaml", &limit(number));
    while number < 4 && asked < 20_000 {
        let path = format!("/{asked}");
        let answer = proxy.get(&path, "x-user: anna\r\n").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        asked += 1;
        if asked % 50 == 0 {
            let line = proxy.logged(&format!("{path} ")).await;
            if line.contains(&format!("ok n{number} ")) {
                seen.push(number);
                number += 1;
                dir.write("config/web.yaml", &limit(number));
            }
        }
    }
    assert_eq!(seen, [1, 2, 3], "it was read again under load");
    server.stop().await;
    let alone = proxy.get("/alone", "x-user: anna\r\n").await;
    assert_eq!(alone.status, 503, "{alone:?}");
}

#[tokio::test]
async fn our_own_limits_stand_behind_descriptors_and_slots_last_as_long_as_streams() {
    let dir = Dir::new();
    let server = Running::with(settings(&dir)).await;
    let slot = header("x-tenant", "tenant", "")
        + ", "
        + &header(
            "x-tenant",
            "tenant",
            ", apply_on_stream_done: true, hits_addend: { number: 1, is_negative_hits: true }",
        );
    let routes = [
        route("/slow", &slot),
        route("/user", &header("x-user", "user", "")),
    ]
    .concat();
    let filter = "domain: own, enable_x_ratelimit_headers: DRAFT_VERSION_03";
    let Some(proxy) = front(&dir, &server, filter, &routes).await else {
        return server.stop().await;
    };
    let first = proxy.get("/user", "x-user: anna\r\n").await;
    let limit = first.field("x-ratelimit-limit");
    assert_eq!(
        (first.status, limit),
        (200, Some(r#"1, 1;w=30;name="half_minute""#))
    );
    let second = proxy.get("/user", "x-user: anna\r\n").await;
    assert_eq!(
        (second.status, second.field("content-type")),
        (429, Some("application/problem+json"))
    );
    assert!(second.body.contains("quota-exceeded"), "{second:?}");
    // Two streams at a time of one slot: one of them waits for nobody, and is refused.
    let stream = || proxy.get("/slow", "x-tenant: t\r\n");
    let (one, two) = tokio::join!(stream(), stream());
    let mut both = [one.status, two.status];
    both.sort_unstable();
    assert_eq!(both, [200, 429]);
    // The end of the stream gives the slot back, a moment after its answer.
    let mut again = stream().await.status;
    for _ in 0..20 {
        if again == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        again = stream().await.status;
    }
    assert_eq!(again, 200);
    server.stop().await;
}
