//! Everything that keeps a store from deciding is an error that says what it was, and never a refusal.

use std::error::Error;
use std::time::Duration;

use crate::server::{Server, free_port, patient};
use plimsoll::{Concurrency, FixedWindow, Quota, SlidingLog, SlidingWindow, TokenBucket};
use plimsoll_redis::{RedisLimiter, RedisRule, Store, StoreError, StoreErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const KEY: &str = "subject";
const HOUR: Quota = Quota::per_hour(10);

async fn error(limiter: &RedisLimiter) -> StoreError {
    match limiter.decide(KEY, 1).await {
        Err(error) => error,
        Ok(decision) => panic!("decided: {decision:?}"),
    }
}

async fn kind(limiter: &RedisLimiter) -> StoreErrorKind {
    error(limiter).await.kind()
}

fn window(store: &Store) -> RedisLimiter {
    store
        .limiter("api", FixedWindow::new(HOUR))
        .expect("a limit")
}

#[tokio::test]
async fn something_else_at_the_key() {
    let server = Server::start();
    let store = server.store().raw_keys().open().expect("a store");
    let log: RedisRule = SlidingLog::new(HOUR).into();
    let rules: [(&str, RedisRule, &[&str]); 9] = [
        (
            "b",
            TokenBucket::per_second(1).into(),
            &["set", "@", "1.2 3 4"],
        ),
        ("w", FixedWindow::new(HOUR).into(), &["rpush", "@", "x"]),
        (
            "w",
            FixedWindow::new(HOUR).into(),
            &["set", "@", "not a state"],
        ),
        ("w", FixedWindow::new(HOUR).into(), &["set", "@", "1.2"]),
        (
            "s",
            SlidingWindow::new(HOUR, 4).into(),
            &["set", "@", "9999999999.2 4/3600000000000 x:y"],
        ),
        (
            "b",
            TokenBucket::per_second(1).into(),
            &["set", "@", "1.2 inf g1/1/1000000000"],
        ),
        ("l", log.clone(), &["set", "@", "x"]),
        ("l", log, &["zadd", "@", "1", "x"]),
        ("k", Concurrency::new(1).into(), &["zadd", "@", "1", "x"]),
    ];
    for (letter, rule, command) in rules {
        let limiter = store.limiter("api", rule).expect("a limit");
        let key = format!("plimsoll:{{subject}}:api:{letter}");
        let command: Vec<_> = command
            .iter()
            .map(|&part| if part == "@" { key.as_str() } else { part })
            .collect();
        server.cli(&command);
        let error = error(&limiter).await;
        assert_eq!(
            error.kind(),
            StoreErrorKind::WrongType,
            "{command:?}: {error:?}"
        );
        assert!(error.source().is_some());
        server.cli(&["del", &key]);
        assert!(
            limiter
                .decide(KEY, 1)
                .await
                .expect("a decision")
                .is_granted()
        );
        limiter.forget(KEY).await.expect("forgetting");
    }
}

#[tokio::test]
async fn out_of_memory() {
    let server = Server::with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let store = server.store().open().expect("a store");
    assert_eq!(kind(&window(&store)).await, StoreErrorKind::OutOfMemory);
}

#[tokio::test]
async fn a_replica() {
    let master = Server::start();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let store = replica.store().open().expect("a store");
    assert_eq!(kind(&window(&store)).await, StoreErrorKind::ReadOnly);
}

#[tokio::test]
async fn credentials() {
    let server = Server::with(&["--requirepass", "secret"]);
    let open = |user: &str| {
        let url = format!("redis://{user}127.0.0.1:{}", server.port());
        patient(Store::builder(&url)).open().expect("a store")
    };
    assert_eq!(kind(&window(&open(""))).await, StoreErrorKind::NotPermitted);
    let wrong = open(":wrong@");
    assert_eq!(kind(&window(&wrong)).await, StoreErrorKind::NotPermitted);
    assert!(!format!("{wrong:?} {:?}", window(&wrong)).contains("wrong"));
    let right = window(&open(":secret@")).decide(KEY, 1).await;
    assert!(right.expect("a decision").is_granted());

    // May run scripts, but not what they do; then not on these keys; then all of it.
    let acl = |rules: &[&str]| {
        let all = [
            &["-a", "secret", "acl", "setuser", "app", "on", ">app"],
            rules,
        ]
        .concat();
        assert_eq!(server.cli(&all), "OK");
    };
    acl(&["~*", "+eval", "+evalsha", "+hello", "+client"]);
    let app = window(&open("app:app@"));
    assert_eq!(kind(&app).await, StoreErrorKind::NotPermitted);
    acl(&["resetkeys", "~other:*", "+@all"]);
    assert_eq!(kind(&app).await, StoreErrorKind::NotPermitted);
    acl(&["~plimsoll:*"]);
    assert!(app.decide(KEY, 1).await.expect("a decision").is_granted());
    acl(&["-evalsha"]);
    assert_eq!(kind(&app).await, StoreErrorKind::NotPermitted);
}

#[test]
fn a_script_that_does_not_end_and_is_killed() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let limiter = window(&server.store().open().expect("a store"));
    let said = std::thread::scope(|scope| {
        let spinning = scope.spawn(|| server.cli(&["eval", "while true do end", "0"]));
        while !server.cli(&["ping"]).contains("BUSY") {
            assert!(!spinning.is_finished());
        }
        assert_eq!(runtime.block_on(kind(&limiter)), StoreErrorKind::Busy);
        while server.cli(&["script", "kill"]) != "OK" {}
        spinning.join().expect("what the server said")
    });
    // What the server says to the one whose script it was.
    runtime.block_on(async {
        let (store, _task) = saying(format!("-{said}\r\n").into_bytes()).await;
        let killed = StoreErrorKind::ScriptKilled;
        assert_eq!(kind(&window(&store)).await, killed, "{said}");
    });
}

