//! The live page, in a real browser under real traffic.

use std::path::PathBuf;

use serde_json::json;

use crate::Running;
use crate::browser::Browser;
use crate::http::{post, send};

const FILE: &str = "limits:
  per_client: { kind: token_bucket, burst: 5, refill: 1, every: 1h, key: client }
  tomorrow: { kind: fixed_window, limit: 2, window: 1h, key: client, mode: shadow }
  slots: { concurrency: adaptive }
  uploads: { kind: concurrency, limit: 2 }
routes:
  - { match: /api/**, limits: [per_client, tomorrow] }
";

/// Where pictures stay, for people to look at.
fn pictures() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&target).expect("a directory");
    target
}

/// What a card says under a word, as a number.
fn value(limit: &str, word: &str) -> String {
    format!(
        "const card = [...document.querySelectorAll('article')].find((it) => it.ariaLabel === '{limit}'); \
         const row = [...(card?.querySelectorAll('tr') ?? [])].find((it) => it.cells[0].textContent === '{word}'); \
         return row ? Number(row.cells[1].textContent) : null;"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_those_of_the_metrics_charts_move_and_everybody_can_use_it() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let directory = std::env::temp_dir().join(format!("plimsoll-page-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("limits.yaml");
    std::fs::write(&file, FILE).expect("it is written");
    let server = Running::start(file.to_str(), None).await;
    let page = format!("http://{}/", server.admin);

    browser.resize(1440, 1000).await;
    browser.theme("light").await;
    browser
        .open(&format!("{page}#open=per_client&open=slots"))
        .await;
    browser
        .until("return document.querySelectorAll('article').length === 4")
        .await;
    browser
        .until("return document.getElementById('connection').textContent === 'live'")
        .await;

    // Nine requests of one client: five pass, and two of nine would pass the limit in shadow mode.
    let chart = "return document.querySelector('article path.granted').getAttribute('d')";
    let before = browser.run(chart).await;
    let ask = json!({ "request": { "path": "/api/items", "peer": "203.0.113.7" } });
    for _ in 0..9 {
        post(&server, "/v1/check", ask.clone()).await;
    }
    let lease = json!({ "hold": { "limit": "uploads" } });
    assert_eq!(post(&server, "/v1/leases", lease).await.status, 201);
    browser
        .until(&format!(
            "const it = (() => {{ {} }})(); return it === 4",
            value("per_client", "exhausted")
        ))
        .await;
    assert_eq!(browser.run(&value("per_client", "granted")).await, json!(5));
    let metrics = send(server.admin, "GET", "/metrics", None, "").await.body;
    for line in [
        "plimsoll_granted_total{limit=\"per_client\"} 5",
        "plimsoll_refused_total{limit=\"per_client\",reason=\"exhausted\"} 4",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    browser
        .until("return document.getElementById('sum-leases').textContent === '1'")
        .await;
    // The first answer of a stream comes at once, so the chart has moved on since.
    browser
        .until(&format!("return (() => {{ {chart} }})() !== {before}"))
        .await;
    let told = "return document.querySelector('article .use').innerText.replace(/\\s+/g, ' ')";
    assert_eq!(
        browser.run(told).await,
        json!("5 in use, 5 for each of 1 key")
    );
    // Masked: the address of the client is nowhere on the page.
    browser
        .until("return document.querySelector('article').innerText.includes('refused most')")
        .await;
    assert_eq!(
        browser
            .run("return document.body.innerText.includes('203.0.113.7')")
            .await,
        json!(false)
    );

    // What would happen: the limit that binds is named, and nothing is charged.
    browser
        .run(
            "const form = document.getElementById('peek').elements; form.path.value = '/api/items'; \
              form.peer.value = '203.0.113.7'; document.getElementById('peek').requestSubmit(); return 0",
        )
        .await;
    let said = browser
        .until("return document.getElementById('answer').innerText || null")
        .await;
    let said = said.as_str().expect("text");
    assert!(said.contains("refused by per_client: exhausted"), "{said}");
    assert!(said.contains("would refuse (shadow)"), "{said}");
    assert_eq!(
        browser
            .run("return document.querySelector('tr.binds').cells[0].textContent")
            .await,
        json!("per_client")
    );
    let again = send(server.admin, "GET", "/metrics", None, "").await.body;
    let count = |text: &str| {
        text.lines()
            .find(|it| it.starts_with("plimsoll_refused_total"))
            .map(str::to_owned)
    };
    assert_eq!(count(&metrics), count(&again));

    // The file changes, and the page says how.
    std::fs::write(&file, FILE.replace("limit: 2 }", "limit: 3 }")).expect("it is written");
    browser
        .until("return document.getElementById('more').innerText.includes('uploads: ')")
        .await;

    keyboard(&browser).await;
    let pictures = pictures();
    for theme in ["light", "dark"] {
        browser.theme(theme).await;
        for (size, width, height) in [
            ("phone", 390, 844),
            ("tablet", 820, 1180),
            ("wide", 1440, 1000),
        ] {
            browser.resize(width, height).await;
            let spill = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(
                browser.run(spill).await,
                json!(0),
                "{theme} {size}: wider than the screen"
            );
            browser
                .screenshot(&pictures.join(format!("{theme}-{size}.png")))
                .await;
            browser.accessible(&format!("{theme} {size}")).await;
        }
        let back = browser
            .run("return getComputedStyle(document.body).backgroundColor")
            .await;
        let dark = back == json!("rgb(13, 19, 25)");
        assert_eq!(dark, theme == "dark", "{theme}: {back}");
    }

    server.stop().await;
    browser
        .until("return document.getElementById('connection').dataset.state === 'lost'")
        .await;
    browser.quit().await;
    let _ = std::fs::remove_dir_all(&directory);
}

/// Search, pause and details, without a mouse; the state is in the address.
async fn keyboard(browser: &Browser) {
    browser
        .run("document.activeElement.blur(); window.scrollTo(0, 0); return 0")
        .await;
    browser.press("/slots").await;
    browser
        .until("return document.querySelectorAll('article').length === 1")
        .await;
    assert_eq!(
        browser
            .run("return location.hash.includes('search=slots')")
            .await,
        json!(true)
    );
    // Tab to the order, the button for pausing, and the details of the only card; they are open, and Enter closes them.
    browser.press("\u{E004}\u{E004}").await;
    assert_eq!(
        browser.run("return document.activeElement.id").await,
        json!("pause")
    );
    browser.press("\u{E007}").await;
    browser
        .until("return document.getElementById('connection').textContent === 'paused'")
        .await;
    browser.press("\u{E007}").await;
    browser
        .until("return document.getElementById('connection').textContent === 'live'")
        .await;
    browser.press("\u{E004}").await;
    assert_eq!(
        browser.run("return document.activeElement.className").await,
        json!("more")
    );
    browser.press("\u{E007}").await;
    assert_eq!(
        browser
            .run("return document.activeElement.ariaExpanded")
            .await,
        json!("false")
    );
    browser.run("const it = document.getElementById('search'); it.value = ''; it.dispatchEvent(new Event('input')); return 0").await;
    browser
        .until("return document.querySelectorAll('article').length === 4")
        .await;
}

#[tokio::test]
async fn it_is_protected_from_other_sites() {
    let server = Running::start(None, None).await;
    let page = send(server.admin, "GET", "/", None, "").await;
    assert_eq!(page.status, 200);
    let policy = page.field("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'"),
        "{policy}"
    );
    assert_eq!(page.field("x-content-type-options"), Some("nosniff"));
    assert!(
        !page.body.contains("style=") && !page.body.contains("onclick"),
        "nothing inline"
    );
    let tag = page.field("etag").expect("a tag").to_owned();
    let known = send(
        server.admin,
        "GET",
        "/",
        None,
        &format!("if-none-match: {tag}\r\n"),
    )
    .await;
    assert_eq!(known.status, 304);
    let ask = json!({ "limit": "default", "key": "anna" });
    for (fields, status) in [
        ("", 200),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("origin: http://evil.example\r\n", 403),
        ("sec-fetch-site: same-origin\r\n", 200),
    ] {
        let answer = send(server.admin, "POST", "/peek", Some(&ask), fields).await;
        assert_eq!(answer.status, status, "{fields}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_number_of_pages_is_bounded_and_they_end_with_the_server() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Running::start(None, None).await;
    let mut pages = Vec::new();
    for _ in 0..32 {
        let mut page = tokio::net::TcpStream::connect(server.admin)
            .await
            .expect("it listens");
        let head = format!("GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", server.admin);
        page.write_all(head.as_bytes()).await.expect("it is sent");
        let mut first = [0; 15];
        page.read_exact(&mut first).await.expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        pages.push(page);
    }
    let refused = send(server.admin, "GET", "/events", None, "").await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    server.stop().await;
    for mut page in pages {
        let mut rest = String::new();
        let _ = page.read_to_string(&mut rest).await;
        assert!(rest.contains("event: stopping"), "{rest}");
    }
}
