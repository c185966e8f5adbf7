//! Clients that hang up at every stage: nothing of what they held stays.

use super::limits::returned;
use super::*;

/// How many requests: 2,000, or `PLIMSOLL_GATEWAY_SOAK`.
fn requests() -> u64 {
    let set = std::env::var("PLIMSOLL_GATEWAY_SOAK").ok();
    set.and_then(|it| it.parse().ok()).unwrap_or(2000)
}

/// A sequence that is the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A server that fails in all ways that there are, now and then.
async fn moody() -> SocketAddr {
    let seed = std::sync::atomic::AtomicU64::new(1);
    raw_server(move |stream| {
        let mut chance = Chance(seed.fetch_add(7919, std::sync::atomic::Ordering::Relaxed));
        async move {
            let mut stream = BufReader::new(stream);
            loop {
                let head = read_head(&mut stream).await;
                if !head.ends_with("\r\n\r\n") {
                    return;
                }
                if head.contains("upgrade: websocket") {
                    let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                    let (mut read, mut write) = tokio::io::split(stream);
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                    return;
                }
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |it| it.parse().expect("a number"))];
                if stream.read_exact(&mut body).await.is_err() {
                    return;
                }
                let answer: &[u8] = match chance.below(12) {
                    0 => return,
                    1 => b"garbage\r\n\r\n",
                    2 => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
                    3 => b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
                    4 => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
                    _ => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nwhol\r\n1\r\ne\r\n0\r\n\r\n",
                };
                if stream.write_all(answer).await.is_err() || answer.ends_with(b"half") || answer.starts_with(b"g") {
                    return;
                }
            }
        }
    })
    .await
}

/// One client, which stops wherever chance has it.
async fn client(address: SocketAddr, chance: &mut Chance) {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return;
    };
    let user = chance.below(3);
    let request = match chance.below(4) {
        0 => format!("GET / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n"),
        1 => format!(
            "POST / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\ncontent-length: 40\r\n\r\n{}",
            "x".repeat(40)
        ),
        2 => format!(
            "POST / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n5\r\nabcde\r\n0\r\n\r\n"
        ),
        _ => format!(
            "GET / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: AA\r\n\r\nhello"
        ),
    };
    // Half of them are cut short while they are sent.
    let all = request.len() as u64;
    let cut = if chance.below(2) == 0 {
        chance.below(all)
    } else {
        all
    };
    let sent = stream
        .write_all(&request.as_bytes()[..usize::try_from(cut).expect("small")])
        .await;
    if sent.is_err() || cut < all {
        return;
    }
    // And many while they are answered.
    for _ in 0..chance.below(4) {
        let mut part = [0; 20];
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut part)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaks_when_clients_hang_up_at_any_stage() {
    let servers = [moody().await, moody().await];
    let gateway = Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: {}, health: {{ failures: 20, ejected: 10ms }} }} }}\n\
         limits:\n  slots: {{ concurrency: 20, queue: {{ bound: 20, timeout: 1s }} }}\n  per_user: {{ concurrency: 10, key: header:x-user }}\n\
         routes: [{{ match: /**, limits: [per_user, slots] }}]\n",
        list(&servers)
    ));
    let (each, address) = (requests() / 16, gateway.address);
    println!("{} clients", each * 16);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..16 {
        clients.spawn(async move {
            let mut chance = Chance(number + 1);
            for _ in 0..each {
                client(address, &mut chance).await;
            }
        });
    }
    let long = Duration::from_secs(3600);
    let ended = tokio::time::timeout(long, async { while clients.join_next().await.is_some() {} });
    ended.await.expect("in time");
    gateway.at_rest().await;
    returned(&gateway, "slots").await;
    returned(&gateway, "per_user").await;
    let waiting: u64 = gateway
        .limits
        .snapshot()
        .iter()
        .map(|view| view.snapshot.waiters())
        .sum();
    assert_eq!(waiting, 0);
    assert!(gateway.counts.requests() > each, "most came through");
    within(async {
        while gateway.counts.connections() != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gateway.stop().await;
}
