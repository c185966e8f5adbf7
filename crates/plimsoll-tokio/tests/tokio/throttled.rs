//! What one throttled connection does: how much it moves, and what it gives back.

use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::moody::{Mood, Moody};
use crate::poll::poll;
use crate::queued::queued;
use crate::settle::settle;
use plimsoll::{Carry, Denied, Gate, ManualClock, Reason, TokenBucket};
use plimsoll_kinds::Basic;
use plimsoll_tokio::{Budget, Throttled};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// 1000 bytes a second and 1000 at once, in quanta of 100.
fn budget(time: &ManualClock) -> (Gate<TokenBucket>, Budget) {
    let gate = queued(TokenBucket::per_second(1000), time);
    (gate.clone(), Budget::new(gate).quantum(100))
}

#[test]
fn a_large_write_takes_exactly_as_long_as_its_bytes() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    let mut io = Throttled::new(tokio::io::sink()).writes(&budget);
    let data = vec![0; 10_000];
    let mut write = pin!(io.write_all(&data));
    assert!(poll(&mut write).is_pending(), "the burst is gone");
    for tenth in 0..89 {
        assert_eq!(gate.snapshot().waiters(), 1);
        time.advance(millis(100) - Duration::from_nanos(1));
        assert!(poll(&mut write).is_pending());
        assert_eq!(gate.snapshot().waiters(), 1, "not a nanosecond early");
        time.advance(Duration::from_nanos(1));
        assert!(poll(&mut write).is_pending(), "tenth {tenth}");
    }
    time.advance(millis(100));
    assert!(poll(&mut write).is_ready(), "9 s for 9000 bytes");
    assert_eq!(gate.snapshot().available(), 0);
}

#[test]
fn while_there_is_enough_exactly_what_is_moved_is_taken() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    let left = || gate.snapshot().available();
    let mut io = Throttled::new(Moody::new([]))
        .writes(&budget)
        .reads(&budget);
    assert!(poll(&mut pin!(io.write_all(&[0; 7]))).is_ready());
    assert_eq!(left(), 993);
    let mut buffer = [0; 250];
    assert!(poll(&mut pin!(io.read_exact(&mut buffer))).is_ready());
    assert_eq!(left(), 743);
    assert_eq!(io.get_ref().asked, [7, 100, 100, 50], "in quanta");
    assert_eq!(buffer, [b'x'; 250]);
}

#[test]
fn what_cannot_be_used_goes_back() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    let left = || (gate.snapshot().available(), gate.snapshot().granted_total());
    let moods = [Mood::Pending, Mood::Fail, Mood::Move(0), Mood::Move(3)];
    let mut io = Throttled::new(Moody::new(moods)).reads(&budget);
    let mut buffer = [0; 50];
    for _ in 0..3 {
        let read = poll(&mut pin!(io.read(&mut buffer)));
        assert!(!matches!(read, Poll::Ready(Ok(1..))));
        assert_eq!(left(), (1000, 0), "nothing was read");
    }
    assert!(matches!(
        poll(&mut pin!(io.read(&mut buffer))),
        Poll::Ready(Ok(3))
    ));
    assert_eq!(left(), (950, 1), "there may be more");
    io.get_mut().moods.push_back(Mood::Pending);
    assert!(poll(&mut pin!(io.read(&mut buffer))).is_pending());
    assert_eq!(left(), (997, 1), "there is no more for now");

    io.get_mut().moods.push_back(Mood::Move(1));
    assert!(poll(&mut pin!(io.read(&mut buffer))).is_ready());
    drop(io);
    assert_eq!(left(), (996, 2));
    let mut io = Throttled::new(Moody::new([Mood::Move(6)])).writes(&budget);
    assert!(poll(&mut pin!(io.write(&[0; 10]))).is_ready());
    assert_eq!(left().0, 986);
    assert!(poll(&mut pin!(io.shutdown())).is_ready());
    assert_eq!(left().0, 990);
}

