//! The examples do what they say, asked by a real client.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use plimsoll::{
    Acquire, Concurrency, Demand, Denied, Gate, Keyed, ManualClock, Outcome, PerKey, Permit, Queue,
    Quota, Reason, Standing, TokenBucket,
};
use plimsoll_tower::LoadShed;
use plimsoll_tower::keys::Address;
use reqwest::{Client, Response};
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

macro_rules! example {
    ($name:ident, $path:literal) => {
        #[path = $path]
        #[expect(
            dead_code,
            reason = "an example has a `main`, which is not called here"
        )]
        mod $name;
    };
}

example!(axum_adaptive, "../../examples/axum_adaptive.rs");
example!(axum_per_address, "../../examples/axum_per_address.rs");
example!(fleet_ready, "../../examples/fleet_ready.rs");
example!(llm_budget, "../../examples/llm_budget.rs");
example!(nested_limits, "../../examples/nested_limits.rs");
example!(outbound_quota, "../../examples/outbound_quota.rs");
example!(tonic_server, "../../examples/tonic_server.rs");

/// Runs a server on a free port until the test ends. Returns where it is.
async fn start<F>(run: impl FnOnce(TcpListener) -> F) -> String
where
    F: Future<Output: Send> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(run(listener));
    format!("http://{address}")
}

async fn serve(app: Router) -> String {
    start(|listener| fleet_ready::run(listener, app)).await
}

async fn status(url: &str) -> u16 {
    reqwest::get(url)
        .await
        .expect("an answer")
        .status()
        .as_u16()
}

fn header<'r>(response: &'r Response, name: &str) -> &'r str {
    let value = response.headers().get(name).expect(name);
    value.to_str().expect("text")
}

#[tokio::test]
async fn axum_per_address() {
    let url = start(axum_per_address::run).await;
    let client = Client::new();
    let mut refused = None;
    // Faster than five a second, or at least not slower for forty requests.
    for count in 0..40 {
        let response = client.get(&url).send().await.unwrap();
        assert!(header(&response, "ratelimit").starts_with("\"per-address\";r="));
        if response.status() != StatusCode::OK {
            assert!(count >= 10);
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("a refusal");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&refused, "retry-after"), "1");
    assert_eq!(header(&refused, "content-type"), "application/problem+json");
}

