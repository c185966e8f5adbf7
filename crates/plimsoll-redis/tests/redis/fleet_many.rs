//! One decision about keys of several fleets: with stock, outages, deadlines and several stores.

use std::time::Duration;

use crate::server::{Server, free_port};
use plimsoll::{Concurrency, Demand, Denied, FixedWindow, ManualClock, Quota, Reason, TokenBucket};
use plimsoll_redis::{Borrow, Fleet, FleetAsk, FleetKey, Outage, RedisRule, Store, StoreErrorKind};

fn fleet(store: &Store, name: &str, rule: impl Into<RedisRule>, outage: Outage) -> Fleet {
    let limiter = store.limiter(name, rule).expect("a limiter");
    limiter.fleet().outage(outage).build().expect("a fleet")
}

fn per_day(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units))
}

fn gone() -> Store {
    let address = format!("redis://127.0.0.1:{}", free_port());
    let store = Store::builder(&address).clock(ManualClock::new().clock());
    store.open().expect("a store")
}

async fn used(fleet: &Fleet, key: &str) -> u64 {
    fleet.limiter().look(key).await.expect("a look").in_use
}

const KEY: &str = "subject";

#[tokio::test]
async fn keys_of_several_fleets_are_one_round_trip_and_one_permit() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let user = fleet(&store, "user", TokenBucket::per_second(1000), Outage::Deny);
    let tenant = fleet(&store, "tenant", per_day(100), Outage::Deny);
    let jobs = fleet(&store, "jobs", Concurrency::new(2), Outage::Deny);
    let shadow = fleet(&store, "tomorrow", per_day(3), Outage::Deny);
    let (user, tenant_42) = (user.key("user 7"), tenant.key("tenant 42"));
    let (jobs_42, tomorrow) = (jobs.key("tenant 42"), shadow.key("user 7"));
    let asks = [
        FleetAsk::new(&user, 1),
        FleetAsk::new(&tenant_42, 2),
        FleetAsk::new(&jobs_42, 1),
        FleetAsk::new(&tomorrow, 2).shadow(),
    ];
    let peeked = FleetAsk::peek_all(&asks).await;
    assert!(peeked.is_granted());
    let before = server.scripts_run();

    let first = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert_eq!(server.scripts_run(), before + 1);
    let left: Vec<_> = first
        .answers()
        .iter()
        .map(|it| it.standing.remaining)
        .collect();
    assert_eq!(left, [Some(999), Some(98), Some(1), Some(1)]);
    assert_eq!(
        first.answers()[1].standing.window,
        Some(Duration::from_secs(86_400))
    );
    let held = first.into_result().expect("permits");
    assert_eq!(held.len(), 4);
    assert!(held.iter().any(|permit| permit.fence().is_some()));

    // The shadow is over its limit from now on.
    let second = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert!(second.is_admitted() && !second.answers()[3].grants());
    let third = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert_eq!(server.scripts_run(), before + 3);
    assert_eq!(third.answers().binding(), Some(2));
    assert_eq!(
        third.into_result().expect_err("refused").limiter(),
        Some("jobs")
    );
    assert_eq!(used(&tenant, "tenant 42").await, 4);
    assert_eq!(used(&shadow, "user 7").await, 2);
    assert_eq!((tenant.totals().granted, jobs.totals().denied), (2, 1));

    held.undo();
    drop(second);
    while used(&jobs, "tenant 42").await > 0 || used(&tenant, "tenant 42").await > 2 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_was_borrowed_is_used_without_a_round_trip_and_comes_back_if_another_refuses() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let limiter = store.limiter("all", per_day(1000)).expect("a limiter");
    let all = limiter.fleet().borrowing(Borrow::new().max(50)).build();
    let all = all.expect("a fleet");
    let few = fleet(&store, "few", per_day(70), Outage::Deny);
    let (everybody, me) = (all.key("everybody"), few.key("me"));
    let alone = [FleetAsk::new(&everybody, 1)];
    let both = [FleetAsk::new(&everybody, 1), FleetAsk::new(&me, 1)];

    let before = server.scripts_run();
    for _ in 0..60 {
        clock.advance(Duration::from_micros(100));
        assert!(
            FleetAsk::decide_all(&alone, Demand::ONE)
                .await
                .is_admitted()
        );
    }
    let scripts = server.scripts_run() - before;
    assert!(scripts < 30, "{scripts} scripts for 60 decisions");

    for _ in 0..70 {
        clock.advance(Duration::from_micros(100));
        assert!(FleetAsk::decide_all(&both, Demand::ONE).await.is_admitted());
    }
    for _ in 0..20 {
        clock.advance(Duration::from_micros(100));
        let refused = FleetAsk::decide_all(&both, Demand::ONE).await;
        assert_eq!(refused.answers().binding(), Some(1));
        assert!(!refused.is_compensated() && refused.answers()[0].grants());
    }
    // Nothing is lost and nothing is granted twice: with the stock given back the store knows what was used.
    all.give_back().await.expect("given back");
    while used(&all, "everybody").await != 130 {
        tokio::task::yield_now().await;
    }
    assert_eq!(used(&few, "me").await, 70);
    assert_eq!(all.totals().lost, 0);

    // What the store refused is refused here until its time.
    let rest = [FleetAsk::new(&me, 1), FleetAsk::new(&everybody, 1)];
    let before = server.scripts_run();
    let refused = FleetAsk::decide_all(&rest, Demand::ONE).await;
    assert_eq!(refused.answers().binding(), Some(0));
    assert_eq!(server.scripts_run(), before + 1);
}

