//! The limited accept loop, over real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::queued::queued;
use crate::settle::settle;
use plimsoll::{Address, Concurrency, Gate, Keyed, ManualClock, Reason, TokenBucket};
use plimsoll_tokio::listener::WhenFull;
use plimsoll_tokio::{Budget, LimitedListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

async fn listen() -> (LimitedListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (LimitedListener::new(listener), address)
}

/// A connection from 127.0.0.`last`.
async fn connect(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::from(([127, 0, 0, last], 0)))
        .unwrap();
    socket.connect(to).await.unwrap()
}

/// Whether the other side has closed the connection. Waits until it does.
async fn is_closed(client: &mut TcpStream) -> bool {
    match client.read(&mut [0]).await {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[tokio::test]
async fn connections_beyond_the_total_wait_to_be_accepted() {
    let total = queued(Concurrency::new(2), &ManualClock::new());
    let (listener, address) = listen().await;
    let mut listener = listener.total(total.clone());
    let counts = listener.counts();
    let mut clients = Vec::new();
    let mut accepted = Vec::new();
    for _ in 0..2 {
        clients.push(connect(1, address).await);
        accepted.push(listener.accept().await.unwrap().0);
    }
    let mut third = connect(2, address).await;
    tokio::select! {
        biased;
        _ = listener.accept() => panic!("there are two already"),
        () = settle() => {}
    }
    assert_eq!(
        (total.snapshot().waiters(), total.snapshot().in_use()),
        (0, 2)
    );
    let next = tokio::spawn(async move {
        let (mut io, peer) = listener.accept().await.unwrap();
        io.write_all(b"hello").await.unwrap();
        peer
    });
    settle().await;
    assert_eq!(total.snapshot().waiters(), 1);
    drop(accepted.pop());
    assert!(is_closed(&mut clients[1]).await);
    let mut hello = [0; 5];
    third.read_exact(&mut hello).await.unwrap();
    assert_eq!(next.await.unwrap(), third.local_addr().unwrap());
    assert_eq!(counts.accepted(), 3);
    assert_eq!(
        (counts.refused_in_total(), counts.refused_by_address()),
        (0, 0)
    );
}

#[tokio::test]
async fn connections_beyond_the_total_are_closed_if_so_wanted() {
    let total = Gate::new(Concurrency::new(1));
    let (listener, address) = listen().await;
    let mut listener = listener.total(total.clone()).when_full(WhenFull::Refuse);
    let counts = listener.counts();
    let _first = connect(1, address).await;
    let (io, _) = listener.accept().await.unwrap();
    let accepts = tokio::spawn(async move { listener.accept().await.unwrap().1 });
    for number in 1..=3 {
        let mut client = connect(1, address).await;
        assert!(is_closed(&mut client).await);
        assert_eq!(counts.refused_in_total(), number);
    }
    assert_eq!(total.snapshot().in_use(), 1, "nothing is held in advance");
    let (io, admission) = io.into_parts();
    drop(io);
    assert_eq!(total.snapshot().in_use(), 1);
    drop(admission);
    let last = connect(1, address).await;
    assert_eq!(accepts.await.unwrap(), last.local_addr().unwrap());
    assert_eq!(counts.accepted(), 2);
}

#[tokio::test]
async fn one_address_cannot_keep_others_out() {
    let total = queued(Concurrency::new(10), &ManualClock::new());
    let per_address: Keyed<Address, _> = Keyed::new(Concurrency::new(2));
    let (listener, address) = listen().await;
    let mut listener = listener.total(total.clone()).per_address(per_address);
    let counts = listener.counts();
    let accepts = tokio::spawn(async move {
        let mut served = Vec::new();
        for _ in 0..4 {
            served.push(listener.accept().await.unwrap());
        }
        served
    });
    // Slow clients that never say anything, from ports of all kinds.
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(connect(66, address).await);
    }
    let polite = [connect(2, address).await, connect(3, address).await];
    let served = accepts.await.unwrap();
    let peers: Vec<_> = served.iter().map(|(_, peer)| *peer).collect();
    for client in &polite {
        assert!(peers.contains(&client.local_addr().unwrap()));
    }
    assert_eq!(counts.refused_by_address(), 38);
    assert_eq!(total.snapshot().in_use(), 4);
    for client in &mut crowd[2..] {
        assert!(is_closed(client).await);
    }
    drop(served);
    assert_eq!(total.snapshot().in_use(), 0);
}

#[tokio::test]
async fn an_address_may_come_back_when_it_has_left() {
    let per_address: Keyed<Address, _> = Keyed::new(Concurrency::new(1));
    let (listener, address) = listen().await;
    let mut listener = listener.per_address(per_address);
    for round in 1..=3 {
        let _client = connect(5, address).await;
        let (first, _) = listener.accept().await.unwrap();
        let mut second = connect(5, address).await;
        let other = connect(6, address).await;
        let (io, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, other.local_addr().unwrap());
        assert!(is_closed(&mut second).await);
        assert_eq!(listener.counts().refused_by_address(), round);
        drop((first, io));
    }
}

#[tokio::test]
async fn connections_can_be_limited_by_the_second() {
    let time = ManualClock::new();
    let rate = queued(TokenBucket::per_second(2), &time);
    let (listener, address) = listen().await;
    let mut listener = listener.total(rate.clone());
    let clients = [(); 3].map(|()| connect(1, address));
    let _clients = futures_util::future::join_all(clients).await;
    for _ in 0..2 {
        drop(listener.accept().await.unwrap());
    }
    tokio::select! {
        biased;
        _ = listener.accept() => panic!("not so fast"),
        () = settle() => {}
    }
    assert_eq!(rate.snapshot().waiters(), 0, "it left the queue");
    time.advance(Duration::from_millis(500));
    drop(listener.accept().await.unwrap());
    // One who gives up waiting for a connection gives back what was taken for it.
    time.advance(Duration::from_millis(500));
    tokio::select! {
        biased;
        _ = listener.accept() => panic!("nobody is there"),
        () = settle() => {}
    }
    assert_eq!(rate.snapshot().available(), 1);
}

#[tokio::test]
async fn a_closed_limiter_accepts_nobody() {
    let total = queued(Concurrency::new(1), &ManualClock::new());
    let (listener, address) = listen().await;
    let mut listener = listener.total(total.clone());
    let _client = connect(1, address).await;
    let held = listener.accept().await.unwrap();
    let waits = tokio::spawn(async move {
        let denied = listener.accept().await.unwrap_err();
        (denied, listener)
    });
    settle().await;
    total.close();
    let (denied, listener) = waits.await.unwrap();
    assert_eq!(denied.reason(), Reason::Closed);
    drop(held);
    let mut listener = listener.when_full(WhenFull::Refuse);
    let _client = connect(1, address).await;
    assert_eq!(
        listener.accept().await.unwrap_err().reason(),
        Reason::Closed
    );
}

#[cfg(unix)]
#[tokio::test]
async fn connections_through_a_unix_socket_count_in_total_and_by_user() {
    use tokio::net::{UnixListener, UnixStream};

    let path = std::env::temp_dir().join(format!("plimsoll-listener-{}", std::process::id()));
    let per_user: Keyed<Address, _> = Keyed::new(Concurrency::new(2));
    let total = Gate::new(Concurrency::new(10));
    let mut listener = LimitedListener::new(UnixListener::bind(&path).unwrap())
        .total(total.clone())
        .when_full(WhenFull::Refuse)
        .per_address(per_user);
    assert_eq!(
        listener.local_addr().unwrap().as_pathname(),
        Some(path.as_path())
    );
    let counts = listener.counts();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(UnixStream::connect(&path).await.unwrap());
    }
    let (one, _) = listener.accept().await.unwrap();
    let (two, _) = listener.accept().await.unwrap();
    // The third is of the same user, and closed while the listener waits for the next.
    tokio::select! {
        biased;
        _ = listener.accept() => panic!("it was accepted"),
        closed = clients[2].read_u8() => assert!(closed.is_err()),
    }
    assert_eq!((counts.accepted(), counts.refused_by_address()), (2, 1));
    assert_eq!(total.snapshot().in_use(), 2);
    drop((one, two));
    assert_eq!(total.snapshot().in_use(), 0);
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn byte_budgets_of_a_listener_count_what_connections_read_and_write() {
    let time = ManualClock::new();
    let (all, each) = (
        queued(TokenBucket::per_second(10), &time),
        queued(TokenBucket::per_second(6), &time),
    );
    let (listener, address) = listen().await;
    let made = each.clone();
    let mut listener = listener
        .reads(Budget::new(all.clone()))
        .each_writes(move || Budget::new(made.clone()));
    let mut clients = Vec::new();
    let mut accepted = Vec::new();
    for last in 1..=2 {
        let mut client = connect(last, address).await;
        client.write_all(b"eight by").await.unwrap();
        clients.push(client);
        accepted.push(listener.accept().await.unwrap().0);
    }
    // Together they may read ten bytes in the first second.
    let mut buffer = [0; 8];
    accepted[0].read_exact(&mut buffer).await.unwrap();
    accepted[1].read_exact(&mut buffer[..2]).await.unwrap();
    assert_eq!(all.snapshot().available(), 0);
    tokio::select! {
        biased;
        _ = accepted[1].read(&mut buffer) => panic!("the budget is used up"),
        () = settle() => {}
    }
    time.advance(Duration::from_secs(1));
    accepted[1].read_exact(&mut buffer[..6]).await.unwrap();

    accepted[0].write_all(b"sixbyt").await.unwrap();
    accepted[0].flush().await.unwrap();
    assert_eq!(each.snapshot().available(), 0);
    clients[0].read_exact(&mut buffer[..6]).await.unwrap();
}
