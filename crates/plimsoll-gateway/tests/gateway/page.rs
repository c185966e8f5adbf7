//! The live page of a gateway, in a real browser under real traffic.

use serde_json::json;

use super::*;
use crate::browser::Browser;

/// What a row of the servers says, as text.
fn row(server: SocketAddr) -> String {
    format!(
        "const rows = [...document.querySelectorAll('#more tbody tr')]; \
         const row = rows.find((it) => it.cells[0].textContent === 'http://{server}'); \
         return row ? [...row.cells].map((it) => it.textContent).slice(1) : null;"
    )
}

/// A gateway with an admin port.
fn start(text: &str, token: Option<&str>) -> (Running, SocketAddr) {
    let config = Config::from_str("gateway.yaml", text, Format::Yaml);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let mut settings = Settings::default();
    settings.admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.admin_token = token.map(str::to_owned);
    let gateway = Gateway::with_config(&config, &settings);
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let admin = gateway.admin_address().expect("an admin port");
    (Running::run(gateway), admin)
}

/// The answer to a request without a body, or with JSON, and these fields.
async fn ask(at: SocketAddr, line: &str, fields: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(at).await.expect("a connection");
    let kind = "content-type: application/json";
    let request = format!(
        "{line} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n{kind}\r\ncontent-length: {}\r\n{fields}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer))
        .await
        .expect("an answer");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_shown_and_numbers_are_those_of_the_metrics() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let good = server(|_| async { text("ok") }).await;
    let bad = says("garbage").await;
    let (gateway, admin) = start(
        &format!(
            "gateway:\n  listen: 127.0.0.1:0\n  workers: 1\n  upstreams:\n    app: {{ to: {} }}\n    old: {{ to: {} }}\n\
             limits: {{ few: {{ kind: token_bucket, burst: 5, refill: 1, every: 1h }} }}\n\
             routes:\n  - {{ match: /old, limits: [], to: old }}\n  - {{ match: /**, limits: [few], to: app }}\n",
            list(&[good]),
            list(&[bad])
        ),
        None,
    );
    browser.resize(1440, 1000).await;
    browser.theme("light").await;
    browser.open(&format!("http://{admin}/#open=few")).await;
    for _ in 0..7 {
        gateway.get("/").await;
    }
    is_problem(&gateway.get("/old").await, 502, "broken_answer");
    let shown = browser
        .until(&format!(
            "const it = (() => {{ {} }})(); return it?.[1] === '0' && it[2] === '5' ? it : null",
            row(good)
        ))
        .await;
    assert_eq!(shown, json!(["app", "0", "5", "0", "healthy"]));
    // Sent once more, to the only server there is.
    let failed = browser
        .until(&format!(
            "const it = (() => {{ {} }})(); return it?.[3] > '0' ? it : null",
            row(bad)
        ))
        .await;
    let metrics = ask(admin, "GET /metrics", "", "").await;
    let failures = failed[3].as_str().expect("a number");
    for line in [
        format!(
            "plimsoll_gateway_server_answered_total{{pool=\"app\",server=\"http://{good}\"}} 5"
        ),
        format!(
            "plimsoll_gateway_server_failed_total{{pool=\"old\",server=\"http://{bad}\"}} {failures}"
        ),
        "plimsoll_gateway_faults_total{fault=\"broken_answer\"} 1".to_owned(),
        "plimsoll_granted_total{limit=\"few\"} 5".to_owned(),
        "plimsoll_refused_total{limit=\"few\",reason=\"exhausted\"} 2".to_owned(),
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    for (tile, is_hidden) in [
        ("leases", true),
        ("in_flight", false),
        ("connections", false),
    ] {
        let hidden = format!("return document.getElementById('sum-{tile}').parentNode.hidden");
        assert_eq!(browser.run(&hidden).await, json!(is_hidden), "{tile}");
    }
    let told = browser
        .until("return document.getElementById('sum-in_flight').textContent")
        .await;
    assert_eq!(told, json!("0"));
    // What would happen to the next one.
    browser
        .run("document.getElementById('peek').requestSubmit(); return 0")
        .await;
    let said = browser
        .until("return document.getElementById('answer').innerText || null")
        .await;
    let said = said.as_str().expect("text");
    assert!(said.contains("refused by few: exhausted"), "{said}");
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&pictures).expect("a directory");
    for (theme, width) in [("light", 1440), ("dark", 390)] {
        browser.theme(theme).await;
        browser.resize(width, 900).await;
        let spill =
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.run(spill).await, json!(0), "{theme}");
        let picture = pictures.join(format!("gateway-{theme}-{width}.png"));
        browser.screenshot(&picture).await;
        browser.accessible(theme).await;
    }
    browser.run("document.activeElement.blur(); return 0").await;
    browser.press("p").await;
    browser
        .until("return document.getElementById('connection').textContent === 'paused'")
        .await;
    gateway.stop().await;
    browser.quit().await;
}

/// The rules of the port are those of `plimsoll serve`: a token if there is one, no foreign names and sites, a policy.
#[tokio::test]
async fn the_admin_port_is_guarded() {
    let to = "gateway:\n  listen: 127.0.0.1:0\n  upstreams: { app: { to: http://127.0.0.1:1 } }\n";
    let (gateway, admin) = start(to, None);
    let page = ask(admin, "GET /", "", "").await;
    assert!(
        page.contains("content-security-policy: default-src 'none'"),
        "{page}"
    );
    let foreign = "GET /metrics HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(admin).await.expect("a connection");
    stream.write_all(foreign.as_bytes()).await.expect("written");
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer))
        .await
        .expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let question = r#"{"request":{"path":"/"}}"#;
    for (fields, status) in [("", "200"), ("sec-fetch-site: cross-site\r\n", "403")] {
        let answer = ask(admin, "POST /peek", fields, question).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    gateway.stop().await;
    let (gateway, admin) = start(to, Some("sesame"));
    for (line, fields, status) in [
        ("GET /", "", "401"),
        ("GET /metrics", "authorization: Bearer sesam\r\n", "401"),
        ("GET /metrics", "authorization: Bearer sesame\r\n", "200"),
        ("GET /readyz", "", "200"),
        ("GET /none", "authorization: Bearer sesame\r\n", "404"),
    ] {
        let answer = ask(admin, line, fields, "").await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{line}: {answer}"
        );
    }
    gateway.stop().await;
}
