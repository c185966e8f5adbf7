//! Limits from a file in a layer, by keys that are not text.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use plimsoll::ManualClock;
use plimsoll_config::{Config, Format, KeyedLimiter};
use plimsoll_tower::keys::{Forwarded, HeaderKey, Peer, PeerAddr, TrustedProxies, by};
use plimsoll_tower::{ByKey, HttpLimitLayer, KeyFrom, RequestLimit};
use tower::service_fn;
use tower_layer::Layer;
use tower_service::Service;

fn limiter() -> KeyedLimiter {
    let text =
        "limiters: { client: { kind: token_bucket, burst: 2, refill: 1, every: 1s, keyed: true } }";
    let config = Config::from_str("limits.yaml", text, Format::Yaml).unwrap();
    let limits = config.build(&ManualClock::new().clock()).unwrap();
    limits.keyed("client").unwrap()
}

fn statuses<K>(limit: RequestLimit<KeyedLimiter, ByKey<K>>, clients: &[u8]) -> Vec<u16>
where
    K: KeyFrom + Clone,
    <K::Key as ToOwned>::Owned: Unpin,
    KeyedLimiter: plimsoll::PerKey<K::Key>,
{
    let inner = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = HttpLimitLayer::new(limit).layer(inner);
    let ask = |client: &u8| {
        let request = Request::get("/")
            .extension(PeerAddr(([192, 0, 2, *client], 40_000).into()))
            .header("x-account", client.to_string());
        let response = crate::hand::now(service.call(request.body(()).unwrap()));
        response.unwrap().status().as_u16()
    };
    clients.iter().map(ask).collect()
}

const CLIENTS: [u8; 5] = [1, 1, 2, 1, 2];
const EXPECTED: [u16; 5] = [200, 200, 200, 429, 200];

/// A keyed limiter of a file had text for keys and nothing else, so none of this compiled but the header.
#[test]
fn every_key_that_can_be_written_has_a_limit_of_a_file() {
    let account = HeaderKey::named("x-account").unwrap();
    let header = RequestLimit::by_key(limiter(), account);
    assert_eq!(statuses(header, &CLIENTS), EXPECTED);

    let peer = RequestLimit::by_key(limiter(), Peer::new());
    assert_eq!(statuses(peer, &CLIENTS), EXPECTED);

    let client = Forwarded::x_forwarded_for(TrustedProxies::none());
    let client = RequestLimit::by_key(limiter(), client);
    assert_eq!(statuses(client, &CLIENTS), EXPECTED);

    let text = by(|head| head.header("x-account").map(str::to_owned));
    assert_eq!(
        statuses(RequestLimit::by_key(limiter(), text), &CLIENTS),
        EXPECTED
    );

    let number = by(|head| head.header("x-account")?.parse::<u64>().ok());
    assert_eq!(
        statuses(RequestLimit::by_key(limiter(), number), &CLIENTS),
        EXPECTED
    );
}
