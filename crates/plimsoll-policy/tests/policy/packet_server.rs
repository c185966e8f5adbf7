//! The example's server, over real sockets from several addresses. Its time is moved by hand.

#[path = "../../examples/packet_server/server.rs"]
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use plimsoll::ManualClock;
use plimsoll_policy::Policies;
use server::{DONE, HARD_LOCKOUT, MALFORMED, SOFT_THROTTLE, UNKNOWN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

struct Server {
    address: SocketAddr,
    policies: Policies,
    time: ManualClock,
}

impl Server {
    async fn start() -> Self {
        let time = ManualClock::new();
        let policies = server::policies()
            .lockout(Duration::from_secs(30))
            .clock(time.clock())
            .build()
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(server::serve(listener, policies.clone()));
        Self {
            address,
            policies,
            time,
        }
    }

    /// A connection from 127.0.0.`host`, from a port of its own.
    async fn connect(&self, host: u8) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind((Ipv4Addr::new(127, 0, 0, host), 0).into())
            .unwrap();
        Client(socket.connect(self.address).await.unwrap())
    }

    /// One packet over a connection of its own.
    async fn ask(&self, host: u8, op: u16) -> (u8, Vec<u8>) {
        let mut client = self.connect(host).await;
        client.ask(op, b"").await.unwrap()
    }
}

struct Client(TcpStream);

impl Client {
    async fn ask(&mut self, op: u16, body: &[u8]) -> io::Result<(u8, Vec<u8>)> {
        let length = u16::try_from(2 + body.len()).unwrap();
        let packet = [&length.to_be_bytes()[..], &op.to_be_bytes(), body].concat();
        self.0.write_all(&packet).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let length = self.0.read_u16().await?;
        let status = self.0.read_u8().await?;
        let mut body = vec![0; usize::from(length) - 1];
        self.0.read_exact(&mut body).await?;
        Ok((status, body))
    }
}

/// The body of a refusal.
fn come_back(retry_after_ms: u32, credit: u16) -> Vec<u8> {
    [&retry_after_ms.to_be_bytes()[..], &credit.to_be_bytes()].concat()
}

#[tokio::test]
async fn a_handler_answers_within_its_policy_and_says_when_to_come_back() {
    let server = Server::start().await;
    let mut client = server.connect(2).await;
    for _ in 0..4 {
        let answer = client.ask(1, b"echo").await.unwrap();
        assert_eq!(answer, (DONE, b"echo".to_vec()));
    }
    let refused = (SOFT_THROTTLE, come_back(125, 0));
    assert_eq!(client.ask(1, b"echo").await.unwrap(), refused);
    server.time.advance(Duration::from_millis(125));
    assert_eq!(client.ask(1, b"").await.unwrap(), (DONE, Vec::new()));
    let greeting = (DONE, b"hello world".to_vec());
    assert_eq!(client.ask(2, b"world").await.unwrap(), greeting);
}

#[tokio::test]
async fn another_port_is_no_way_around_a_limit() {
    let server = Server::start().await;
    let mut ports = Vec::new();
    let mut statuses = Vec::new();
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut client = server.connect(2).await;
        ports.push(client.0.local_addr().unwrap().port());
        statuses.push(client.ask(1, b"").await.unwrap().0);
        open.push(client);
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8, "eight different ports");
    let (soft, hard) = (SOFT_THROTTLE, HARD_LOCKOUT);
    assert_eq!(statuses, [DONE, DONE, DONE, DONE, soft, soft, hard, hard]);
}

#[tokio::test]
async fn addresses_are_limited_each_for_itself() {
    let server = Server::start().await;
    for host in 2..12 {
        assert_eq!(server.ask(host, 2).await.0, DONE, "127.0.0.{host}");
        assert_eq!(server.ask(host, 2).await.0, SOFT_THROTTLE, "127.0.0.{host}");
    }
    assert_eq!(server.policies.report().rows()[0].subjects(), 10);

    assert_eq!(server.ask(2, 2).await.0, SOFT_THROTTLE);
    let locked_out = (HARD_LOCKOUT, come_back(30_000, 0));
    assert_eq!(server.ask(2, 2).await, locked_out);
    server.time.advance(Duration::from_secs(1));
    let locked_out = (HARD_LOCKOUT, come_back(29_000, 1));
    assert_eq!(server.ask(2, 2).await, locked_out);
    assert_eq!(server.ask(2, 1).await.0, DONE, "another operation");
    assert_eq!(server.ask(3, 2).await.0, DONE, "another address");
}

#[tokio::test]
async fn operations_nobody_handles_are_limited_by_address_whatever_their_code() {
    let server = Server::start().await;
    let mut client = server.connect(2).await;
    for op in 100..112 {
        assert_eq!(client.ask(op, b"").await.unwrap(), (UNKNOWN, Vec::new()));
    }
    assert_eq!(client.ask(999, b"").await.unwrap().0, SOFT_THROTTLE);
    assert_eq!(server.ask(3, 999).await.0, UNKNOWN);
    for _ in 0..100 {
        assert_eq!(client.ask(3, b"").await.unwrap(), (DONE, b"pong".to_vec()));
    }
    let never = (HARD_LOCKOUT, come_back(2_147_483_647, 0));
    assert_eq!(client.ask(4, b"").await.unwrap(), never);
}

#[tokio::test]
async fn what_is_no_packet_ends_its_connection_and_nothing_else() {
    let server = Server::start().await;
    let too_long = [0xff; 2000];
    let malformed: [&[u8]; 4] = [&[0, 0], &[0, 1, 7], &[4, 1, 0, 1], &too_long];
    for bytes in malformed {
        let mut client = server.connect(2).await;
        client.0.write_all(bytes).await.unwrap();
        client.0.shutdown().await.unwrap();
        assert_eq!(client.answer().await.unwrap(), (MALFORMED, Vec::new()));
        // What was not read of it may end the connection less gently than with an end.
        assert!(!matches!(client.0.read(&mut [0]).await, Ok(1..)));
    }
    let cut_short: [&[u8]; 5] = [&[], &[0], &[0, 2], &[0, 2, 0], &[4, 0, 0, 1, 5]];
    for bytes in cut_short {
        let mut client = server.connect(2).await;
        client.0.write_all(bytes).await.unwrap();
        client.0.shutdown().await.unwrap();
        assert!(client.answer().await.is_err());
    }
    assert_eq!(server.policies.report().evaluations(), 0);
    assert_eq!(server.ask(2, 1).await.0, DONE);
}

#[tokio::test]
async fn closed_policies_end_connections_instead_of_letting_packets_through() {
    let server = Server::start().await;
    let mut client = server.connect(2).await;
    assert_eq!(client.ask(3, b"").await.unwrap().0, DONE);
    server.policies.close();
    assert!(client.ask(3, b"").await.is_err());
}
