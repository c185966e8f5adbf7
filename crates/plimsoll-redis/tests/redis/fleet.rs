//! A limit in Redis has the face of one in memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::server::Server;
use http::{Request, Response, StatusCode};
use plimsoll::{
    All, Concurrency, Demand, Denied, FixedWindow, Gate, Keyed, Limiter, LimiterExt, ManualClock,
    PerKey, Quota, Reason, TokenBucket,
};
use plimsoll_redis::{Borrow, Fleet, RedisRule, Store, StoreErrorKind};
use plimsoll_tower::keys::{Address, HeaderKey};
use plimsoll_tower::{HttpLimitLayer, Limits, RequestLimit, SendFields};
use tower::{Layer, ServiceExt, service_fn};

const KEY: &str = "subject";

fn store(server: &Server, clock: &ManualClock) -> Store {
    let store = server.store().clock(clock.clock()).open();
    store.expect("a store")
}

fn fleet(store: &Store, rule: impl Into<RedisRule>) -> Fleet {
    let limiter = store.limiter("api", rule).expect("a limiter");
    limiter.fleet().build().expect("a fleet")
}

fn facts(denied: &Denied) -> impl PartialEq + std::fmt::Debug {
    (
        denied.reason(),
        denied.retry_after(),
        denied.limit(),
        denied.remaining(),
        denied.reset(),
        denied.limiter().map(str::to_owned),
    )
}

/// Asks until it is so: for what happens in the background. Every look is a round trip.
async fn until_in_use(fleet: &Fleet, key: &str, in_use: u64) {
    let mut seen = u64::MAX;
    for _ in 0..10_000 {
        seen = fleet.limiter().look(key).await.expect("a look").in_use;
        if seen == in_use {
            return;
        }
    }
    panic!("{seen} in use, not {in_use}");
}

#[tokio::test]
async fn it_answers_as_a_limit_in_memory_does() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let rule = TokenBucket::per_second(3);
    let there = fleet(&store(&server, &clock), rule.clone());
    let here = Keyed::<String, _>::builder(rule);
    let here = here.clock(clock.clock()).name("api").build();
    let one = there.key(KEY);
    for step in 0..8 {
        let near = here.try_acquire(KEY, 1);
        let far = match step % 2 {
            0 => there.acquire_owned(KEY, 1.into()).await,
            _ => one
                .acquire(1.into())
                .await
                .map(plimsoll::Permit::into_owned),
        };
        match (near, far) {
            (Ok(_), Ok(permit)) => {
                assert_eq!(permit.standing(), Some(here.standing(KEY)));
                assert_eq!((permit.cost(), permit.granted_at()), (1, clock.now()));
            }
            (Err(near), Err(far)) => assert_eq!(facts(&near), facts(&far)),
            (near, far) => panic!("{near:?} and {far:?}"),
        }
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(PerKey::<str>::promise(&there), here.promise());
    assert_eq!(one.standing().remaining(None), here.promise());
    assert_eq!(
        (one.name(), PerKey::<u8>::name(&there)),
        (Some("api"), Some("api"))
    );
    let seen = one.snapshot();
    assert_eq!((seen.limit(), seen.available()), (3, 3));
    assert_eq!((seen.granted_total(), seen.denied_total()), (5, 3));
    assert_eq!(seen.granted_total(), there.totals().granted);
}

#[tokio::test]
async fn a_decision_is_one_round_trip_and_keys_are_what_is_written_of_them() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let fleet = fleet(&store, Concurrency::new(5));
    let warm = fleet.acquire_owned("warm", 1.into()).await;
    let before = server.scripts_run();
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(fleet.acquire_owned(&7_u64, 1.into()).await);
    }
    assert_eq!(server.scripts_run() - before, 20);
    assert_eq!(held.iter().filter(|answer| answer.is_ok()).count(), 5);
    let denied = fleet.acquire_owned("7", 1.into()).await.expect_err("full");
    assert_eq!(
        (denied.reason(), denied.retry_after()),
        (Reason::Exhausted, None)
    );
    let address = Address::from(std::net::IpAddr::from([127, 0, 0, 1]));
    assert!(fleet.acquire_owned(&address, 1.into()).await.is_ok());
    drop((warm, held));
    until_in_use(&fleet, "7", 0).await;
}

#[tokio::test]
async fn what_only_the_store_knows_cannot_be_told_at_once() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let fleet = fleet(&store(&server, &clock), TokenBucket::per_second(3));
    let one = fleet.key(KEY);
    let answers = [
        fleet.attempt(KEY, Demand::ONE).err(),
        PerKey::try_acquire(&fleet, KEY, Demand::ONE).err(),
        one.attempt(Demand::ONE).err(),
        Limiter::try_acquire(&one, Demand::ONE).err(),
        one.estimate(Demand::ONE).err(),
        one.reserve(Demand::ONE).err(),
    ];
    for denied in answers {
        let denied = denied.expect("an unknown answer");
        assert_eq!(denied.reason(), Reason::Unavailable);
        assert_eq!((denied.limit(), denied.limiter()), (3, Some("api")));
    }
    assert_eq!(PerKey::standing(&fleet, KEY).remaining, None);
    assert_eq!(one.standing().remaining, None);
    // Attempts are not counted, and nothing was asked.
    assert_eq!((fleet.totals().denied, server.scripts_run()), (3, 0));
    assert!(one.check_saturation().is_ok());
}

