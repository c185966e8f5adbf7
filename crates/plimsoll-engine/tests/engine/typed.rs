//! The layer of a file answers as the typed layer does: the same status, header by header, and the same body.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use plimsoll::{Concurrency, FixedWindow, Gate, Keyed, ManualClock, Quota, TokenBucket};
use plimsoll_tower::keys::{Address, HeaderKey, Peer, PeerAddr};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, SendFields};
use tower::{Layer, Service, ServiceExt, service_fn};

/// An answer: its status, its fields in alphabetical order, and its body.
type Told = (u16, Vec<(String, String)>, String);

/// Asks a service for each request, and holds what was answered until the end.
async fn told<S, B>(service: S, requests: &[Request<()>], time: &ManualClock) -> Vec<Told>
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + Clone,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let mut all = Vec::new();
    let mut held = Vec::new();
    for request in requests {
        if let Some(later) = request.headers().get("x-later") {
            let later = later.to_str().expect("text").parse().expect("a number");
            time.advance(Duration::from_millis(later));
        }
        let response = service.clone().oneshot(request.clone()).await;
        let (head, body) = response.unwrap_or_else(|never| match never {}).into_parts();
        let fields = head.headers.iter();
        let mut fields: Vec<(String, String)> = fields
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect();
        fields.sort();
        let refused = !head.status.is_success() || head.headers.contains_key("grpc-status");
        let text = match refused {
            true => body.collect().await.expect("a body").to_bytes(),
            // Its slot stays taken.
            false => {
                held.push(body);
                Bytes::new()
            }
        };
        all.push((
            head.status.as_u16(),
            fields,
            String::from_utf8_lossy(&text).into_owned(),
        ));
    }
    all
}

/// What is asked: who, with which fields, and how long after the request before.
fn request(client: u8, fields: &[(&str, &str)]) -> Request<()> {
    let peer = SocketAddr::from(([192, 0, 2, client], 40_000));
    let request = fields
        .iter()
        .fold(Request::get("/any"), |request, (name, value)| {
            request.header(*name, *value)
        });
    request
        .extension(PeerAddr(peer))
        .body(())
        .expect("it is right")
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// Requests of HTTP and of gRPC: granted, refused, of others, later, and without what a key needs.
fn requests() -> Vec<Request<()>> {
    let anna = ("x-user", "anna");
    let mut all = Vec::new();
    for more in [
        &[][..],
        &[("accept", "application/problem+json")],
        &[("accept", "text/plain")],
        &[GRPC],
    ] {
        let with = |fields: &[(&'static str, &'static str)]| [fields, more].concat();
        all.extend((0..4).map(|_| request(1, &with(&[anna]))));
        all.push(request(2, &with(&[("x-user", "bert")])));
        all.push(request(1, &with(&[anna, ("x-later", "300")])));
        all.push(request(3, &with(&[])));
        all.push(request(1, &with(&[anna, ("x-later", "5000")])));
    }
    all
}

macro_rules! same {
    ($name:ident, $file:literal, |$time:ident| $typed:expr) => {
        #[tokio::test]
        async fn $name() {
            let inner = service_fn(async |_: Request<()>| {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
            });
            let (limits, of_file) = crate::limits($file);
            let $time = ManualClock::new();
            let typed = HttpLimitLayer::new($typed)
                .send_fields(SendFields::Always)
                .layer(inner.clone());
            let by_file = limits.layer().send_fields(SendFields::Always).layer(inner);
            let requests = requests();
            let wanted = told(typed, &requests, &$time).await;
            let found = told(by_file, &requests, &of_file).await;
            let refused = wanted.iter().filter(|(status, fields, _)| {
                *status >= 400 || fields.iter().any(|(name, _)| name == "grpc-status")
            });
            assert!(refused.count() > 4, "something is refused: {wanted:#?}");
            for (index, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
                assert_eq!(found, wanted, "request {index}: {:?}", requests[index]);
            }
        }
    };
}

same!(
    a_rate_by_client,
    "limits: { client: { kind: token_bucket, burst: 2, refill: 1, every: 1s, key: client } }
routes: [{ match: /**, limits: [client] }]",
    |time| {
        let rule = TokenBucket::per_second(1).burst(2);
        let keyed = Keyed::<Address, _>::builder(rule)
            .clock(time.clock())
            .name("client")
            .build();
        RequestLimit::by_key(keyed, Peer::new())
    }
);

same!(
    a_window_by_header,
    "limits: { user: { kind: fixed_window, limit: 2, window: 10s, key: header:x-user } }
routes: [{ match: /**, limits: [user] }]",
    |time| {
        let rule = FixedWindow::new(Quota::new(2, Duration::from_secs(10)));
        let keyed = Keyed::<String, _>::builder(rule)
            .clock(time.clock())
            .name("user")
            .build();
        RequestLimit::by_key(keyed, HeaderKey::named("x-user").expect("a name"))
    }
);

same!(
    a_rate_for_all,
    "limits: { all: { kind: token_bucket, burst: 3, refill: 2, every: 1s } }
routes: [{ match: /**, limits: [all] }]",
    |time| {
        let rule = TokenBucket::per_second(2).burst(3);
        RequestLimit::new(Gate::builder(rule).clock(time.clock()).name("all").build())
    }
);

same!(
    slots,
    "limits: { slots: { kind: concurrency, limit: 3 } }
routes: [{ match: /**, limits: [slots] }]",
    |time| {
        let rule = Concurrency::new(3);
        RequestLimit::new(
            Gate::builder(rule)
                .clock(time.clock())
                .name("slots")
                .build(),
        )
    }
);

same!(
    more_than_there_ever_is,
    "limits: { all: { kind: token_bucket, burst: 3, refill: 2, every: 1s, cost: 4 } }
routes: [{ match: /**, limits: [all] }]",
    |time| {
        let rule = TokenBucket::per_second(2).burst(3);
        let gate = Gate::builder(rule).clock(time.clock()).name("all").build();
        RequestLimit::new(gate).cost(|_| 4)
    }
);