#[tokio::test]
async fn a_known_refusal_asks_nobody() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let limiter = store.limiter("few", per_day(40)).expect("a limiter");
    let few = limiter
        .fleet()
        .borrowing(Borrow::new())
        .build()
        .expect("a fleet");
    let other = fleet(&store, "other", per_day(1000), Outage::Deny);
    let (few, other_key) = (few.key(KEY), other.key(KEY));
    let asks = [FleetAsk::new(&other_key, 1), FleetAsk::new(&few, 1)];
    let mut admitted = 0;
    while FleetAsk::decide_all(&asks, Demand::ONE).await.is_admitted() {
        admitted += 1;
    }
    assert_eq!((admitted, used(&other, KEY).await), (40, 40));
    let before = server.scripts_run();
    let refused = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert_eq!(server.scripts_run(), before);
    assert_eq!(refused.answers().binding(), Some(1));
    assert_eq!(refused.answers()[0].standing.remaining, None);
    let too_large = [
        FleetAsk::new(&other_key, 600),
        FleetAsk::new(&other_key, 401),
    ];
    let denied = FleetAsk::decide_all(&too_large, Demand::ONE)
        .await
        .into_result();
    assert_eq!(denied.expect_err("too much").reason(), Reason::TooLarge);
    plimsoll::Limiter::close(&other_key);
    let denied = FleetAsk::decide_all(&asks[..1], Demand::ONE)
        .await
        .into_result();
    assert_eq!(denied.expect_err("closed").reason(), Reason::Closed);
    assert_eq!(server.scripts_run(), before);
}

/// What each answers: whether it grants, why not, and what kept the store from deciding.
fn told(answers: &plimsoll_redis::StoreAnswers) -> Vec<(bool, Option<Reason>, bool)> {
    let told = answers.iter().map(|answer| {
        let reason = answer.denied.as_ref().map(Denied::reason);
        (answer.grants(), reason, answer.cause.is_some())
    });
    told.collect()
}

#[tokio::test]
async fn without_the_store_each_limit_answers_for_itself() {
    let store = gone();
    let admits = fleet(&store, "admits", per_day(100), Outage::Admit).key(KEY);
    let denies = fleet(&store, "denies", per_day(100), Outage::Deny).key(KEY);
    let shares = fleet(
        &store,
        "shares",
        per_day(100),
        Outage::Local { share: 0.05 },
    )
    .key(KEY);
    let ask = |key| FleetAsk::new(key, 1);

    let all = [ask(&admits), ask(&denies), ask(&shares)];
    let refused = FleetAsk::decide_all(&all, Demand::ONE).await;
    let unavailable = (false, Some(Reason::Unavailable), true);
    assert_eq!(
        told(refused.answers()),
        [(true, None, true), unavailable, (true, None, true)]
    );
    assert_eq!(refused.answers()[2].standing.remaining, Some(4));
    assert_eq!(refused.answers().binding(), Some(1));
    let cause = refused.answers()[0].cause;
    assert!(matches!(
        cause,
        Some(StoreErrorKind::Unreachable | StoreErrorKind::CircuitOpen)
    ));
    drop(refused);

    // The share has not been used by what was refused.
    let some = [ask(&admits), ask(&shares), ask(&denies).shadow()];
    for _ in 0..5 {
        let admitted = FleetAsk::decide_all(&some, Demand::ONE).await;
        assert_eq!(
            told(admitted.answers()),
            [(true, None, true), (true, None, true), unavailable]
        );
        assert!(admitted.is_admitted());
    }
    let exhausted = (false, Some(Reason::Exhausted), true);
    let refused = FleetAsk::decide_all(&some, Demand::ONE).await;
    assert_eq!(told(refused.answers())[1], exhausted);
    let peeked = FleetAsk::peek_all(&some).await;
    assert_eq!(
        told(&peeked),
        [(true, None, true), unavailable, unavailable]
    );
}