#[test]
fn who_comes_back_after_a_pause_has_saved_nothing_up() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    gate.try_acquire(1000).unwrap().forget();
    let mut io = Throttled::new(Moody::new([])).writes(&budget);
    let mut write = Box::pin(io.write_all(&[0; 10]));
    assert!(poll(&mut write).is_pending());
    time.advance(millis(100));
    assert!(poll(&mut write).is_ready(), "given 100, used 10");
    drop(write);
    time.advance(millis(5000));
    gate.try_acquire(1000).unwrap().forget();
    // Its 90 are worth nothing by now: the bucket has been full since.
    assert!(poll(&mut pin!(io.write_all(&[0; 10]))).is_pending());
}

#[test]
fn zero_bytes_flushes_and_shutdowns_do_not_wait() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    gate.try_acquire(1000).unwrap().forget();
    let mut io = Throttled::new(Moody::new([]))
        .reads(&budget)
        .writes(&budget);
    assert!(matches!(poll(&mut pin!(io.write(&[]))), Poll::Ready(Ok(0))));
    assert!(matches!(
        poll(&mut pin!(io.read(&mut []))),
        Poll::Ready(Ok(0))
    ));
    let empty = [IoSlice::new(&[])];
    assert!(matches!(
        poll(&mut pin!(io.write_vectored(&empty))),
        Poll::Ready(Ok(0))
    ));
    assert!(poll(&mut pin!(io.flush())).is_ready());
    assert!(poll(&mut pin!(io.write(&[1]))).is_pending());
    assert!(poll(&mut pin!(io.flush())).is_ready());
    assert_eq!(gate.snapshot().waiters(), 1, "it keeps its place");
    assert!(poll(&mut pin!(io.shutdown())).is_ready());
    assert_eq!(gate.snapshot().waiters(), 0);
}

#[test]
fn vectored_writes_are_cut_to_what_is_allowed() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    let mut io = Throttled::new(Vec::new()).writes(&budget);
    assert!(io.is_write_vectored());
    let parts: Vec<Vec<u8>> = (0..40).map(|number| vec![number; 4]).collect();
    let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest = &mut slices[..];
    let mut sizes = Vec::new();
    while !rest.is_empty() {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut io).poll_write_vectored(&mut cx, rest) {
            Poll::Ready(Ok(count)) => {
                sizes.push(count);
                IoSlice::advance_slices(&mut rest, count);
            }
            other => panic!("{other:?}"),
        }
    }
    // 160 bytes: not more than a quantum, not more than 16 slices where it has to be cut.
    assert_eq!(sizes, [64, 36, 60]);
    assert_eq!(io.into_inner(), parts.concat());
    assert_eq!(gate.snapshot().available(), 1000 - 160);
}

#[test]
fn a_burst_smaller_than_every_buffer_works() {
    let time = ManualClock::new();
    let gate = queued(TokenBucket::per_second(1000).burst(3), &time);
    let budget = Budget::new(gate.clone());
    let mut io = Throttled::new(Moody::new([])).writes(&budget);
    let mut write = Box::pin(io.write_all(&[0; 9]));
    for _ in 0..2 {
        assert!(poll(&mut write).is_pending());
        time.advance(millis(3));
    }
    assert!(poll(&mut write).is_ready());
    drop(write);
    // It may shrink while connections run.
    gate.replace(TokenBucket::per_second(1000).burst(2), Carry::AsIs);
    let mut write = Box::pin(io.write_all(&[0; 4]));
    for _ in 0..2 {
        assert!(poll(&mut write).is_pending());
        time.advance(millis(2));
    }
    assert!(poll(&mut write).is_ready());
}

#[test]
fn a_closed_budget_is_an_error_that_says_so() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    gate.try_acquire(1000).unwrap().forget();
    let mut io = Throttled::new(Moody::new([])).writes(&budget);
    let mut write = Box::pin(io.write(&[0; 10]));
    assert!(poll(&mut write).is_pending());
    gate.close();
    let Poll::Ready(Err(error)) = poll(&mut write) else {
        panic!("it is closed")
    };
    let denied = error.get_ref().unwrap().downcast_ref::<Denied>().unwrap();
    assert_eq!(denied.reason(), Reason::Closed);
}

