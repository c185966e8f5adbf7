//! Five times what there is, with clients that hang up: nothing is lost, nothing grows, and the counts are those of the clients.
//! A few seconds; longer with `PLIMSOLL_SERVER_SOAK_SECONDS`. `PLIMSOLL_SEED` sets the random choices of the clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Running;
use crate::http::send;
use crate::snapshots::Directory;
use crate::wire::Kept;

const FILE: &str = "limits:
  calm: { kind: token_bucket, burst: 5, refill: 20, every: 1s, queue: { bound: 3, timeout: 50ms } }
  wild: { kind: token_bucket, burst: 20, refill: 200, every: 1s, queue: { bound: 20, timeout: 100ms } }
  slots: { kind: concurrency, limit: 4, queue: { bound: 8, timeout: 100ms } }
";

/// How much memory this process has, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    number.unwrap_or(0)
}

/// What the server counts of a limit.
async fn counted(server: &Running, name: &str) -> Value {
    let limits = send(server.admin, "GET", "/limits", None, "").await.json();
    let limits = limits["limits"].as_array().expect("a list").clone();
    let limit = limits.into_iter().find(|limit| limit["name"] == name);
    limit.expect("it is there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_times_what_there_is() {
    let seconds =
        std::env::var("PLIMSOLL_SERVER_SOAK_SECONDS").map_or(3, |it| it.parse().expect("seconds"));
    let seed: u64 = std::env::var("PLIMSOLL_SEED").map_or(1, |it| it.parse().expect("a number"));
    println!("soak: {seconds} s, PLIMSOLL_SEED={seed}");
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    std::fs::write(&file, FILE).expect("a file");
    let server = Running::changed(|settings| {
        settings.file = Some(file.clone());
        // A machine that stops this process for a while must not look like clients that say nothing.
        settings.head_timeout = Duration::from_secs(60 * 60);
    });
    let server = Arc::new(server.await);
    let ends = Instant::now() + Duration::from_secs(seconds);
    let (granted, denied) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for number in 0..24_u64 {
        let server = Arc::clone(&server);
        let (granted, denied) = (Arc::clone(&granted), Arc::clone(&denied));
        tasks.spawn(async move {
            let mut state = seed.wrapping_add(number);
            let mut next = |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) % below
            };
            let mut resp = Kept::new(server.resp).await;
            let mut http = Kept::new(server.http).await;
            while Instant::now() < ends {
                match number % 3 {
                    // Every answer is counted.
                    0 => {
                        let is_granted = if next(2) == 0 {
                            let five = resp.five("PLIMSOLL.TAKE calm x").await.expect("an answer");
                            five.expect("numbers")[0] == 0
                        } else {
                            let ask = r#"{"limit":"calm","wait_ms":200}"#;
                            http.post("/v1/check", ask).await.expect("an answer").0 == 200
                        };
                        let count = if is_granted { &granted } else { &denied };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    // Nobody reads the answers, or waits for them.
                    1 => {
                        let stream = TcpStream::connect(server.resp).await;
                        let Ok(mut stream) = stream else { continue };
                        let many = "PLIMSOLL.TAKE wild x\r\n"
                            .repeat(1 + usize::try_from(next(20)).unwrap_or(1));
                        let _ = stream.write_all(many.as_bytes()).await;
                        tokio::time::sleep(Duration::from_millis(next(5))).await;
                        if next(2) == 0 {
                            // Without a goodbye.
                            let _ = stream.set_zero_linger();
                        }
                    }
                    // Leases, of which some are never released.
                    _ => {
                        let ask = r#"{"hold":{"limit":"slots","wait_ms":50},"ttl_ms":100}"#;
                        let Ok((status, said)) = http.post("/v1/leases", ask).await else {
                            http = Kept::new(server.http).await;
                            continue;
                        };
                        if status == 201 && next(4) > 0 {
                            let said: Value = serde_json::from_str(&said).expect("JSON");
                            let id = said["id"].as_str().expect("an id");
                            let done = http.post(&format!("/v1/leases/{id}/commit"), "{}").await;
                            let (status, _) = done.expect("an answer");
                            assert!(status == 204 || status == 404, "{status}");
                        } else if next(8) == 0 {
                            http = Kept::new(server.http).await;
                        }
                    }
                }
            }
        });
    }
    let before = resident();
    tasks.join_all().await;
    println!("resident: {before} KiB, then {} KiB", resident());
    assert!(resident() < before + 64 * 1024, "it has grown");
    // Who left is gone, leases end, and nobody is left waiting.
    for _ in 0..2000 {
        let mut waiting = 0;
        for name in ["calm", "wild", "slots"] {
            waiting += counted(&server, name).await["waiting"]
                .as_u64()
                .unwrap_or(1);
        }
        let leases = send(server.admin, "GET", "/limits", None, "").await.json()["leases"].clone();
        if waiting == 0 && leases == 0 && counted(&server, "slots").await["in_use"] == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let slots = counted(&server, "slots").await;
    assert_eq!(
        (&slots["waiting"], &slots["in_use"]),
        (&0.into(), &0.into()),
        "{slots}"
    );
    assert_eq!(counted(&server, "wild").await["waiting"], 0);
    let calm = counted(&server, "calm").await;
    let (granted, denied) = (
        granted.load(Ordering::Relaxed),
        denied.load(Ordering::Relaxed),
    );
    // How much more is asked for depends on the machine.
    assert!(granted > 0 && denied > granted, "{granted} {denied}");
    assert_eq!(
        (
            calm["granted_total"].as_u64(),
            calm["denied_total"].as_u64()
        ),
        (Some(granted), Some(denied))
    );
    Arc::into_inner(server).expect("the last").stop().await;
}