#[tokio::test]
async fn undone_permits_and_charges_reach_the_store() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let fleet = fleet(
        &store(&server, &clock),
        FixedWindow::new(Quota::per_minute(10)),
    );
    let mut permit = fleet.acquire_owned(KEY, 6.into()).await.expect("room");
    permit.split(2).expect("a part").undo();
    until_in_use(&fleet, KEY, 4).await;
    PerKey::undo(&fleet, KEY, permit);
    until_in_use(&fleet, KEY, 0).await;
    fleet.charge(KEY, 3);
    until_in_use(&fleet, KEY, 3).await;
    let one = fleet.key(KEY);
    one.charge(100);
    until_in_use(&fleet, KEY, 10).await;
    // What was taken in a window that is over is not given back in the next.
    clock.advance(Duration::from_secs(60));
    let old = one.acquire_owned(5.into()).await.expect("room");
    clock.advance(Duration::from_secs(60));
    let new = one.acquire_owned(5.into()).await.expect("room");
    old.undo();
    new.split_and_undo_one();
    until_in_use(&fleet, KEY, 4).await;
    assert_eq!(fleet.totals().lost, 0);
}

trait SplitAndUndo {
    fn split_and_undo_one(self);
}

impl SplitAndUndo for plimsoll::Permit<'static> {
    fn split_and_undo_one(mut self) {
        self.split(1).expect("a part").undo();
    }
}

#[tokio::test]
async fn leases_go_back_with_the_last_part_of_a_permit() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let fleet = fleet(&store, Concurrency::new(5));
    let mut permit = fleet.acquire_owned(KEY, 4.into()).await.expect("room");
    let part = permit.split(1).expect("a part");
    drop(permit);
    let seen = fleet.limiter().look(KEY).await.expect("a look");
    assert_eq!(seen.in_use, 4);
    part.undo();
    until_in_use(&fleet, KEY, 0).await;

    let forgotten = fleet.acquire_owned(KEY, 2.into()).await.expect("room");
    forgotten.forget();
    drop(fleet.acquire_owned(KEY, 3.into()).await.expect("room"));
    until_in_use(&fleet, KEY, 2).await;
    // Nothing can be charged that nobody would give back.
    fleet.charge(KEY, 3);
    assert_eq!(
        fleet.key(KEY).standing(),
        Gate::new(Concurrency::new(5)).standing().remaining(None)
    );
}

#[tokio::test]
async fn whoever_gives_up_while_the_answer_is_on_its_way_is_not_charged() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let fleet = fleet(
        &store(&server, &clock),
        FixedWindow::new(Quota::per_minute(10)),
    );
    drop(fleet.acquire_owned(KEY, 1.into()));
    let _ = fleet.acquire_owned(KEY, 1.into()).await;
    for _ in 0..5 {
        let mut asked = Box::pin(fleet.acquire_owned(KEY, 1.into()));
        let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(asked.as_mut().poll(cx)));
        assert!(begun.await.is_pending());
    }
    // The answers come in order: those who gave up are asked for first.
    until_in_use(&fleet, KEY, 1).await;
    let taken = fleet.limiter().take_up_to(KEY, 10).await.expect("a part");
    assert_eq!(taken.cost(), 9);
}

