//! Much passes, and little of it is kept.

use super::*;

/// How many megabytes pass: 64, or `PLIMSOLL_GATEWAY_MEGABYTES`.
fn megabytes() -> usize {
    let set = std::env::var("PLIMSOLL_GATEWAY_MEGABYTES").ok();
    set.and_then(|it| it.parse().ok()).unwrap_or(64)
}

/// The largest that this process has been, in KiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    number.expect("a number")
}

#[tokio::test]
async fn memory_stays_flat() {
    static PART: [u8; 65_536] = [7; 65_536];
    let total = megabytes() << 20;
    let server = raw_server(|stream| async move {
        let mut stream = BufReader::new(stream);
        let head = read_head(&mut stream).await;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut left: u64 = length.map_or(0, |it| it.parse().expect("a number"));
        let mut part = [0; 65_536];
        while left > 0 {
            left -= stream.read(&mut part).await.expect("more") as u64;
        }
        let total = megabytes() << 20;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("written");
        for _ in 0..total / PART.len() {
            stream.write_all(&PART).await.expect("written");
        }
    })
    .await;
    let gateway = Running::to(&[server]);
    let before = peak();
    let mut stream = BufReader::new(gateway.connect().await);
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {total}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("written");
    let long = Duration::from_secs(600);
    let passed = tokio::time::timeout(long, async {
        for _ in 0..total / PART.len() {
            stream.write_all(&PART).await.expect("written");
        }
        read_head(&mut stream).await;
        let mut part = [0; 65_536];
        let mut read = 0;
        while read < total {
            read += stream.read(&mut part).await.expect("more");
        }
        read
    });
    assert_eq!(passed.await.expect("in time"), total);
    // The kernel counts by processor, and sums up now and then: the peak of later may be some pages lower.
    let grown = peak().saturating_sub(before);
    println!(
        "{} MiB in both directions, peak resident size grew by {grown} KiB",
        megabytes()
    );
    assert!(grown < 32 << 10, "{grown} KiB");
    gateway.at_rest().await;
}