/// A store that answers everything with the same bytes.
async fn saying(bytes: Vec<u8>) -> (Store, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    // As many answers as commands.
                    let commands = buffer[..read].split(|&byte| byte == b'*').count() - 1;
                    if stream.write_all(&bytes.repeat(commands)).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let url = format!("redis://127.0.0.1:{port}/?protocol=resp2");
    // What is said matters here, not how soon: a busy machine must not make a time-out of it.
    let store = patient(Store::builder(&url)).open();
    (store.expect("a store"), task)
}

#[tokio::test]
async fn answers_of_servers_that_cannot_decide() {
    use StoreErrorKind as Kind;
    let long = "9".repeat(400);
    let answers: [(&str, Kind); 16] = [
        ("-OOM command not allowed\r\n", Kind::OutOfMemory),
        ("-READONLY You can't write\r\n", Kind::ReadOnly),
        ("-MISCONF Redis is configured to save\r\n", Kind::ReadOnly),
        ("-LOADING Redis is loading\r\n", Kind::Unreachable),
        ("-CLUSTERDOWN Hash slot not served\r\n", Kind::Unreachable),
        ("-NOAUTH Authentication required.\r\n", Kind::NotPermitted),
        ("-CROSSSLOT Keys don't hash\r\n", Kind::CrossSlot),
        ("-MOVED 1 127.0.0.1:1\r\n", Kind::Moving),
        (
            "-ERR Error running script: @user_script:1: WRONGTYPE x\r\n",
            Kind::WrongType,
        ),
        ("-SOMETHING new\r\n", Kind::Server),
        ("+OK\r\n", Kind::BadReply),
        (":1\r\n", Kind::BadReply),
        ("*0\r\n", Kind::BadReply),
        ("*2\r\n:7\r\n+x\r\n", Kind::BadReply),
        ("*4\r\n:1\r\n:-5\r\n$0\r\n\r\n$0\r\n\r\n", Kind::BadReply),
        ("not the protocol at all\r\n", Kind::BadReply),
    ];
    for (bytes, expected) in answers {
        let (store, _task) = saying(bytes.as_bytes().to_vec()).await;
        let error = error(&window(&store)).await;
        assert_eq!(error.kind(), expected, "{bytes:?}: {error:?}");
        assert!(error.to_string().starts_with(expected.phrase()));
    }
    let span = format!("*4\r\n:1\r\n:5\r\n+{long}\r\n+1\r\n");
    let (store, _task) = saying(span.into_bytes()).await;
    assert_eq!(kind(&window(&store)).await, Kind::BadReply);
}

#[tokio::test]
async fn silence_is_not_waited_for_longer_than_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let url = format!("redis://127.0.0.1:{port}");
    let store = Store::open(&url).expect("a store");
    let limiter = window(&store);
    let asked = tokio::time::timeout(Duration::from_secs(20), kind(&limiter));
    assert_eq!(asked.await.expect("a deadline"), StoreErrorKind::TimedOut);
}

