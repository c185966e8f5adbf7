//! What works on a request knows when the leases behind its permits are lost.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use plimsoll::{
    Acquire, Concurrency, Demand, Denied, Gate, Grant, Keyed, LeaseState, Metadata, Outcome,
    PerKey, Permit, Reason, Source, Standing,
};
use plimsoll_tower::keys::PathKey;
use plimsoll_tower::{GrantMetadata, HttpLimitLayer, Leases, LimitLayer, RequestLimit};
use tower::service_fn;
use tower_layer::Layer;
use tower_service::Service;

use crate::hand::{now, poll};

/// A store whose permits are leases, each with the next fencing number. Its answers take a second look if it is `far`.
#[derive(Clone, Default)]
struct Store {
    leases: Arc<Mutex<Vec<LeaseState>>>,
    far: bool,
}

impl Store {
    fn starting_at(fence: u64) -> Self {
        let before = (0..fence).map(LeaseState::new).collect();
        Self {
            leases: Arc::new(Mutex::new(before)),
            far: false,
        }
    }

    fn grant(&self, demand: Demand) -> Permit<'static> {
        let mut leases = self.leases.lock().unwrap();
        let lease = LeaseState::new(leases.len() as u64);
        leases.push(lease.clone());
        let grant = Grant::of(demand);
        Permit::shared(Arc::new(Leased(lease)), grant, true)
    }

    /// The last lease cannot be renewed.
    fn lose_last(&self) {
        self.leases.lock().unwrap().last().unwrap().lose();
    }
}

struct Leased(LeaseState);

impl Source for Leased {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}

    fn leases(&self, each: &mut dyn FnMut(&LeaseState)) {
        each(&self.0);
    }
}