#[tokio::test]
async fn axum_adaptive() {
    let (usual, _gate) = axum_adaptive::app(axum_adaptive::shed()).unwrap();
    let url = serve(usual).await;
    assert_eq!(status(&format!("{url}/work/0")).await, 200);

    let small = LoadShed::new().min(1).initial(1);
    let (app, gate) = axum_adaptive::app(small.min_queue(1).initial_queue(1)).unwrap();
    let url = serve(app).await;
    let client = Client::new();
    let send = |path: &str, priority: &str| {
        let request = client.get(format!("{url}{path}"));
        tokio::spawn(request.header("x-priority", priority).send())
    };
    let until = async |in_use, queued| {
        while (gate.snapshot().in_use(), gate.snapshot().queued()) != (in_use, queued) {
            tokio::task::yield_now().await;
        }
    };
    let long = send("/work/3600000", "normal");
    until(1, 0).await;
    let normal = send("/work/0", "normal");
    until(1, 1).await;
    let critical = send("/work/0", "critical");

    // The normal one made room for the critical one.
    let refused = normal.await.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let looked = reqwest::get(format!("{url}/limit")).await.unwrap();
    let text = looked.text().await.unwrap();
    assert_eq!(text, "limit 1, in use 1, waiting 1\n");
    // Who hangs up makes room too.
    long.abort();
    assert_eq!(critical.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn tonic_server() {
    let url = start(|listener| tonic_server::run(listener, Quota::per_hour(2))).await;
    let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
    let mut client = HealthClient::new(channel);
    for _ in 0..2 {
        let answer = client.check(HealthCheckRequest::default()).await.unwrap();
        assert_eq!(answer.into_inner().status, 1);
    }
    let status = client
        .check(HealthCheckRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let pushback = status.metadata().get("grpc-retry-pushback-ms");
    let pushback: u64 = pushback.unwrap().to_str().unwrap().parse().unwrap();
    assert!((1..=1_800_000).contains(&pushback), "{pushback}");
}

#[tokio::test]
async fn outbound_quota() {
    let url = serve(Router::new().route("/", get(|| async { "theirs" }))).await;
    let url: reqwest::Url = url.parse().unwrap();
    let mut client = outbound_quota::Quoted::new(outbound_quota::quota());
    assert_eq!(client.get(url.clone()).await.unwrap().status(), 200);

    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .build();
    let client = outbound_quota::Quoted::new(gate.clone());
    let send = || {
        let (mut client, url) = (client.clone(), url.clone());
        tokio::spawn(async move { client.get(url).await.map(|response| response.status()) })
    };
    assert_eq!(send().await.unwrap().unwrap(), 200);
    let waiting = send();
    while gate.snapshot().queued() == 0 {
        tokio::task::yield_now().await;
    }
    let refused = send().await.unwrap().unwrap_err();
    assert_eq!(refused.denied().unwrap().reason(), Reason::QueueFull);
    time.advance(Duration::from_secs(1));
    assert_eq!(waiting.await.unwrap().unwrap(), 200);
}

#[tokio::test]
async fn llm_budget() {
    let time = ManualClock::new();
    let url = serve(llm_budget::app(Quota::per_minute(600), time.clock())).await;
    let client = Client::new();
    let complete = async |key: &str, words: usize| {
        let request = client.post(format!("{url}/v1/complete"));
        let request = request.header("x-api-key", key).body("ship ".repeat(words));
        let response = request.send().await.unwrap();
        let (status, left) = (response.status(), header(&response, "ratelimit").to_owned());
        // What was not used comes back when the body has ended.
        response.bytes().await.unwrap();
        (status.as_u16(), left)
    };
    // 500 are reserved, 3 used; so a second and a third find enough.
    assert_eq!(complete("ann", 3).await.0, 200);
    assert_eq!(complete("ann", 90).await.0, 200);
    assert_eq!(complete("ann", 200).await.0, 200);
    let (status, left) = complete("ann", 1).await;
    assert_eq!(status, 429);
    assert!(left.starts_with("\"tokens\";r=307"), "{left}");
    assert_eq!(complete("bob", 1).await.0, 200);
    time.advance(Duration::from_secs(20));
    assert_eq!(complete("ann", 1).await.0, 200);

    let nobody = client.post(format!("{url}/v1/complete")).body("ship");
    assert!(!nobody.send().await.unwrap().status().is_success());
}

#[tokio::test]
async fn nested_limits() {
    let url = start(nested_limits::run).await;
    let report = format!("{url}/report");
    assert_eq!(status(&report).await, 200);
    assert_eq!(status(&report).await, 200);
    for _ in 0..10 {
        let refused = reqwest::get(&report).await.unwrap();
        assert_eq!(refused.status(), 429);
        assert!(header(&refused, "ratelimit").starts_with("\"reports\""));
    }
    // A refund may be short by what comes in a tick of the machine's clock; that is soon there.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..3 {
        assert_eq!(status(&url).await, 200);
    }
    let refused = reqwest::get(&url).await.unwrap();
    assert!(header(&refused, "ratelimit").starts_with("\"everything\""));
}

/// A limiter whose answer takes a while, as that of a store does.
#[derive(Clone)]
struct Elsewhere(Keyed<Address, TokenBucket>);

impl PerKey<Address> for Elsewhere {
    fn try_acquire(&self, _key: &Address, _demand: Demand) -> Result<Permit<'_>, Denied> {
        Err(Denied::new(Reason::Unavailable))
    }

    fn acquire_owned(&self, key: &Address, demand: Demand) -> Acquire<'static> {
        let (Self(keyed), key) = (self.clone(), *key);
        Acquire::from_future(async move {
            tokio::task::yield_now().await;
            PerKey::acquire_owned(&keyed, &key, demand).await
        })
    }

    fn undo(&self, key: &Address, permit: Permit<'_>) {
        PerKey::undo(&self.0, key, permit);
    }

    fn charge(&self, key: &Address, cost: u64) {
        PerKey::charge(&self.0, key, cost);
    }

    fn standing(&self, key: &Address) -> Standing {
        PerKey::standing(&self.0, key)
    }

    fn promise(&self) -> Standing {
        PerKey::promise(&self.0)
    }

    fn name(&self) -> Option<&str> {
        Some("elsewhere")
    }
}

#[tokio::test]
async fn fleet_ready() {
    let rate = || Keyed::<Address, _>::new(TokenBucket::greedy(Quota::per_hour(3)));
    let slots = Gate::new(Concurrency::new(1));
    let here = serve(fleet_ready::app(rate(), slots.clone())).await;
    let there = serve(fleet_ready::app(Elsewhere(rate()), slots.clone())).await;
    for url in [&here, &there] {
        for _ in 0..3 {
            assert_eq!(status(url).await, 200);
        }
        assert_eq!(status(url).await, 429);
    }
    let taken = slots.try_acquire(1).unwrap();
    assert_eq!(status(&there).await, 503);
    taken.finish(Outcome::Success);
    assert_eq!(status(&there).await, 429);
    assert_eq!(slots.snapshot().in_use(), 0);
}
