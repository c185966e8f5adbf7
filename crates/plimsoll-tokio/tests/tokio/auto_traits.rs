//! What can be moved between threads, and what futures can be spawned.

use std::pin::Pin;

use futures_util::stream::Iter;
use plimsoll::{Concurrency, Demand, Gate};
use plimsoll_tokio::channel::{PermitReceiver, Receiver, SendError, Sender, Slot};
use plimsoll_tokio::listener::{Admission, Connection, ConnectionCounts};
use plimsoll_tokio::stream::{Limited, LimitedWithPermit, Refused};
use plimsoll_tokio::{Budget, LimitedListener, Throttled, WithPermit, channel};
use tokio::net::TcpStream;

type Items = Iter<std::vec::IntoIter<String>>;
type Cost = fn(&String) -> Demand;

fn is_send<T: Send>() {}
fn is_shared<T: Send + Sync + Unpin>() {}
fn can_be_spawned<T: Send>(_future: &T) {}

#[test]
fn everything_can_be_sent() {
    is_shared::<Sender<String>>();
    is_shared::<Receiver<String>>();
    is_shared::<PermitReceiver<String>>();
    is_shared::<Slot<String>>();
    is_shared::<SendError<String>>();
    is_shared::<WithPermit<String>>();
    is_shared::<Refused<String>>();
    is_shared::<Budget>();
    is_shared::<Connection<TcpStream>>();
    is_shared::<Admission>();
    is_shared::<ConnectionCounts>();
    is_shared::<LimitedListener>();
    is_send::<Throttled<TcpStream>>();
    is_send::<Pin<Box<Throttled<TcpStream>>>>();
    is_send::<Limited<Items, Cost>>();
    is_send::<LimitedWithPermit<Items, Cost>>();
}

#[test]
fn every_future_can_be_spawned() {
    let (sender, mut receiver) = channel::<String>(Gate::new(Concurrency::new(1)));
    can_be_spawned(&sender.send(String::new()));
    can_be_spawned(&sender.reserve(1));
    can_be_spawned(&sender.closed());
    can_be_spawned(&receiver.recv());
    can_be_spawned(&receiver.recv_with_permit());
    fn accept(listener: &mut LimitedListener) {
        can_be_spawned(&listener.accept());
    }
    let _: fn(&mut LimitedListener) = accept;
}
