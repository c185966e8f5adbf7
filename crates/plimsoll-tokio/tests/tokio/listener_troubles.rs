//! An accept loop whose connections are made up: errors, addresses of all kinds, and giving up at any moment.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::poll::poll;
use crate::queued::queued;
use plimsoll::{Address, Concurrency, Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tokio::LimitedListener;
use plimsoll_tokio::listener::{Accept, WhenFull};
use proptest::prelude::*;

/// What happens next at the door.
#[derive(Clone, Debug)]
enum Next {
    Nobody,
    Comes(&'static str),
    Fails(io::ErrorKind),
}

struct Door(VecDeque<Next>);

impl Accept for Door {
    type Io = ();
    type Addr = SocketAddr;

    fn poll_accept(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<((), SocketAddr)>> {
        match self.0.pop_front() {
            None | Some(Next::Nobody) => Poll::Pending,
            Some(Next::Fails(kind)) => Poll::Ready(Err(kind.into())),
            Some(Next::Comes(address)) => {
                let address: IpAddr = address.parse().expect("it is an address");
                Poll::Ready(Ok(((), SocketAddr::new(address, 4000))))
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn ip((): &(), addr: &SocketAddr) -> IpAddr {
        addr.ip()
    }
}

fn door(next: impl IntoIterator<Item = Next>) -> LimitedListener<Door> {
    LimitedListener::new(Door(next.into_iter().collect()))
}

/// Whether somebody is accepted now.
fn accepts(listener: &mut LimitedListener<Door>) -> bool {
    poll(&mut pin!(listener.accept())).is_ready()
}

#[test]
fn an_error_of_one_connection_is_passed_over_and_others_are_waited_out() {
    let time = ManualClock::new();
    let mut listener = door([
        Next::Fails(io::ErrorKind::ConnectionAborted),
        Next::Fails(io::ErrorKind::ConnectionReset),
        Next::Fails(io::ErrorKind::Other),
        Next::Fails(io::ErrorKind::OutOfMemory),
        Next::Comes("192.0.2.1"),
    ])
    .clock(time.clock());
    let mut accept = Box::pin(listener.accept());
    for _ in 0..2 {
        assert!(poll(&mut accept).is_pending());
        time.advance(Duration::from_millis(999));
        assert!(poll(&mut accept).is_pending());
        time.advance(Duration::from_millis(1));
    }
    let Poll::Ready(Ok((_, peer))) = poll(&mut accept) else {
        panic!("somebody is there")
    };
    assert_eq!(peer.to_string(), "192.0.2.1:4000");
}

#[test]
fn an_address_is_what_one_client_has() {
    let limits: Keyed<Address, _> = Keyed::new(Concurrency::new(1));
    let mut listener = door([
        Next::Comes("192.0.2.1"),
        Next::Comes("::ffff:192.0.2.1"),
        Next::Comes("2001:db8::1"),
        Next::Comes("2001:db8::2"),
        Next::Comes("2001:db8:0:1::1"),
        Next::Comes("2001:db8:0:2::1"),
    ])
    .per_address(limits);
    let mut served = Vec::new();
    let mut peers = Vec::new();
    while let Poll::Ready(Ok((connection, peer))) = poll(&mut pin!(listener.accept())) {
        served.push(connection);
        peers.push(peer.ip().to_string());
    }
    assert_eq!(
        peers,
        [
            "192.0.2.1",
            "2001:db8::1",
            "2001:db8:0:1::1",
            "2001:db8:0:2::1"
        ]
    );
    assert_eq!(listener.counts().refused_by_address(), 2);

    let limits: Keyed<Address, _> = Keyed::new(Concurrency::new(1));
    let crowd = ["2001:db8:0:1::1", "2001:db8:0:2::1"].map(Next::Comes);
    let mut listener = door(crowd).per_address(limits).ipv6_prefix(48);
    let Poll::Ready(Ok(_held)) = poll(&mut pin!(listener.accept())) else {
        panic!("it is the first")
    };
    assert!(!accepts(&mut listener));
}

#[test]
fn a_total_without_a_queue_is_waited_for_all_the_same() {
    let time = ManualClock::new();
    let total = Gate::builder(TokenBucket::per_second(2))
        .clock(time.clock())
        .build();
    total.try_acquire(2).unwrap().forget();
    let mut listener = door([Next::Comes("192.0.2.1")]).total(total);
    let mut accept = Box::pin(listener.accept());
    assert!(poll(&mut accept).is_pending());
    time.advance(Duration::from_millis(499));
    assert!(poll(&mut accept).is_pending());
    time.advance(Duration::from_millis(1));
    assert!(poll(&mut accept).is_ready());
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        3 => Just(Next::Nobody),
        3 => prop::sample::select(vec!["192.0.2.1", "192.0.2.2", "2001:db8::1"])
            .prop_map(Next::Comes),
        1 => Just(Next::Fails(io::ErrorKind::ConnectionAborted)),
        1 => Just(Next::Fails(io::ErrorKind::Other)),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    /// Polls an accept so often, then gives it up.
    Accept(usize),
    Hang(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5_usize).prop_map(Step::Accept),
        2 => any::<usize>().prop_map(Step::Hang),
        1 => (0..1500_u64).prop_map(Step::Advance),
    ]
}

proptest! {
    #[test]
    fn whoever_gives_up_whenever_leaves_nothing_behind(
        nexts in prop::collection::vec(next(), 0..60),
        steps in prop::collection::vec(step(), 0..60),
        wait in any::<bool>(),
    ) {
        let time = ManualClock::new();
        let total = queued(Concurrency::new(3), &time);
        let limits: Keyed<Address, _> = Keyed::builder(Concurrency::new(2)).clock(time.clock()).build();
        let mut listener = door(nexts)
            .total(total.clone())
            .per_address(limits.clone())
            .when_full(if wait { WhenFull::Wait } else { WhenFull::Refuse })
            .clock(time.clock());
        let mut open = Vec::new();
        for step in steps {
            match step {
                Step::Accept(polls) => {
                    let mut accept = Box::pin(listener.accept());
                    for _ in 0..polls {
                        if let Poll::Ready(accepted) = poll(&mut accept) {
                            open.push(accepted.unwrap());
                            break;
                        }
                    }
                }
                Step::Hang(index) if !open.is_empty() => {
                    drop(open.swap_remove(index % open.len()));
                }
                Step::Hang(_) => {}
                Step::Advance(millis) => time.advance(Duration::from_millis(millis)),
            }
            prop_assert_eq!(total.snapshot().in_use(), open.len() as u64);
            prop_assert_eq!(total.snapshot().waiters(), 0);
            for (_, peer) in &open {
                let same = open.iter().filter(|other| other.1.ip() == peer.ip()).count();
                prop_assert!(same <= 2);
            }
        }
        open.clear();
        prop_assert_eq!(total.snapshot().in_use(), 0);
        for address in ["192.0.2.1", "192.0.2.2", "2001:db8::"] {
            let address: IpAddr = address.parse().unwrap();
            let address = Address::network(address, 32, 64);
            prop_assert!(limits.try_acquire(&address, 2).is_ok(), "{address} holds something");
        }
    }
}
