//! What a handler knows of the leases behind its request, with leases in a real store. (With a store made for the test:
//! `leases` of plimsoll-tower.)

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use plimsoll::Concurrency;
use plimsoll_redis::{Fleet, RedisRule, StoreBuilder};
use plimsoll_tower::keys::PathKey;
use plimsoll_tower::{HttpLimitLayer, Leases, LimitLayer, RequestLimit};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::server::Server;

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(30);

fn slots(store: StoreBuilder, limit: u64) -> Fleet {
    let rule = RedisRule::from(Concurrency::new(limit)).lease(Duration::from_millis(400));
    let store = store.open().expect("a store");
    let limiter = store.limiter("slots", rule).expect("a limit");
    limiter.fleet().build().expect("a fleet")
}

fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a request")
}

/// A handler that works until its leases are lost, and answers with their number; `begun` counts those at work.
fn until_lost(
    begun: &Arc<Semaphore>,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ use<> {
    let begun = Arc::clone(begun);
    service_fn(move |request: Request<Body>| {
        let begun = Arc::clone(&begun);
        async move {
            let leases = Leases::of(request.extensions());
            assert!(!leases.is_lost());
            begun.add_permits(1);
            leases.lost().await;
            assert!(leases.is_lost());
            let fence = leases.fence().expect("a number");
            Ok(Response::new(Body::from(fence.to_string())))
        }
    })
}

async fn number(response: Response<Body>) -> u64 {
    let body = axum::body::to_bytes(response.into_body(), 100).await;
    let body = String::from_utf8(body.expect("a body").to_vec());
    body.expect("text").parse().expect("a number")
}

/// By a store that has forgotten it, and by one that does not answer any more.
#[tokio::test]
async fn a_handler_learns_that_its_lease_is_lost() {
    for silent in [false, true] {
        let server = Server::start();
        let begun = Arc::new(Semaphore::new(0));
        let limit = RequestLimit::by_key(slots(server.store(), 1), PathKey::new());
        let layer = HttpLimitLayer::new(limit);
        let service = layer.layer(until_lost(&begun));
        let call = tokio::spawn(service.clone().oneshot(request("/a")));
        let at_work = timeout(LONG, begun.acquire()).await.expect("in time");
        at_work.expect("open").forget();
        assert!(!call.is_finished());
        if silent {
            server.signal("-STOP");
        } else {
            server.cli(&["flushall"]);
        }
        let response = timeout(LONG, call).await.expect("the handler was told");
        let fence = number(response.expect("joined").expect("an answer").map(Body::new)).await;
        if silent {
            server.signal("-CONT");
            continue;
        }
        // Whoever has the slot after it has a larger number.
        let next = tokio::spawn(service.oneshot(request("/a")));
        let at_work = timeout(LONG, begun.acquire()).await.expect("in time");
        at_work.expect("open").forget();
        server.cli(&["flushall"]);
        let response = timeout(LONG, next).await.expect("the handler was told");
        assert!(number(response.expect("joined").expect("an answer").map(Body::new)).await > fence);
    }
}

/// A lease that is renewed lasts as long as the work, which here is several times the length of the lease.
#[tokio::test]
async fn a_lease_that_is_renewed_is_not_lost_and_goes_back_at_the_end() {
    let server = Server::start();
    let slots = slots(server.store(), 1);
    let inner = service_fn(async |request: Request<Body>| {
        let leases = Leases::of(request.extensions());
        let (fence, lost) = (
            leases.fence(),
            timeout(Duration::from_secs(2), leases.lost()),
        );
        assert!(fence.is_some() && lost.await.is_err() && !leases.is_lost());
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let limit = RequestLimit::by_key(slots.clone(), PathKey::new());
    let mut service = HttpLimitLayer::new(limit).layer(inner);
    let first = service.call(request("/a")).await.expect("an answer");
    assert_eq!(first.status(), 200);
    drop(first);
    let second = timeout(LONG, async {
        loop {
            let answer = service.call(request("/a")).await.expect("an answer");
            if answer.status() == 200 {
                return answer;
            }
        }
    });
    assert!(second.await.is_ok(), "it went back");
}

/// A service that is no HTTP service is handed its leases.
#[tokio::test]
async fn a_service_of_any_kind_is_handed_its_lease() {
    let server = Server::start();
    let begun = Arc::new(Semaphore::new(0));
    let inner = {
        let begun = Arc::clone(&begun);
        service_fn(move |(_, leases): (&'static str, Leases)| {
            begun.add_permits(1);
            async move {
                leases.lost().await;
                Ok::<_, Infallible>((leases.fence(), leases.is_lost()))
            }
        })
    };
    let layer = LimitLayer::by_key(slots(server.store(), 1), |(key, _): &(&'static str, _)| {
        *key
    });
    let layer = layer.leases(|request: &mut (&'static str, Leases), leases| request.1 = leases);
    let mut service = layer.layer(inner);
    let call = tokio::spawn(service.call(("key", Leases::default())));
    let at_work = timeout(LONG, begun.acquire()).await.expect("in time");
    at_work.expect("open").forget();
    server.cli(&["flushall"]);
    let answer = timeout(LONG, call).await.expect("the service was told");
    let (fence, lost) = answer.expect("joined").expect("an answer");
    assert!(fence.is_some() && lost);
}