#[tokio::test]
async fn several_stores_are_asked_in_turn_and_what_one_granted_is_undone_if_another_refuses() {
    let (one, other) = (Server::start(), Server::start());
    let (here, there) = (one.store().open(), other.store().open());
    let (here, there) = (here.expect("a store"), there.expect("a store"));
    let first = fleet(&here, "first", per_day(10), Outage::Deny);
    let second = fleet(&there, "second", per_day(5), Outage::Deny);
    let (a, b) = (first.key(KEY), second.key(KEY));
    let asks = [FleetAsk::new(&a, 2), FleetAsk::new(&b, 2)];
    for _ in 0..2 {
        assert!(FleetAsk::decide_all(&asks, Demand::ONE).await.is_admitted());
    }
    let refused = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert!(refused.is_compensated());
    let left: Vec<_> = refused
        .answers()
        .iter()
        .map(|it| it.standing.remaining)
        .collect();
    assert_eq!(left, [Some(6), Some(1)]);
    assert_eq!((used(&first, KEY).await, used(&second, KEY).await), (4, 4));

    // The second dies: its limit says what becomes of the decision.
    drop(other);
    let refused = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert!(!refused.is_admitted() && refused.is_compensated());
    assert_eq!(
        told(refused.answers())[1],
        (false, Some(Reason::Unavailable), true)
    );
    assert_eq!(used(&first, KEY).await, 4);
    let limiter = second.limiter().fleet().outage(Outage::Admit);
    second.replace(limiter).expect("replaced");
    let admitted = FleetAsk::decide_all(&asks, Demand::ONE).await;
    assert_eq!(
        told(admitted.answers()),
        [(true, None, false), (true, None, true)]
    );
    assert!(admitted.is_admitted());
    assert_eq!(used(&first, KEY).await, 6);
}

/// A store that hangs is waited for no longer than the decision may take, and what it does later is undone.
#[tokio::test]
async fn one_deadline_holds_for_all_stores() {
    let (one, other) = (Server::start(), Server::start());
    let clock = ManualClock::new();
    let open = |server: &Server| server.store().clock(clock.clock()).open().expect("a store");
    let (here, there) = (open(&one), open(&other));
    let first = fleet(&here, "first", per_day(10), Outage::Admit);
    let second = fleet(&there, "second", per_day(10), Outage::Admit);
    let keys: (FleetKey, FleetKey) = (first.key(KEY), second.key(KEY));
    let warm = [FleetAsk::new(&keys.0, 1), FleetAsk::new(&keys.1, 1)];
    assert!(FleetAsk::decide_all(&warm, Demand::ONE).await.is_admitted());

    other.signal("-STOP");
    let late = tokio::spawn({
        let keys = keys.clone();
        async move {
            let asks = [FleetAsk::new(&keys.0, 3), FleetAsk::new(&keys.1, 3)];
            let like = Demand::ONE.within(Duration::from_millis(20));
            FleetAsk::decide_all(&asks, like).await
        }
    });
    while used(&first, KEY).await != 4 {
        assert!(!late.is_finished());
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_millis(19));
    tokio::task::yield_now().await;
    assert!(!late.is_finished());
    clock.advance(Duration::from_millis(2));
    let denied = late.await.expect("a task").into_result().expect_err("late");
    assert_eq!(denied.reason(), Reason::TimedOut);
    other.signal("-CONT");
    while used(&first, KEY).await != 1 || used(&second, KEY).await != 1 {
        tokio::task::yield_now().await;
    }
    // A deadline that is over asks nobody.
    let before = one.scripts_run();
    let like = Demand::ONE.until(plimsoll::Moment::ORIGIN);
    let asks = [FleetAsk::new(&keys.0, 3)];
    let denied = FleetAsk::decide_all(&asks, like).await.into_result();
    assert_eq!(denied.expect_err("late").reason(), Reason::TimedOut);
    assert_eq!(one.scripts_run(), before);
}