#[tokio::test]
async fn a_store_that_cannot_decide_is_an_error_there_and_unavailable_here() {
    let server = Server::start();
    let store = server
        .store()
        .namespace("n")
        .raw_keys()
        .open()
        .expect("a store");
    let fleet = fleet(&store, FixedWindow::new(Quota::per_minute(10)));
    server.cli(&["lpush", "n:{subject}:api:w", "not a limit"]);
    let error = fleet.limiter().decide(KEY, 1).await.expect_err("a list");
    assert_eq!(error.kind(), StoreErrorKind::WrongType);
    let denied = fleet
        .acquire_owned(KEY, 1.into())
        .await
        .expect_err("a list");
    assert_eq!(
        (denied.reason(), denied.retry_after()),
        (Reason::Unavailable, None)
    );
    assert_eq!(fleet.totals().undecided, 1);
    // It answered, so it is asked for others.
    for _ in 0..20 {
        assert!(fleet.acquire_owned(KEY, 1.into()).await.is_err());
    }
    assert!(store.is_asked() && store.outages() == 0);
    assert!(fleet.acquire_owned("other", 1.into()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_outside_of_the_runtime_may_wait_for_the_answer() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let fleet = fleet(&store, TokenBucket::per_second(3));
    let one: Arc<dyn Limiter> = Arc::new(fleet.key(KEY));
    let elsewhere = Arc::clone(&one);
    // No runtime was ever seen: there is nobody to ask.
    let denied = std::thread::spawn(move || elsewhere.acquire_blocking(Demand::ONE).map(drop));
    let denied = denied.join().expect("no panic").expect_err("nobody to ask");
    assert_eq!(denied.reason(), Reason::Unavailable);
    assert!(one.acquire(Demand::ONE).await.is_ok());
    let elsewhere = Arc::clone(&one);
    let asked = tokio::task::spawn_blocking(|| {
        std::thread::spawn(move || elsewhere.acquire_blocking(Demand::ONE).map(drop)).join()
    });
    assert!(asked.await.expect("no panic").expect("no panic").is_ok());
}

#[tokio::test]
async fn a_closed_limiter_refuses_and_others_of_the_key_do_not() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let fleet = fleet(&store(&server, &clock), TokenBucket::per_second(3));
    let (one, same) = (fleet.key(KEY), fleet.key(KEY));
    one.clone().close();
    let denied = one.acquire(Demand::ONE).await.expect_err("closed");
    assert_eq!(denied.reason(), Reason::Closed);
    assert_eq!(
        one.attempt(Demand::ONE).map(drop).expect_err("closed"),
        denied
    );
    assert!(one.estimate(Demand::ONE).is_err());
    assert!(same.acquire(Demand::ONE).await.is_ok());
}

async fn answer(layered: impl Layered, customer: Option<&str>) -> Response<()> {
    let mut request = Request::new(String::new());
    if let Some(customer) = customer {
        let value = customer.parse().expect("a value");
        request.headers_mut().insert("x-customer", value);
    }
    layered.call(request).await
}

trait Layered {
    async fn call(self, request: Request<String>) -> Response<()>;
}

impl<S, B> Layered for S
where
    S: tower::Service<Request<String>, Response = Response<B>, Error = Infallible>,
{
    async fn call(self, request: Request<String>) -> Response<()> {
        self.oneshot(request).await.expect("no error").map(drop)
    }
}

#[tokio::test]
async fn it_stands_in_a_layer_for_everyone_and_by_key() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = store(&server, &clock);
    let daily = fleet(&store, FixedWindow::new(Quota::per_day(5)));
    let burst = store.limiter("burst", TokenBucket::per_second(2));
    let burst = burst.expect("a limiter").fleet().build().expect("a fleet");
    let customer = HeaderKey::named("x-customer").expect("a name");
    let outer = RequestLimit::by_key(burst, customer).refund_refused();
    let outer = HttpLimitLayer::new(outer).send_fields(SendFields::Always);
    let inner = HttpLimitLayer::new(RequestLimit::new(daily.key("everybody")));
    let service = (outer, inner).layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let mut seen = Vec::new();
    for customer in ["a", "a", "a", "b", "b", "c", "c"] {
        let response = answer(service.clone(), Some(customer)).await;
        seen.push(response.status().as_u16());
        if response.status() == StatusCode::OK {
            assert!(response.headers().contains_key("ratelimit"), "{response:?}");
        }
    }
    assert_eq!(seen, [200, 200, 429, 200, 200, 200, 429]);
    // Refused for the day, `c` was not charged for its second request.
    let burst = store
        .limiter("burst", TokenBucket::per_second(2))
        .expect("a limiter");
    let mut left = 0;
    for _ in 0..1000 {
        left = burst.look("c").await.expect("a look").available;
        if left == 1 {
            break;
        }
    }
    assert_eq!(left, 1);
    assert_ne!(answer(service, None).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn two_stand_in_one_layer() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = store(&server, &clock);
    let limiter = |name: &str| store.limiter(name, FixedWindow::new(Quota::per_day(100)));
    let borrowed = |name: &str| {
        let fleet = limiter(name).expect("a limiter").fleet();
        let fleet = fleet.borrowing(Borrow::new()).build().expect("a fleet");
        fleet.key("everybody")
    };
    let layer = HttpLimitLayer::new(RequestLimit::new(borrowed("one")))
        .and(RequestLimit::new(borrowed("two")));
    assert_eq!(admitted(layer).await, 100);

    // Each was once given back for the other, for ever.
    let asked = |name: &str| {
        let fleet = limiter(name).expect("a limiter").fleet();
        fleet.build().expect("a fleet").key("everybody")
    };
    let layer = HttpLimitLayer::new(RequestLimit::new(asked("three")))
        .and(RequestLimit::new(asked("four")));
    assert_eq!(admitted(layer).await, 100);

    let all = All::new([
        Arc::new(asked("five")) as Arc<dyn Limiter>,
        Arc::new(Gate::new(Concurrency::new(1))),
        Arc::new(asked("six")),
    ]);
    assert_eq!(
        admitted(HttpLimitLayer::new(RequestLimit::new(all))).await,
        100
    );
}

/// How many are let in, one after the other.
async fn admitted<L: Limits + Clone>(layer: HttpLimitLayer<L>) -> u64 {
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let mut admitted = 0;
    while answer(service.clone(), None).await.status() == StatusCode::OK {
        admitted += 1;
    }
    admitted
}
