//! A network that can be made slow, deaf or dead, between a store and those who ask it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the network does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    Fair,
    /// Everything arrives so much later, in both directions together.
    Slow(Duration),
    /// Nothing arrives, until it is fair again.
    Stalled,
    /// Connections are closed as soon as they are made, and those there are.
    Cut,
    /// Everything is sent, and instead of an answer the connection ends, unless it was made after so many others.
    Broken(usize),
    /// Everything is sent, and no answer arrives, on every second connection; nor later on the same.
    HalfDeaf,
}

/// A proxy on a port of its own. It ends with the test.
pub(crate) struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    connections: Arc<AtomicUsize>,
    port: Arc<AtomicU16>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (weather, seen) = watch::channel(Weather::Fair);
        let connections = Arc::new(AtomicUsize::new(0));
        let mut accepting = JoinSet::new();
        let numbers = Arc::clone(&connections);
        let port = Arc::new(AtomicU16::new(port));
        let behind = Arc::clone(&port);
        accepting.spawn(async move {
            let mut wires = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let port = behind.load(Ordering::Relaxed);
                wires.spawn(connect(client, port, number, seen.clone()));
            }
        });
        Self {
            address,
            weather,
            connections,
            port,
            _accepting: accepting,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn turns(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// Whoever connects from now on reaches another server; those who are connected stay where they are.
    pub(crate) fn moves_to(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// How many connections were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn connect(client: TcpStream, port: u16, number: usize, mut seen: watch::Receiver<Weather>) {
    if *seen.borrow() == Weather::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let there = carry(from_client, to_server, seen.clone(), None);
    let back = carry(from_server, to_client, seen.clone(), Some(number));
    let cut = seen.wait_for(|weather| *weather == Weather::Cut);
    // Whichever ends first ends the connection.
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = cut => {}
    }
}

/// Answers have the number of their connection.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut seen: watch::Receiver<Weather>,
    answers: Option<usize>,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut deaf = false;
    loop {
        let length = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let weather = *seen.borrow();
        match weather {
            Weather::Fair | Weather::Cut => {}
            Weather::Slow(delay) => tokio::time::sleep(delay / 2).await,
            Weather::Stalled => {
                if seen
                    .wait_for(|weather| *weather != Weather::Stalled)
                    .await
                    .is_err()
                {
                    return;
                }
            }
            // A stream with a hole in it would be another stream, so there is none after the hole.
            Weather::HalfDeaf => deaf |= answers.is_some_and(|number| number.is_multiple_of(2)),
            Weather::Broken(before) if answers.is_some_and(|number| number < before) => return,
            Weather::Broken(_) => {}
        }
        if !deaf && to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
