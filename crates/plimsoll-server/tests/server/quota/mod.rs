//! Envoy's quota service, over plain gRPC: streams that report and are assigned to.

mod envoy;

use std::collections::BTreeMap;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use serde_json::Value;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::Running;
use crate::http::send;
use crate::snapshots::Directory;

const METHOD: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

#[derive(Clone, PartialEq, Message)]
struct Reports {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    usages: Vec<Usage>,
}

#[derive(Clone, PartialEq, Message)]
struct Usage {
    #[prost(message, optional, tag = "1")]
    bucket: Option<Bucket>,
    #[prost(message, optional, tag = "2")]
    elapsed: Option<Span>,
    #[prost(uint64, tag = "3")]
    allowed: u64,
    #[prost(uint64, tag = "4")]
    denied: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(btree_map = "string, string", tag = "1")]
    entries: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Span {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, repeated, tag = "1")]
    actions: Vec<Action>,
}

#[derive(Clone, PartialEq, Message)]
struct Action {
    #[prost(message, optional, tag = "1")]
    bucket: Option<Bucket>,
    #[prost(message, optional, tag = "2")]
    assignment: Option<Assignment>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Assignment {
    #[prost(message, optional, tag = "2")]
    ttl: Option<Span>,
    #[prost(message, optional, tag = "3")]
    strategy: Option<Strategy>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Strategy {
    #[prost(int32, optional, tag = "1")]
    blanket: Option<i32>,
    #[prost(message, optional, tag = "3")]
    bucket: Option<TokenBucket>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct TokenBucket {
    #[prost(uint32, tag = "1")]
    max: u32,
    #[prost(message, optional, tag = "2")]
    tokens: Option<Count>,
    #[prost(message, optional, tag = "3")]
    interval: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Count {
    #[prost(uint32, tag = "1")]
    value: u32,
}

/// One proxy.
struct Proxy {
    reports: mpsc::Sender<Reports>,
    answers: Streaming<Answer>,
}

impl Proxy {
    async fn new(server: &Running) -> Self {
        let channel = Channel::from_shared(format!("http://{}", server.grpc));
        let channel = channel.expect("an address").connect().await;
        let mut client = tonic::client::Grpc::new(channel.expect("it listens"));
        client.ready().await.expect("it listens");
        let (reports, sent) = mpsc::channel(16);
        let codec = ProstCodec::<Reports, Answer>::default();
        let path = PathAndQuery::from_static(METHOD);
        let stream = tonic::Request::new(futures_util::stream::unfold(sent, |mut sent| async {
            Some((sent.recv().await?, sent))
        }));
        let answers = client.streaming(stream, path, codec).await;
        Self {
            reports,
            answers: answers.expect("it is served").into_inner(),
        }
    }

    async fn report(&self, entries: &[(&str, &str)], allowed: u64, denied: u64) {
        let entries = entries
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let usage = Usage {
            bucket: Some(Bucket {
                entries: entries.collect(),
            }),
            elapsed: None,
            allowed,
            denied,
        };
        let report = Reports {
            domain: "edge".to_owned(),
            usages: vec![usage],
        };
        self.reports.send(report).await.expect("the stream is open");
    }

    /// The next assignment.
    async fn assigned(&mut self) -> Assignment {
        let answer = tokio::time::timeout(Duration::from_secs(20), self.answers.message());
        let answer = answer.await.expect("in time").expect("no error");
        let answer = answer.expect("the stream is open");
        let action = answer.actions.first().expect("an action");
        let assignment = action.assignment.expect("an assignment");
        assert_eq!(assignment.ttl.map(|ttl| ttl.seconds), Some(15));
        assignment
    }

    async fn bucket(&mut self) -> TokenBucket {
        loop {
            let strategy = self.assigned().await.strategy.expect("a strategy");
            if let Some(bucket) = strategy.bucket {
                assert!(bucket.interval.is_some_and(|it| it.seconds >= 1));
                return bucket;
            }
        }
    }
}

const FILE: &str = "limits:
  api: { rate: 100/s }
  tenants: { rate: 10/s, key: descriptor:tenant, overrides: { free: unlimited, bad: blocked } }
  slots: { concurrency: 10 }
  quiet: { rate: 1/s, mode: shadow }
";

/// A file of limits.
fn file(name: &str) -> String {
    let name = format!("plimsoll-quota-{name}-{}.yaml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, FILE).expect("written");
    path.to_str().expect("a name").to_owned()
}

async fn metrics(server: &Running) -> String {
    send(server.admin, "GET", "/metrics", None, "").await.body
}

/// What operators see, as soon as `is` says so.
async fn seen(server: &Running, is: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let page = send(server.admin, "GET", "/quotas", None, "").await.json();
            if is(&page) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let page = tokio::time::timeout(Duration::from_secs(20), looking).await;
    page.expect("it is seen")
}

#[tokio::test]
async fn keys_without_a_limit_and_keys_that_are_blocked_are_told_at_once() {
    let path = file("blanket");
    let server = Running::start(Some(&path), None).await;
    let mut proxy = Proxy::new(&server).await;
    for (entries, blanket) in [
        ([("tenant", "free")], 0),
        ([("tenant", "bad")], 1),
        ([("limit", "quiet")], 0),
    ] {
        proxy.report(&entries, 1, 0).await;
        let strategy = proxy.assigned().await.strategy.expect("a strategy");
        assert_eq!((strategy.blanket, strategy.bucket), (Some(blanket), None));
    }
    // What no limit is for is counted, and not answered.
    let long = "x".repeat(5000);
    for entry in [
        ("limit", "slots"),
        ("limit", "none"),
        ("user", "anna"),
        ("tenant", &long),
    ] {
        proxy.report(&[entry], 1, 0).await;
    }
    proxy.report(&[("tenant", "free")], 1, 0).await;
    proxy.assigned().await;
    let metrics = metrics(&server).await;
    assert!(
        metrics.contains("plimsoll_quota_unknown_total 4\n"),
        "{metrics}"
    );
    assert!(metrics.contains("plimsoll_quota_streams 1\n"));
    assert!(metrics.contains("plimsoll_quota_allowed_total{limit=\"tenants\"} 3\n"));
    server.stop().await;
}

#[tokio::test]
async fn a_limit_is_divided_after_learning_and_operators_see_who_has_what() {
    let path = file("divided");
    let server = Running::start(Some(&path), None).await;
    let (mut one, mut other) = (Proxy::new(&server).await, Proxy::new(&server).await);
    let api = [("limit", "api")];
    one.report(&api, 1, 0).await;
    other.report(&api, 1, 0).await;
    let page = seen(&server, |page| page["shown"][0]["members"] == 2).await;
    assert_eq!(page["streams"], 2);
    let shown = &page["shown"][0];
    assert_eq!(
        (&shown["limit"], &shown["key"]),
        (&"api".into(), &Value::Null)
    );
    assert_eq!(shown["per_second"], 100.0);
    assert!(shown["learning_for"].is_f64(), "{shown}");
    assert_eq!(shown["shares"].as_array().map(Vec::len), Some(2));
    // Six seconds after its start it divides.
    let (first, second) = (one.bucket().await, other.bucket().await);
    let rate = |it: TokenBucket| {
        let seconds = it.interval.map_or(1, |it| it.seconds);
        f64::from(it.tokens.map_or(0, |it| it.value)) / seconds as f64
    };
    assert!(rate(first) + rate(second) <= 100.0, "{first:?} {second:?}");
    assert!(
        rate(first) > 20.0 && rate(second) > 5.0,
        "{first:?} {second:?}"
    );
    // A file that says less is told to all.
    std::fs::write(&path, "limits: { api: { rate: 30/s } }").expect("it can be written");
    while rate(one.bucket().await) + rate(other.bucket().await) > 30.0 {}
    // One that goes keeps its share until it has run out.
    drop(other);
    let page = seen(&server, |page| page["shown"][0]["members"] == 1).await;
    let gone = &page["shown"][0]["shares"][1];
    assert_eq!(gone["gone"], true);
    assert!(
        gone["held_per_second"]
            .as_f64()
            .is_some_and(|rate| rate > 5.0),
        "{gone}"
    );
    server.stop().await;
}

/// A directory tells a first start, which assigns at once, from a restart, whose proxies may still spend what they have.
#[tokio::test]
async fn a_first_start_is_told_from_a_restart() {
    let (path, directory) = (file("first"), Directory::new());
    let note = directory.0.join("quota.shares");
    // What the server before left there, and whether this one has to learn.
    for (what, left, learns) in [
        ("the first", None, false),
        ("after one that ended in order, a moment ago", None, true),
        ("after one whose shares have run out", Some("1000"), false),
        ("after a crash", Some(""), true),
        ("after something strange", Some("soon"), true),
    ] {
        if let Some(left) = left {
            std::fs::write(&note, left).expect("it can be written");
        }
        let server = Running::changed(|settings| {
            settings.file = Some(path.clone().into());
            settings.state_dir = Some(directory.0.clone());
        })
        .await;
        assert_eq!(std::fs::read_to_string(&note).ok().as_deref(), Some(""));
        let mut proxy = Proxy::new(&server).await;
        proxy.report(&[("limit", "api")], 1, 0).await;
        let page = seen(&server, |page| page["shown"][0]["members"] == 1).await;
        let learning = &page["shown"][0]["learning_for"];
        assert_eq!(learning.is_f64(), learns, "{what}: {page}");
        if !learns {
            assert!(proxy.bucket().await.max > 0, "{what}");
        }
        drop(proxy);
        server.stop().await;
    }
}

#[tokio::test]
async fn garbage_ends_a_stream_and_nothing_else() {
    let server = Running::start(None, None).await;
    let proxy = Proxy::new(&server).await;
    let report = Reports {
        domain: "x".repeat(5 << 20),
        usages: Vec::new(),
    };
    proxy
        .reports
        .send(report)
        .await
        .expect("the stream is open");
    let mut answers = proxy.answers;
    let ended = tokio::time::timeout(Duration::from_secs(20), answers.message()).await;
    assert!(!matches!(ended.expect("in time"), Ok(Some(_))));
    let mut again = Proxy::new(&server).await;
    let many = Reports {
        domain: String::new(),
        usages: vec![Usage::default(); 1000],
    };
    again.reports.send(many).await.expect("the stream is open");
    while !metrics(&server)
        .await
        .contains("plimsoll_quota_unknown_total 1000\n")
    {}
    assert!(
        metrics(&server)
            .await
            .contains("plimsoll_quota_buckets 0\n")
    );
    let ended = tokio::time::timeout(Duration::from_millis(1), again.answers.message()).await;
    assert!(ended.is_err(), "the stream goes on");
    server.stop().await;
}
