//! When a store is connected to and how, and what is answered where it is not there.

use std::io::Read;
use std::net::TcpListener;

use plimsoll::Reason;

use super::server::Server;
use super::{KINDS, build, described, limiter, one};

#[tokio::test]
async fn without_its_store_a_limiter_answers_as_the_file_says() {
    let server = Server::start();
    let bucket = |outage| limiter(KINDS[4], 8, &format!("store: main, {outage}"));
    let limits = build(&format!(
        "stores: {{ main: {{ {} }} }}
limiters:
  deny: {}
  admit: {}
  local: {}
  keys: {}
  slots: {{ kind: concurrency, limit: 8, store: main, outage: {{ local: 0.25 }} }}
",
        described(&server),
        bucket(""),
        bucket("outage: admit"),
        bucket("outage: { local: 0.25 }"),
        bucket("outage: { local: 0.25 }, keyed: true"),
    ));
    assert!(one(&limits, "deny").acquire(1.into()).await.is_ok());
    drop(server);

    for _ in 0..20 {
        let denied = one(&limits, "deny").acquire_owned(1.into()).await;
        let denied = denied.expect_err("there is no store");
        assert_eq!(denied.reason(), Reason::Unavailable);
        assert!(one(&limits, "admit").acquire(8.into()).await.is_ok());
    }
    for name in ["local", "slots"] {
        let limiter = one(&limits, name);
        let held = limiter.acquire(2.into()).await.expect("a quarter");
        let denied = limiter.acquire(1.into()).await.expect_err("no more");
        assert_eq!(denied.reason(), Reason::Exhausted, "{name}");
        drop(held);
    }
    let keys = limits.keyed("keys").expect("there");
    assert!(keys.acquire("anna", 2).await.is_ok());
    assert!(keys.acquire("anna", 1).await.is_err());
    assert!(keys.acquire("bert", 2).await.is_ok());
}

#[tokio::test]
async fn an_address_with_tls_is_spoken_to_in_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let limits = build(&format!(
        "stores: {{ main: {{ url: 'rediss://{address}', deadline: 20s }} }}\nlimiters: {{ a: {} }}\n",
        limiter(KINDS[4], 1, "store: main"),
    ));
    let heard = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("somebody comes");
        let mut hello = [0; 2];
        caller.read_exact(&mut hello).map(|()| hello)
    });
    let denied = one(&limits, "a").acquire_owned(1.into()).await;
    let denied = denied.expect_err("it hung up");
    assert_eq!(denied.reason(), Reason::Unavailable);
    let hello = heard.join().expect("it listened").expect("a greeting");
    assert_eq!(hello, [0x16, 3], "a handshake of TLS");
}

#[test]
fn nothing_connects_before_it_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("asked, not waited");
    let address = listener.local_addr().expect("its address");
    let limits = build(&format!(
        "stores: {{ main: {{ url: 'redis://{address}' }}, nobodys: {{ cluster: ['redis://{address}'] }} }}
limiters: {{ a: {{ kind: concurrency, limit: 1, store: main }} }}
"
    ));
    assert!(one(&limits, "a").try_acquire(1.into()).is_err());
    let nobody = listener.accept().expect_err("nobody comes");
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}
