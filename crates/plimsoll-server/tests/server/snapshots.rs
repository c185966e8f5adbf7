//! States that outlive the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Running;
use crate::http::{post, send};

/// A directory of its own, which is gone with it.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-server-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("there is a place for it");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn start(directory: &Path) -> Running {
    Running::changed(|settings| settings.state_dir = Some(directory.to_owned())).await
}

/// What is left of `logins` for a key.
async fn left(server: &Running, key: &str) -> Value {
    let ask = json!({ "limit": "logins", "key": key });
    let peeked = post(server, "/v1/peek", ask).await;
    peeked.json()["answers"][0]["remaining"].clone()
}

async fn take(server: &Running, key: &str, cost: u64) -> u16 {
    let ask = json!({ "limit": "logins", "key": key, "cost": cost });
    post(server, "/v1/check", ask).await.status
}

#[tokio::test]
async fn a_restart_is_not_a_free_burst() {
    let directory = Directory::new();
    let server = start(&directory.0).await;
    assert_eq!(take(&server, "anna", 4).await, 200);
    let said = crate::resp::say(
        &server,
        b"CL.THROTTLE anna 4 1 600 5\r\nQUIT\r\n",
        usize::MAX,
    )
    .await;
    assert!(said.starts_with("*5\r\n:0"), "{said}");
    let lease = json!({ "hold": { "limit": "slots", "key": "a", "cost": 10 } });
    assert_eq!(post(&server, "/v1/leases", lease.clone()).await.status, 201);
    server.stop().await;

    let server = start(&directory.0).await;
    assert_eq!(left(&server, "anna").await, 1);
    assert_eq!(left(&server, "bert").await, 5);
    assert_eq!(take(&server, "anna", 2).await, 429);
    let said = crate::resp::say(&server, b"CL.THROTTLE anna 4 1 600\r\nQUIT\r\n", usize::MAX).await;
    assert!(said.starts_with("*5\r\n:1"), "{said}");
    // Permits are not kept: nobody knows who holds them.
    assert_eq!(post(&server, "/v1/leases", lease).await.status, 201);
    // And again: nothing is lost on the way.
    server.stop().await;
    let server = start(&directory.0).await;
    assert_eq!(left(&server, "anna").await, 1);
    server.stop().await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = fs::metadata(directory.file("limits.snapshot")).expect("it is there");
        assert_eq!(
            file.permissions().mode() & 0o777,
            0o600,
            "keys may be secrets"
        );
    }
}

/// Waits until the metrics say something.
async fn until(server: &Running, line: &str) {
    for _ in 0..1000 {
        let metrics = send(server.admin, "GET", "/metrics", None, "").await.body;
        if metrics.lines().any(|it| it == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the metrics never said {line}");
}

#[tokio::test]
async fn it_is_written_now_and_then() {
    let directory = Directory::new();
    let server = Running::changed(|settings| {
        settings.state_dir = Some(directory.0.clone());
        settings.state_every = Some(Duration::from_millis(20));
    })
    .await;
    assert_eq!(take(&server, "anna", 3).await, 200);
    fs::remove_file(directory.file("limits.snapshot")).unwrap_or_default();
    while !directory.file("limits.snapshot").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As after a crash: this one never stops in order.
    let copy = Directory::new();
    fs::copy(
        directory.file("limits.snapshot"),
        copy.file("limits.snapshot"),
    )
    .expect("it is there");
    let next = start(&copy.0).await;
    assert_eq!(left(&next, "anna").await, 2);
    next.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_not_whole_is_set_aside_and_never_half_read() {
    let directory = Directory::new();
    let server = start(&directory.0).await;
    for key in 0..20 {
        assert_eq!(take(&server, &format!("key {key}"), 5).await, 200);
    }
    server.stop().await;
    let (file, bad) = (
        directory.file("limits.snapshot"),
        directory.file("limits.snapshot.bad"),
    );
    let whole = fs::read(&file).expect("it is there");
    let text = String::from_utf8(whole.clone()).expect("it is text");
    let mut flipped = whole.clone();
    let place = text.find("\"key 7\"").expect("it is there") + 6;
    flipped[place] = b'8';
    let first = text.find('\n').expect("a line");
    let last = text.trim_end().rfind('\n').expect("a line");
    let head = |from: &str, to: &str| text.replacen(from, to, 1).into_bytes();
    let at = text.find("saved_at\":").expect("it is there") + 10;
    let nanos: u64 = text[at..at + 19].parse().expect("nanoseconds");
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("cut in a line", whole[..whole.len() / 2].to_vec()),
        ("cut before the end", whole[..=last].to_vec()),
        ("without its last break", whole[..whole.len() - 1].to_vec()),
        ("only its head", whole[..=first].to_vec()),
        ("one byte is another", flipped),
        ("something follows", [&whole[..], b"{}\n"].concat()),
        ("not one at all", b"limits: {}\n".to_vec()),
        ("zeros", vec![0; 4096]),
        (
            "of a later version",
            head("\"plimsoll_snapshot\":2", "\"plimsoll_snapshot\":3"),
        ),
        (
            "from the future",
            head(&nanos.to_string(), &(nanos + 3_600_000_000_000).to_string()),
        ),
    ];
    for (what, bytes) in wrong {
        fs::write(&file, &bytes).expect("it is written");
        let _ = fs::remove_file(&bad);
        let server = start(&directory.0).await;
        assert_eq!(left(&server, "key 3").await, 5, "{what}");
        assert!(!file.exists(), "{what}");
        assert_eq!(fs::read(&bad).expect("it is kept"), bytes, "{what}");
        server.stop().await;
    }
    // What is whole is read as ever.
    fs::write(&file, &whole).expect("it is written");
    let server = start(&directory.0).await;
    assert_eq!(left(&server, "key 3").await, 0);
    server.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_disk_that_is_full_is_said_and_everything_is_served() {
    let directory = Directory::new();
    std::os::unix::fs::symlink("/dev/full", directory.file("limits.snapshot.new"))
        .expect("it is made");
    let server = Running::changed(|settings| {
        settings.state_dir = Some(directory.0.clone());
        settings.state_every = Some(Duration::from_millis(10));
    })
    .await;
    until(&server, "plimsoll_snapshots_total{result=\"failed\"} 1").await;
    assert_eq!(take(&server, "anna", 4).await, 200);
    // There is room again: the link was removed with what could not be written.
    for _ in 0..1000 {
        if directory.file("limits.snapshot").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop().await;
    let server = start(&directory.0).await;
    assert_eq!(left(&server, "anna").await, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_is_said_at_once() {
    let directory = Directory::new();
    let file = directory.file("file");
    fs::write(&file, "").expect("it is written");
    let mut settings = plimsoll_server::Settings::default();
    (settings.http, settings.resp, settings.admin) = (None, None, None);
    settings.state_dir = Some(file.join("state"));
    let error = plimsoll_server::Server::start(settings).await;
    let error = error.expect_err("it is refused").to_string();
    assert!(error.starts_with("cannot keep states in "), "{error}");
}