impl<K: ?Sized> PerKey<K> for Store {
    fn try_acquire(&self, _key: &K, _demand: Demand) -> Result<Permit<'_>, Denied> {
        Err(Denied::new(Reason::Exhausted))
    }

    fn acquire_owned(&self, _key: &K, demand: Demand) -> Acquire<'static> {
        let (this, mut looks) = (self.clone(), u64::from(self.far));
        Acquire::from_future(std::future::poll_fn(move |_| {
            if looks > 0 {
                looks -= 1;
                return Poll::Pending;
            }
            Poll::Ready(Ok(this.grant(demand)))
        }))
    }

    fn undo(&self, _key: &K, _permit: Permit<'_>) {}

    fn charge(&self, _key: &K, _cost: u64) {}

    fn standing(&self, _key: &K) -> Standing {
        Standing::default()
    }

    fn promise(&self) -> Standing {
        Standing::default()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn name(&self) -> Option<&str> {
        None
    }
}

/// A handler that works until its leases are lost, and then says so with the numbers it had.
async fn until_lost(request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    let leases = Leases::of(request.extensions());
    assert!(!leases.is_lost());
    leases.lost().await;
    assert!(leases.is_lost());
    let fences: Vec<_> = leases.iter().map(LeaseState::fence).collect();
    let text = format!("{fences:?} {:?}", leases.fence());
    Ok(Response::new(Full::from(text)))
}

fn request() -> Request<()> {
    Request::get("/").body(()).unwrap()
}

#[test]
fn a_handler_sees_what_the_limits_that_admitted_it_say() {
    let about = |plan| Metadata::new().pair("plan", plan).code(7);
    let slots = Gate::builder(Concurrency::new(1)).name("slots");
    let slots = slots.metadata(about("free")).build();
    let keys = Keyed::<String, _>::builder(Concurrency::new(1)).name("keys");
    let keys = keys.metadata(about("paid")).build();
    let plain = RequestLimit::new(Gate::new(Concurrency::new(1)));
    let inner = HttpLimitLayer::new(RequestLimit::by_key(keys, PathKey::new())).and(plain);
    let handler = |request: Request<()>| {
        let granted = GrantMetadata::of(request.extensions());
        let said = granted.iter();
        let said: Vec<_> = said
            .map(|(limit, about)| format!("{limit} {:?}", about.get("plan")))
            .collect();
        assert_eq!(granted.get(Metadata::CODE), Some(7.into()));
        let response = Response::new(Full::<Bytes>::from(said.join(", ")));
        async { Ok::<_, Infallible>(response) }
    };
    let mut service =
        HttpLimitLayer::new(RequestLimit::new(slots)).layer(inner.layer(service_fn(handler)));
    let Poll::Ready(Ok(response)) = poll(pin!(service.call(request()))) else {
        panic!("it is admitted");
    };
    let body = now(http_body_util::BodyExt::collect(response.into_body()));
    let expected = r#"slots Some(Text("free")), keys Some(Text("paid"))"#;
    assert_eq!(body.unwrap().to_bytes(), expected);
}

#[test]
fn a_handler_sees_that_its_lease_is_lost() {
    for far in [false, true] {
        let store = Store {
            far,
            ..Store::starting_at(41)
        };
        let limit = RequestLimit::by_key(store.clone(), PathKey::new());
        let mut service = HttpLimitLayer::new(limit).layer(service_fn(until_lost));
        let mut call = pin!(service.call(request()));
        for _ in 0..3 {
            assert!(poll(call.as_mut()).is_pending());
        }
        store.lose_last();
        let Poll::Ready(Ok(response)) = poll(call) else {
            panic!("the handler was not told");
        };
        let body = now(http_body_util::BodyExt::collect(response.into_body()));
        assert_eq!(body.unwrap().to_bytes(), "[41] Some(41)");
    }
}

#[test]
fn the_leases_of_all_limits_and_all_layers_are_there_the_outermost_first() {
    let stores = [10, 30, 20].map(Store::starting_at);
    let limit = |at: usize| RequestLimit::by_key(stores[at].clone(), PathKey::new());
    let slots = RequestLimit::new(Gate::new(Concurrency::new(1)));
    let inner = HttpLimitLayer::new(limit(1)).and(slots).and(limit(2));
    let mut service = HttpLimitLayer::new(limit(0)).layer(inner.layer(service_fn(until_lost)));
    let mut call = pin!(service.call(request()));
    assert!(poll(call.as_mut()).is_pending());
    stores[2].lose_last();
    let Poll::Ready(Ok(response)) = poll(call) else {
        panic!("the handler was not told");
    };
    let body = now(http_body_util::BodyExt::collect(response.into_body()));
    assert_eq!(body.unwrap().to_bytes(), "[10, 30, 20] Some(30)");
}

#[test]
fn a_limit_in_memory_has_no_leases_and_nothing_is_inserted() {
    let limit = RequestLimit::new(Gate::new(Concurrency::new(1)));
    let inner = service_fn(async |request: Request<()>| {
        let leases = Leases::of(request.extensions());
        assert!(request.extensions().is_empty());
        assert!(leases.iter().next().is_none() && leases.fence().is_none() && !leases.is_lost());
        assert!(poll(pin!(leases.lost())).is_pending());
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let response = now(HttpLimitLayer::new(limit).layer(inner).call(request()));
    assert_eq!(response.unwrap().status(), 200);
}

#[test]
fn a_service_of_any_kind_is_handed_its_leases() {
    for far in [false, true] {
        let store = Store {
            far,
            ..Store::starting_at(7)
        };
        let inner = service_fn(async |(_, leases): (&'static str, Leases)| {
            leases.lost().await;
            Ok::<_, Infallible>(leases.fence())
        });
        let mut service = LimitLayer::by_key(store.clone(), |(key, _): &(&'static str, _)| *key)
            .leases(|request: &mut (&'static str, Leases), leases| request.1 = leases)
            .layer(inner);
        let mut call = pin!(service.call(("key", Leases::default())));
        for _ in 0..3 {
            assert!(poll(call.as_mut()).is_pending());
        }
        store.lose_last();
        assert_eq!(poll(call), Poll::Ready(Ok(Some(7))));
    }
}
