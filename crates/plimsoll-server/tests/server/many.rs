//! More keys than anything can remember: memory stays bounded, and every answer is honest. Twenty thousand of them; ten million with
//! `PLIMSOLL_KEYS=10000000`, which takes minutes, and prints how large the process is.

use serde_json::json;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::Running;
use crate::envoy::{Answer, Dir, METHOD, OK, Request, descriptor};
use crate::grpc::Client;
use crate::http::post;
use crate::snapshots::Directory;
use crate::wire::Kept;

fn keys() -> u64 {
    std::env::var("PLIMSOLL_KEYS").map_or(20_000, |it| it.parse().expect("a number"))
}

/// The resident size of this process, in MiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024)
}

/// Of a limit with a bound of its own, keys that do not fit are refused, and say why; those that are known are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_limit_are_bounded() {
    const BATCH: usize = 5000;
    const MOST: u64 = 1000;
    let keys = keys();
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    let text = format!(
        "limits: {{ default: {{ kind: fixed_window, limit: 5, window: 24h, key: client, max_keys: {MOST} }} }}"
    );
    std::fs::write(&file, text).expect("a file");
    let server = Running::start(file.to_str(), None).await;
    let mut kept = Kept::new(server.resp).await;
    let (mut granted, mut refused) = (0, 0);
    for first in (0..keys).step_by(BATCH) {
        let batch = first..keys.min(first + BATCH as u64);
        let asks = batch.map(|key| format!("PLIMSOLL.TAKE default key{key}"));
        for five in kept.fives(asks).await.expect("answers") {
            match five.expect("numbers")[0] {
                0 => granted += 1,
                _ => refused += 1,
            }
        }
    }
    assert_eq!((granted, refused), (MOST, keys - MOST));
    let ask = json!({ "limit": "default", "key": "one more" });
    let check = post(&server, "/v1/check", ask).await;
    assert_eq!(check.json()["reason"], "keys_full", "{check:?}");
    let five = kept.five("PLIMSOLL.TAKE default key7").await;
    assert_eq!(five.expect("an answer").expect("numbers")[0], 0);
    println!(
        "{keys} keys over RESP, {MOST} of them known: {:?} MiB resident",
        resident()
    );
    drop(kept);
    server.stop().await;
}

/// Of a configuration of the reference server four million counters are known at most. More values are refused, as full; they
/// do not pass uncounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_descriptors_are_bounded() {
    const COUNTERS: u64 = 4_000_000;
    const EACH: u64 = 64;
    const TASKS: u64 = 16;
    const STEP: usize = 16 * 64;
    let keys = keys().next_multiple_of(EACH);
    let dir = Dir::new(&[(
        "a.yaml",
        "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 5 } }]\n",
    )]);
    let mut settings = plimsoll_server::Settings::default();
    settings.envoy.config = vec![dir.0.clone()];
    let server = Running::with(settings).await;
    let channel = Channel::from_shared(format!("http://{}", server.grpc));
    let channel = channel.expect("an address").connect().await;
    let channel = channel.expect("it listens");
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let mut client = Client::over(channel.clone());
        tasks.spawn(async move {
            let (mut granted, mut full) = (0, 0);
            for first in (task * EACH..keys).step_by(STEP) {
                let users =
                    (first..first + EACH).map(|user| descriptor(&format!("user=user{user}")));
                let request = Request {
                    domain: "d".to_owned(),
                    descriptors: users.collect(),
                    hits_addend: 0,
                };
                let answer: Answer = client.call(METHOD, request).await.expect("an answer");
                if answer.overall_code == OK {
                    granted += EACH;
                } else {
                    let why = answer.said(&["plimsoll", "reason"]);
                    assert_eq!(why.as_deref(), Some("keys_full"), "{answer:?}");
                    full += EACH;
                }
            }
            (granted, full)
        });
    }
    let sums = tasks.join_all().await;
    let granted: u64 = sums.iter().map(|it| it.0).sum();
    let refused: u64 = sums.iter().map(|it| it.1).sum();
    assert_eq!(granted + refused, keys);
    assert!(granted <= COUNTERS, "{granted} of {keys}");
    // Tables are divided into parts, some of which are full before others.
    assert!(
        granted >= keys.min(COUNTERS * 9 / 10),
        "{granted} of {keys}"
    );
    // Who is known is counted on: three of five are left of this one after two.
    let mut client = Client::over(channel.clone());
    let request = Request {
        domain: "d".to_owned(),
        descriptors: vec![descriptor("user=user1")],
        hits_addend: 0,
    };
    let answer: Answer = client.call(METHOD, request).await.expect("an answer");
    assert_eq!((answer.overall_code, answer.remaining()), (OK, vec![3]));
    println!(
        "{keys} values of descriptors, {granted} of them counted: {:?} MiB resident",
        resident()
    );
    drop((client, channel));
    server.stop().await;
}
