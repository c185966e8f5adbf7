//! Moving bytes allocates nothing, neither while there is enough nor while connections wait for their turns.

#[path = "../../plimsoll/tests/counting/mod.rs"]
mod counting;
mod poll;
mod queued;

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use counting::allocations;
use plimsoll::{ManualClock, TokenBucket};
use plimsoll_tokio::{Budget, Throttled};
use poll::poll;
use queued::queued;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn moving_bytes_allocates_nothing() {
    let time = ManualClock::new();
    let own = Budget::new(queued(TokenBucket::per_second(50_000), &time)).quantum(500);
    let all = Budget::new(queued(TokenBucket::per_second(10_000), &time)).quantum(500);
    let mut writer = Throttled::new(tokio::io::sink()).writes(&own).writes(&all);
    let mut reader = Throttled::new(tokio::io::repeat(1)).reads(&own).reads(&all);
    let mut buffer = [0; 700];
    let (mut moved, mut waited) = (0, 0);
    let mut round = || {
        if let Poll::Ready(count) = poll(&mut pin!(writer.write(&[0; 700]))) {
            moved += count.unwrap_or(0);
        } else {
            waited += 1;
        }
        if let Poll::Ready(count) = poll(&mut pin!(reader.read(&mut buffer))) {
            moved += count.unwrap_or(0);
        } else {
            waited += 1;
        }
        time.advance(Duration::from_millis(5));
    };
    // The queues of the budgets grow once.
    for _ in 0..400 {
        round();
    }
    let count = allocations(|| {
        for _ in 0..400 {
            round();
        }
    });
    assert_eq!(count, 0);
    assert!(
        moved > 40_000 && waited > 100,
        "{moved} bytes, {waited} waits"
    );
}