#[test]
fn a_rate_without_a_queue_is_waited_for_all_the_same() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1000))
        .clock(time.clock())
        .build();
    let budget = Budget::new(gate.clone()).quantum(100);
    gate.try_acquire(1000).unwrap().forget();
    let mut io = Throttled::new(Moody::new([])).writes(&budget);
    let mut write = Box::pin(io.write_all(&[0; 100]));
    assert!(poll(&mut write).is_pending());
    time.advance(millis(99));
    assert!(poll(&mut write).is_pending());
    time.advance(millis(1));
    assert!(poll(&mut write).is_ready());
}

#[tokio::test]
async fn a_basic_limiter_stalls_a_connection_while_it_is_saturated() {
    let full = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&full);
    let memory = Basic::when("memory", move || seen.load(Ordering::Relaxed));
    let budget = Budget::new(memory);
    let mut io = Throttled::new(Moody::new([])).writes(&budget);
    io.write_all(&[0; 100_000]).await.unwrap();
    full.store(true, Ordering::Relaxed);
    assert!(poll(&mut pin!(io.write_all(&[0]))).is_pending());
}

#[test]
fn reads_and_writes_have_budgets_of_their_own() {
    let time = ManualClock::new();
    let (down, reads) = budget(&time);
    let (up, writes) = budget(&time);
    let mut io = Throttled::new(Moody::new([])).reads(&reads).writes(&writes);
    down.try_acquire(1000).unwrap().forget();
    let mut buffer = [0; 10];
    assert!(poll(&mut pin!(io.read(&mut buffer))).is_pending());
    assert!(poll(&mut pin!(io.write_all(&[0; 10]))).is_ready());
    assert_eq!(up.snapshot().available(), 990);
    let mut free = Throttled::new(Moody::new([]));
    assert!(poll(&mut pin!(free.write_all(&[0; 100_000]))).is_ready());
    assert_eq!(free.get_ref().asked, [100_000]);
}

#[test]
fn of_several_budgets_the_narrowest_decides_and_nobody_hoards_the_others() {
    let time = ManualClock::new();
    let own_gate = queued(TokenBucket::per_second(100).burst(50), &time);
    let own = Budget::new(own_gate.clone()).quantum(50);
    let (all_gate, all) = budget(&time);
    let mut io = Throttled::new(Moody::new([])).writes(&own).writes(&all);
    let mut write = Box::pin(io.write_all(&[0; 150]));
    assert!(poll(&mut write).is_pending());
    assert_eq!(all_gate.snapshot().available(), 950, "no more than it used");
    for _ in 0..2 {
        time.advance(millis(500));
        let _ = poll(&mut write);
    }
    assert!(poll(&mut write).is_pending() || own_gate.snapshot().waiters() == 0);
    drop(write);
    assert_eq!(io.get_ref().moved, 150);

    // The shared one has nothing: what the own one gave is kept for that time only.
    time.advance(millis(500));
    all_gate.try_acquire(1000).unwrap().forget();
    let mut write = Box::pin(io.write_all(&[0; 20]));
    assert!(poll(&mut write).is_pending());
    assert_eq!(all_gate.snapshot().waiters(), 1);
    drop(write);
    drop(io);
    assert_eq!(own_gate.snapshot().available(), 50);
    assert_eq!(all_gate.snapshot().waiters(), 0);
}

#[tokio::test]
async fn a_socket_is_throttled() {
    let time = ManualClock::new();
    let (gate, budget) = budget(&time);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    let (mut client, (server, _)) = (client.unwrap(), accepted.unwrap());
    let mut server = Throttled::new(server).writes(&budget);
    let sends = tokio::spawn(async move {
        server.write_all(&[7; 3000]).await?;
        server.shutdown().await
    });
    let mut buffer = [0; 1000];
    client.read_exact(&mut buffer).await.unwrap();
    for _ in 0..20 {
        while gate.snapshot().waiters() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(client.try_read(&mut buffer).is_err(), "not before its time");
        time.advance(millis(100));
        client.read_exact(&mut buffer[..100]).await.unwrap();
    }
    assert_eq!(client.read(&mut buffer).await.unwrap(), 0);
    sends.await.unwrap().unwrap();
    settle().await;
    assert_eq!(gate.snapshot().available(), 0);
}
