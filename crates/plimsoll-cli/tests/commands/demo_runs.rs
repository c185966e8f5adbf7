//! The demo, short, with its page in a real browser. `PLIMSOLL_DEMO_SECONDS=120` runs it in full, and then it must be better with
//! limits than without; a short run on a busy machine proves nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_demo::{Class, Demo, Event, Phase, Report, Settings, Stage, Sums};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::browser::Browser;

fn settings(seconds: u64) -> Settings {
    let mut settings = Settings::default();
    settings.length = Duration::from_secs(seconds);
    settings.admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings
}

async fn started(seconds: u64) -> Demo {
    let demo = Demo::start(&settings(seconds)).await;
    demo.unwrap_or_else(|error| panic!("{error}"))
}

/// How much a limit has granted, or would have refused in shadow mode, as the metrics say.
async fn metric(page: &str, name: &str) -> u64 {
    let admin = page.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(admin).await.expect("it listens");
    let head = format!("GET /metrics HTTP/1.0\r\nhost: {admin}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().expect("a number")
}

fn is_whole(svg: &str, is_refused: bool) {
    assert!(
        svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    for word in [
        "without limits",
        "with Plimsoll",
        "checkout",
        "99th percentile",
    ] {
        assert!(svg.contains(word), "{word}");
    }
    assert_eq!(svg.contains("per_caller"), is_refused);
    // It needs nothing from elsewhere.
    assert!(!svg.contains("href") && !svg.contains("url("), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_runs_and_what_came_of_them() {
    let long = std::env::var("PLIMSOLL_DEMO_SECONDS").ok();
    let seconds = long.as_ref().map_or(6, |it| it.parse().expect("seconds"));
    let demo = started(seconds).await;
    let file = demo.file();
    let directory = file.parent().expect("a directory").to_owned();
    assert!(file.exists());
    let (mut events, begun) = (Vec::new(), tokio::time::Instant::now());
    let report = demo.run(std::future::pending(), |event| events.push(event));
    let report = report.await.unwrap_or_else(|error| panic!("{error}"));
    let stages = events.iter().filter(|it| matches!(it, Event::Stage(..)));
    assert_eq!(stages.count(), 8, "{events:?}");
    for class in Class::ALL {
        let without = report.sums(Phase::Without, class, None);
        assert!(without.sent > 0, "{class:?}");
        assert_eq!(without.refused, 0, "in shadow mode: {without:?}");
        let with = report.sums(Phase::With, class, None);
        let parts = with.good + with.gave_up + with.failed + with.refused;
        assert_eq!(parts, with.sent, "{with:?}");
    }
    let abuser = report.sums(Phase::With, Class::Abuser, None);
    let mut reasons = abuser.reasons.keys();
    let is_refused = reasons.any(|(limit, _)| limit == "per_caller");
    // A machine may be too slow to say so within the second that a client waits.
    assert!(is_refused || abuser.gave_up > 0, "{abuser:?}");
    // Whatever the machine, it gets no more than its rate. The run began after the test did.
    let most = 20 + 10 * (begun.elapsed().as_secs() + 1);
    assert!(abuser.good <= most, "{most}: {abuser:?}");
    let quiet = report.sums(Phase::With, Class::Abuser, Some(Stage::Quiet));
    assert_eq!(quiet.sent, 0);
    println!("{report}");
    assert!(report.to_string().contains("abuser"), "{report}");
    is_whole(&report.to_svg(), is_refused);
    if long.is_some() {
        is_better(&report);
    }
    assert!(!directory.exists(), "nothing is left behind");
}

/// What the demo is for: the traffic that matters is served, and fast.
fn is_better(report: &Report) {
    // In the quiet stages there is room for all, with limits and without.
    for (stage, times) in [
        (None, 1.5),
        (Some(Stage::Abuse), 2.0),
        (Some(Stage::Drop), 2.0),
    ] {
        let [without, with] =
            [Phase::Without, Phase::With].map(|phase| report.sums(phase, Class::Checkout, stage));
        assert!(
            with.goodput > times * without.goodput,
            "{stage:?}: {without:?} {with:?}"
        );
        assert!(with.p99 <= without.p99, "{stage:?}: {without:?} {with:?}");
    }
}

/// As long as a browser needs: a busy machine is slow.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_on_it() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let demo = started(1800).await;
    let page = demo.page();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let run = tokio::spawn(demo.run(stopped, |_| {}));
    look(&browser, &page).await;
    let _ = stop.send(());
    let report = run.await.expect("it runs");
    assert!(report.is_ok_and(|it| it.to_string().contains("ended early")));
    browser.quit().await;
}

/// Charts move, numbers are those of the metrics, a keyboard is enough, and axe-core finds nothing.
async fn look(browser: &Browser, page: &str) {
    browser.resize(1440, 1000).await;
    browser.theme("dark").await;
    browser.open(&format!("{page}#open=slots")).await;
    browser
        .until("return document.getElementById('connection').textContent === 'live'")
        .await;
    let chart = "return document.querySelector('article path.granted').getAttribute('d')";
    let before = browser.run(chart).await;
    browser
        .until(&format!("return (() => {{ {chart} }})() !== {before}"))
        .await;
    // The page is at most a second behind, so what it says lies between what the metrics say before and after.
    let granted = "plimsoll_granted_total{limit=\"slots\"}";
    let least = metric(page, granted).await;
    let says = "const rows = [...document.querySelectorAll('.card.open tr')]; \
        const row = rows.find((it) => it.cells[0].textContent === 'granted'); \
        return row ? Number(row.cells[1].textContent.replaceAll(',', '')) : null;";
    let shown = browser
        .until(&format!(
            "const it = (() => {{ {says} }})(); return it >= {least} ? it : null"
        ))
        .await;
    let most = metric(page, granted).await;
    assert!(
        shown.as_f64().is_some_and(|it| it <= most as f64),
        "{shown} {most}"
    );
    // The upstream, and limits that only say what they would do.
    browser
        .until("return document.getElementById('more').innerText.includes('shop')")
        .await;
    browser
        .until("return document.querySelectorAll('.chip.shadow:not([hidden])').length === 2")
        .await;
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo");
    std::fs::create_dir_all(&pictures).expect("a directory");
    for theme in ["light", "dark"] {
        browser.theme(theme).await;
        browser
            .screenshot(&pictures.join(format!("{theme}.png")))
            .await;
        browser.accessible(theme).await;
    }
    // Without a mouse: searched, found, its details closed, paused.
    browser.press("/caller").await;
    browser
        .until("return document.querySelectorAll('article').length === 1")
        .await;
    browser.press("\u{E004}\u{E004}\u{E004}\u{E007}").await;
    let open = "return document.activeElement.className === 'more' && document.activeElement.ariaExpanded === 'true'";
    browser.until(open).await;
    browser.press("p").await;
    browser
        .until("return document.getElementById('connection').textContent === 'paused'")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_early_it_says_what_there_is() {
    let demo = started(60).await;
    let directory = demo.file();
    let stop = Arc::new(Notify::new());
    let answered = Arc::clone(&stop);
    let tell = move |event| {
        let Event::Sums(sums) = event else { return };
        let is_there = |(class, it): &(Class, Sums)| *class == Class::Browse && it.sent > 0;
        if sums.iter().any(is_there) {
            answered.notify_one();
        }
    };
    let report = demo.run(stop.notified(), tell).await;
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.sums(Phase::Without, Class::Browse, None).sent > 0);
    assert_eq!(report.sums(Phase::With, Class::Browse, None).sent, 0);
    assert!(report.to_string().contains("ended early"), "{report}");
    assert!(report.to_svg().ends_with("</svg>\n"));
    assert!(!directory.exists());
}
