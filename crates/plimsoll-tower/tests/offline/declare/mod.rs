//! Limits that handlers declare, in routers of axum.

mod limits;
mod policies;
mod priorities;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use http::{Request, Response};
use plimsoll::{ManualClock, TokenBucket};
use plimsoll_policy::{Policies, PoliciesBuilder};
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::limit;
use tower::ServiceExt;

#[limit(rps = 5, burst = 2.5)]
async fn search(State(state): State<&'static str>, query: Query<Vec<(String, String)>>) -> String {
    format!("{state} {}", query.0.len())
}

async fn hello() -> &'static str {
    "hello"
}

/// A request from somewhere.
fn from(peer: &str, method: &str, path: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = match peer.parse() {
        Ok(peer) => request.extension(PeerAddr(peer)),
        Err(_) => request,
    };
    request.body(Body::empty()).expect("a request")
}

async fn ask(app: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(response) = app.clone().oneshot(request).await;
    response
}

/// The status, and after how many seconds to come back.
async fn answer(app: &Router, peer: &str, path: &str) -> (u16, Option<u64>) {
    let response = ask(app, from(peer, "GET", path)).await;
    let after = response.headers().get("retry-after");
    let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
    (response.status().as_u16(), after)
}

/// How many requests in a row are let through, of up to 100.
async fn admitted(app: &Router, peer: &str, path: &str) -> usize {
    for count in 0..100 {
        if answer(app, peer, path).await.0 != 200 {
            return count;
        }
    }
    100
}

fn policies(time: &ManualClock) -> PoliciesBuilder {
    Policies::builder().clock(time.clock())
}

const ANN: &str = "192.0.2.1:40000";
const BOB: &str = "192.0.2.2:40000";

/// A fallback that refuses everybody shows whether it is asked.
fn shut(time: &ManualClock) -> Policies {
    let bucket = TokenBucket::per_second(1).initial(0);
    policies(time).fallback(bucket).build().unwrap()
}
