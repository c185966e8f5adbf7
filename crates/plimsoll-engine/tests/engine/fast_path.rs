//! The layer asks quickly where nothing of a decision is needed afterwards, and answers what it answers otherwise.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use plimsoll::ManualClock;
use plimsoll_engine::{Ask, FileLimits, Limits};
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::{HttpLimit, SendFields};
use proptest::prelude::*;
use tower::{Layer, Service};

use crate::limits;
use crate::model::{Limit, limit};

const USERS: [&str; 3] = [
    "anna",
    "bert",
    "a key that is longer than what tables keep in place",
];
const PATHS: [&str; 4] = ["/a", "/b/x", "/c/x/y", "/none"];
const PATTERNS: [&str; 3] = ["/a", "/b/*", "/c/**"];

#[derive(Clone)]
struct Hello;

impl Service<Request<()>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::from("hello"))))
    }
}

type Body = <HttpLimit<Hello, FileLimits> as Service<Request<()>>>::Response;

/// The limits of a file, in a layer.
struct Side {
    limits: Limits,
    time: ManualClock,
    service: HttpLimit<Hello, FileLimits>,
    /// What is in flight.
    held: Vec<Body>,
}

impl Side {
    fn new(text: &str, fields: SendFields) -> Self {
        let (limits, time) = limits(text);
        let service = limits.layer().send_fields(fields).layer(Hello);
        Self {
            limits,
            time,
            service,
            held: Vec::new(),
        }
    }

    /// The answer, and what it says if it is a refusal.
    fn ask(&mut self, path: usize, user: Option<usize>, client: u8) -> (StatusCode, HeaderMap) {
        let mut request = Request::get(PATHS[path]).body(()).expect("a request");
        if let Some(user) = user {
            let value = USERS[user].parse().expect("a value");
            request.headers_mut().insert("x-user", value);
        }
        let peer = SocketAddr::from(([192, 0, 2, client], 1));
        request.extensions_mut().insert(PeerAddr(peer));
        let call = pin!(self.service.call(request));
        let Poll::Ready(Ok(response)) = call.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing is waited for")
        };
        let status = response.status();
        if status.is_success() {
            self.held.push(response);
            return (status, HeaderMap::new());
        }
        (status, response.headers().clone())
    }

    /// How all keys of all limits stand, and what was counted of the limits.
    fn standing(&self) -> String {
        let mut all = String::new();
        for limit in self.limits.snapshot() {
            let seen = limit.snapshot;
            let totals = (seen.granted_total(), seen.denied_total(), seen.in_use());
            let refused = (limit.refused, limit.would_refuse, limit.beyond);
            all.push_str(&format!("{}: {totals:?} {refused:?}\n", limit.name));
        }
        for limit in self.limits.names() {
            for key in USERS.into_iter().chain(["192.0.2.1", "192.0.2.2"]) {
                let peeked = match self.limits.peek(&[Ask::new(&limit).key(key)]) {
                    Ok(hold) => hold.answers().map(|it| format!("{it:?}")).collect(),
                    Err(refusal) => refusal
                        .answers()
                        .map(|it| format!("{it:?}"))
                        .collect::<Vec<_>>(),
                };
                all.push_str(&format!("{key}: {peeked:?}\n"));
            }
        }
        all
    }
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Request(usize, Option<usize>, u8),
    Finish(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let user = prop_oneof![8 => (0..USERS.len()).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        2 => (0_u64..30).prop_map(Step::Advance),
        8 => (0..PATHS.len(), user, 1_u8..3).prop_map(|(path, user, client)| Step::Request(path, user, client)),
        2 => (0_usize..8).prop_map(Step::Finish),
    ]
}

/// A file: two limits of any kind, one of clients, and for each pattern those that it names.
fn file(of: &[Limit], cost: u64, routes: &[Vec<usize>]) -> String {
    let mut text = String::from("limits:\n");
    for (name, limit) in of.iter().enumerate() {
        let costs = format!(", cost: {cost} }}\n");
        text.push_str(&limit.text(name).replace(" }\n", &costs));
    }
    let name = of.len();
    text.push_str(&format!("  l{name}: {{ kind: token_bucket, burst: 5, refill: 1, every: 20ms, key: client }}\nroutes:\n"));
    for (pattern, limits) in PATTERNS.iter().zip(routes) {
        let names: Vec<String> = limits.iter().map(|it| format!("l{it}")).collect();
        let names = names.join(", ");
        text.push_str(&format!(
            "  - {{ match: '{pattern}', limits: [{names}] }}\n"
        ));
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_asked_quickly_is_answered_as_it_is_otherwise(
        of in prop::collection::vec(limit(), 3),
        cost in 1_u64..3,
        routes in prop::collection::vec(prop::sample::subsequence(vec![0, 1, 2, 3], 1..=4), 3),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let text = file(&of, cost, &routes);
        let mut sides = [Side::new(&text, SendFields::OnRefusal), Side::new(&text, SendFields::Always)];
        for step in steps {
            match step {
                Step::Advance(by) => {
                    for side in &sides {
                        side.time.advance(Duration::from_millis(by));
                    }
                }
                Step::Request(path, user, client) => {
                    let [quick, other] = sides.each_mut().map(|side| side.ask(path, user, client));
                    prop_assert_eq!(quick, other, "{}", text);
                }
                Step::Finish(index) => {
                    for side in &mut sides {
                        if index < side.held.len() {
                            side.held.swap_remove(index);
                        }
                    }
                }
            }
        }
        let [quick, other] = sides.each_ref().map(Side::standing);
        prop_assert_eq!(quick, other, "{}", text);
    }
}
