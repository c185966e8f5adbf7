//! Connections that become old.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use crate::Running;
use crate::envoy::{Answer, METHOD, OK, Request, descriptor};
use crate::grpc::Client;
use crate::snapshots::Directory;
use crate::wire::Kept;

const CONNECTIONS: usize = 25;

const FILE: &str = "limits:
  counted: { kind: fixed_window, limit: 1000000000, window: 24h, key: descriptor:user }
routes: [{ match: /**, hosts: [users], limits: [counted] }]
";

/// Whether the client had not sent a call when its connection ended: other clients of gRPC send it again by themselves then,
/// and tonic leaves that to the caller.
fn was_never_sent(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let canceled = error.downcast_ref::<hyper::Error>();
        let away = error.downcast_ref::<h2::Error>();
        if canceled.is_some_and(hyper::Error::is_canceled)
            || away.is_some_and(|it| it.is_go_away() && it.reason() == Some(h2::Reason::NO_ERROR))
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An old connection ends in order: its client is told to open another one, every call that was sent is answered, and what was
/// not sent is not counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_become_old_and_not_one_call_fails() {
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    std::fs::write(&file, format!("serve: {{ grpc_age: 20ms }}\n{FILE}")).expect("a file");
    let server = Running::start(file.to_str(), None).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let (to, count) = (server.grpc, Arc::clone(&opened));
    let connector = tower::service_fn(move |_: http::Uri| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { TcpStream::connect(to).await.map(TokioIo::new) }
    });
    let channel = Channel::from_static("http://localhost");
    let channel = channel.connect_with_connector(connector).await;
    let channel = channel.expect("it listens");
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let mut client = Client::over(channel.clone());
        let opened = Arc::clone(&opened);
        tasks.spawn(async move {
            let mut calls = 0_i64;
            while opened.load(Ordering::Relaxed) < CONNECTIONS {
                let request = Request {
                    domain: "users".to_owned(),
                    descriptors: vec![descriptor("user=anna")],
                    hits_addend: 0,
                };
                match client.call::<_, Answer>(METHOD, request).await {
                    Err(status) if was_never_sent(&status) => {}
                    answer => {
                        assert_eq!(answer.expect("not one call fails").overall_code, OK);
                        calls += 1;
                    }
                }
            }
            calls
        });
    }
    let done = tokio::time::timeout(Duration::from_secs(120), tasks.join_all());
    let calls: i64 = done.await.expect("connections become old").iter().sum();
    let mut kept = Kept::new(server.resp).await;
    let five = kept.five("PLIMSOLL.PEEK counted anna").await;
    let five = five.expect("an answer").expect("numbers");
    assert_eq!(five[1] - five[2], calls);
    println!("{calls} calls over {CONNECTIONS} connections");
    drop((channel, kept));
    server.stop().await;
}