#[tokio::test]
async fn a_store_that_comes_later_and_comes_back() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let store = patient(Store::builder(&url)).open().expect("a store");
    let limiter = window(&store);
    assert_eq!(kind(&limiter).await, StoreErrorKind::Unreachable);
    let server = Server::on(port, &[]);
    assert!(
        limiter
            .decide(KEY, 1)
            .await
            .expect("a decision")
            .is_granted()
    );
    drop(server);
    assert_eq!(kind(&limiter).await, StoreErrorKind::Unreachable);
    let _server = Server::on(port, &[]);
    // The connection is made again, and the script is known again.
    assert!(
        limiter
            .decide(KEY, 1)
            .await
            .expect("a decision")
            .is_granted()
    );
}

#[tokio::test]
async fn scripts_that_a_server_forgot() {
    let server = Server::start();
    let limiter = window(&server.store().open().expect("a store"));
    for used in 1..=3 {
        assert!(
            limiter
                .decide(KEY, 1)
                .await
                .expect("a decision")
                .is_granted()
        );
        assert_eq!(limiter.look(KEY).await.expect("a look").in_use, used);
        assert_eq!(server.cli(&["script", "flush"]), "OK");
    }
}

#[tokio::test]
async fn keys_of_every_byte_and_of_every_size() {
    let server = Server::start();
    every_key(&server, &server.store().open().expect("a store")).await;
    server.cli(&["flushall"]);
    let raw = server.store().raw_keys().open();
    every_key(&server, &raw.expect("a store")).await;
}

async fn every_key(server: &Server, store: &Store) {
    let limiter = window(store);
    let mut keys: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    keys.push(Vec::new());
    keys.push((0..=u8::MAX).collect());
    keys.push(vec![b'x'; 64 * 1024]);
    keys.push(vec![b'}'; 64 * 1024]);
    for key in &keys {
        assert!(
            limiter
                .decide(key, 10)
                .await
                .expect("a decision")
                .is_granted()
        );
    }
    for key in &keys {
        assert!(
            !limiter
                .decide(key, 1)
                .await
                .expect("a decision")
                .is_granted()
        );
    }
    assert_eq!(server.cli(&["dbsize"]), keys.len().to_string());
}

#[test]
fn addresses() {
    for url in ["", "nonsense", "http://localhost", "redis://host:port"] {
        let error = Store::open(url).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadAddress, "{url}");
    }
}

#[test]
fn too_many_segments() {
    let store = Store::open("redis://127.0.0.1").expect("a store");
    let error = store
        .limiter("api", SlidingWindow::new(HOUR, 1025))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`segments` is 1025: expected at most 1024 in Redis"
    );
}

#[tokio::test]
async fn reserving_from_what_is_no_bucket() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let rules: [RedisRule; 3] = [
        FixedWindow::new(HOUR).into(),
        SlidingLog::new(HOUR).into(),
        Concurrency::new(1).into(),
    ];
    for rule in rules {
        let limiter = store.limiter("api", rule).expect("a limit");
        let error = limiter.reserve(KEY, 1, None).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    }
}

#[test]
fn amounts_that_a_double_cannot_count() {
    let store = Store::open("redis://127.0.0.1").expect("a store");
    let message = |rule: RedisRule| store.limiter("l", rule).expect_err("too large").to_string();
    let rules: [(RedisRule, &str); 4] = [
        (
            FixedWindow::new(Quota::per_second(1 << 52)).into(),
            "`limit` is 4503599627370496: expected below 2^52 in Redis",
        ),
        (
            TokenBucket::per_second(1).burst(u64::MAX).into(),
            "`burst` is 18446744073709551615: expected below 2^52 in Redis",
        ),
        (
            TokenBucket::per_second((1 << 52) + 1).burst(1).into(),
            "`refill` is 4503599627370497: expected below 2^52 in Redis",
        ),
        (
            SlidingLog::new(Quota::per_second(1 << 32)).into(),
            "`limit` is 4294967296: expected below 2^32 for a sliding log in Redis",
        ),
    ];
    for (rule, expected) in rules {
        let said = message(rule);
        assert!(said.contains(expected), "{said}");
    }
}
