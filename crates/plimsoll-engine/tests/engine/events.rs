//! What subscribers hear of decisions and of changes (ENGINE 4).

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use plimsoll::{Events, Reason};
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, Limits, LimitsEvent, LimitsEventKind};
use plimsoll_tower::Head;
use tower::util::service_fn;
use tower::{Layer, ServiceExt};

use crate::counting::allocations;
use crate::limits;

const FILE: &str = "
limits:
  user: { kind: token_bucket, burst: 2, refill: 1, every: 1s, key: header:x-user }
  slots: { concurrency: 1, queue: { bound: 1 } }
  tomorrow: { kind: fixed_window, limit: 1, window: 1h, key: header:x-user, mode: shadow }
routes:
  - { match: /slow, limits: [slots] }
  - { match: /**, limits: [user, tomorrow] }
";

const ANNA: &str = "anna@example.com";

/// What was heard, in one line each: the kind, the binding limit and the reason, then what was asked.
fn heard(events: &mut Events<LimitsEvent>) -> Vec<String> {
    events.by_ref().map(|event| line(&event)).collect()
}

fn line(event: &LimitsEvent) -> String {
    let mut line = event.kind.as_str().to_owned();
    match &event.kind {
        LimitsEventKind::Refused { limit, reason, .. } => {
            line += &format!(" by {} {reason:?}", limit.as_deref().unwrap_or("?"));
        }
        LimitsEventKind::Changed { changes, .. } => line += &format!(" {changes}"),
        _ => {}
    }
    for asked in event.asked() {
        line += &format!(", {}", asked.limit);
        if let Some(key) = &asked.key {
            line += &format!(" {key}");
        }
        line += &format!(" × {}", asked.cost);
        match asked.denied {
            Some(reason) if asked.shadow => line += &format!(" would refuse {reason:?}"),
            Some(reason) => line += &format!(" refuses {reason:?}"),
            None => {}
        }
    }
    line
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn config(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml).expect("a file")
}

fn request(path: &str, user: Option<&str>) -> Request<Empty<Bytes>> {
    let request = Request::get(path);
    let request = match user {
        Some(user) => request.header("x-user", user),
        None => request,
    };
    request.body(Empty::new()).expect("a request")
}

#[test]
fn decisions_are_told_with_the_binding_limit_and_masked_keys() {
    let (limits, time) = limits(FILE);
    let asks = [
        Ask::new("user").key(ANNA).cost(2),
        Ask::new("tomorrow").key(ANNA),
        Ask::new("slots"),
    ];
    let before = limits.try_decide(&asks[2..]).expect("there is room");
    drop(before);
    time.advance(Duration::from_secs(7));
    let mut events = limits.subscribe(100);
    drop(limits.try_decide(&asks).expect("there is room"));
    let refusal = limits.try_decide(&asks).expect_err("nothing is left");

    let told: Vec<LimitsEvent> = events.collect();
    assert_eq!(
        told.iter().map(line).collect::<Vec<_>>(),
        [
            "admitted, user anna… (16) × 2, tomorrow anna… (16) × 1, slots × 1",
            "refused by user Exhausted, user anna… (16) × 2 refuses Exhausted, \
             tomorrow anna… (16) × 1 would refuse Exhausted, slots × 1",
        ]
    );
    assert!(told.iter().all(|event| event.at == time.clock().now()));
    let LimitsEventKind::Refused { retry_after, .. } = &told[1].kind else {
        panic!("{told:?}");
    };
    assert_eq!(*retry_after, refusal.retry_after());
    let printed = format!("{told:?}");
    assert!(
        printed.contains("anna…") && !printed.contains("example.com"),
        "{printed}"
    );
    let key = told[0].asked()[0].key.as_ref().expect("a key");
    assert_eq!(key.reveal(), ANNA);
    events = limits.subscribe(100);
    assert_eq!(heard(&mut events), [""; 0], "only from the subscription on");
}

#[test]
fn a_limit_in_shadow_mode_tells_that_it_would_refuse() {
    let (limits, _time) = limits(FILE);
    let mut events = limits.subscribe(100);
    let asks = [Ask::new("user").key("a"), Ask::new("tomorrow").key("a")];
    for _ in 0..2 {
        drop(limits.try_decide(&asks).expect("there is room"));
    }
    let would: Vec<Vec<String>> = events
        .by_ref()
        .map(|event| {
            assert_eq!(event.kind.as_str(), "admitted");
            let would = event.would_refuse();
            would.map(|asked| asked.limit.to_string()).collect()
        })
        .collect();
    assert_eq!(would, [vec![], vec!["tomorrow".to_owned()]]);
}

/// One event when the decision is made, none for one that is given up.
#[test]
fn a_decision_that_waits_is_told_when_it_is_made() {
    let (limits, _time) = limits(FILE);
    let mut events = limits.subscribe(100);
    let ask = [Ask::new("slots")];
    let Poll::Ready(Ok(hold)) = poll(pin!(limits.decide(&ask, 1))) else {
        panic!("there is room");
    };
    {
        let mut given_up = pin!(limits.decide(&ask, 1));
        assert!(poll(given_up.as_mut()).is_pending());
    }
    let mut waits = pin!(limits.decide(&ask, 1));
    assert!(poll(waits.as_mut()).is_pending());
    let Poll::Ready(Err(_)) = poll(pin!(limits.decide(&ask, 1))) else {
        panic!("the queue is full");
    };
    assert_eq!(
        heard(&mut events),
        [
            "admitted, slots × 1",
            "refused by slots QueueFull, slots × 1 refuses QueueFull"
        ]
    );
    drop(hold);
    assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(heard(&mut events), ["admitted, slots × 1"]);
}

#[test]
fn a_peek_is_not_told_and_names_that_callers_make_up_are_not_passed_on() {
    let (limits, _time) = limits(FILE);
    let mut events = limits.subscribe(100);
    let asks = [Ask::new("user").key("a"), Ask::new("made up")];
    let _ = limits.peek(&asks[..1]);
    let _ = limits.peek(&asks);
    limits.charge(&asks);
    limits.refund(&asks);
    let no_key = request("/", None);
    let _ = limits.peek_request(&Head::of(&no_key));
    assert_eq!(heard(&mut events), [""; 0]);
    assert_eq!(limits.snapshot()[0].refused, [], "a peek is not counted");
    assert!(limits.asks_of(&Head::of(&no_key)).is_err());
    assert_eq!(heard(&mut events), ["refused by user NoKey"]);
    assert_eq!(limits.snapshot()[0].refused, [(Reason::NoKey, 1)]);
    assert!(limits.try_decide(&asks).is_err());
    assert!(matches!(
        poll(pin!(limits.decide(&asks, 1))),
        Poll::Ready(Err(_))
    ));
    let told = "refused by ? Closed, user a… (1) × 1";
    assert_eq!(heard(&mut events), [told, told]);
}

#[test]
fn requests_are_told_by_routes_and_by_the_layer() {
    let (limits, _time) = limits(FILE);
    let mut events = limits.subscribe(100);
    let (known, no_key) = (request("/", Some("bert")), request("/", None));
    for request in [&known, &no_key] {
        let decide = limits.decide_request(&Head::of(request), 1);
        let _ = poll(pin!(decide.expect("a route")));
    }
    let admitted = "admitted, user b… (4) × 1, tomorrow b… (4) × 1";
    let no_key = "refused by user NoKey";
    assert_eq!(heard(&mut events), [admitted, no_key]);

    fn answer(_: Request<Empty<Bytes>>) -> Ready<Result<Response<Empty<Bytes>>, Infallible>> {
        ready(Ok(Response::new(Empty::new())))
    }
    let layer = limits.layer();
    let status = |request| {
        let service = layer.layer(service_fn(answer));
        match poll(pin!(service.oneshot(request))) {
            Poll::Ready(Ok(response)) => response.status().as_u16(),
            _ => panic!("nothing is waited for"),
        }
    };
    assert_eq!(status(request("/", Some("bert"))), 200);
    assert_eq!(status(request("/", Some("bert"))), 429);
    assert!(status(request("/", None)) >= 400);
    assert_eq!(
        heard(&mut events),
        [
            "admitted, user b… (4) × 1, tomorrow b… (4) × 1 would refuse Exhausted",
            "refused by user Exhausted, user b… (4) × 1 refuses Exhausted, \
             tomorrow b… (4) × 1 would refuse Exhausted",
            no_key,
        ]
    );

    let hold = limits.try_decide(&[Ask::new("slots")]);
    let service = layer.layer(service_fn(answer));
    let mut waits = pin!(service.oneshot(request("/slow", None)));
    assert!(poll(waits.as_mut()).is_pending());
    assert_eq!(heard(&mut events), ["admitted, slots × 1"]);
    drop(hold);
    assert!(poll(waits.as_mut()).is_ready());
    assert_eq!(heard(&mut events), ["admitted, slots × 1"]);
}

#[test]
fn a_change_is_told_and_subscribers_stay() {
    let (limits, _time) = limits("limits: { user: { rate: 1/s }, old: { rate: 1/s } }");
    let mut events = limits.subscribe(100);
    let changes = limits
        .replace(&config(
            "limits: { user: { rate: 2/s }, new: { rate: 1/s } }",
        ))
        .expect("a file");
    let event = events.next().expect("a change is told");
    let LimitsEventKind::Changed { changes: told, .. } = &event.kind else {
        panic!("{event:?}");
    };
    assert_eq!(**told, changes);
    assert_eq!(
        (&told.changed, &told.added),
        (&vec!["user".to_owned()], &vec!["new".to_owned()])
    );
    drop(
        limits
            .try_decide(&[Ask::new("new")])
            .expect("there is room"),
    );
    assert_eq!(heard(&mut events), ["admitted, new × 1"]);

    // Read or built, it fails.
    let text =
        "stores: { far: { url: 'nonsense://' } }\nlimits: { user: { rate: 1/s, store: far } }";
    let wrong = Config::from_str("limits.yaml", text, Format::Yaml);
    assert!(wrong.and_then(|wrong| limits.replace(&wrong)).is_err());
    assert_eq!(heard(&mut events), [""; 0], "nothing has changed");
}

/// Of three subscribers one panics and one never returns; the third and the limits do not notice.
#[test]
fn a_subscriber_that_panics_or_hangs_harms_nobody() {
    let (limits, _time) = limits("limits: { all: { rate: 1000/s } }");
    let (called, calls) = mpsc::channel();
    let panics = limits
        .subscribe_with(move |event| {
            called.send(line(&event)).expect("somebody listens");
            panic!("a subscriber panics, as it should in this test");
        })
        .expect("a thread");
    let (release, hang) = mpsc::channel::<()>();
    let hangs = limits
        .subscribe(1)
        .listen(move |_| {
            let _ = hang.recv();
        })
        .expect("a thread");
    let mut slow = limits.subscribe(2);
    for _ in 0..10 {
        drop(
            limits
                .try_decide(&[Ask::new("all")])
                .expect("there is room"),
        );
    }
    limits.replace(&config("limits: {}")).expect("a file");
    assert_eq!(heard(&mut slow), ["admitted, all × 1"; 2]);
    assert_eq!(slow.missed(), 9, "what does not fit is counted");
    panics.finish();
    assert_eq!(calls.iter().count(), 11, "a panic ends its call only");
    drop(release);
    hangs.finish();
}

/// While nobody listens nothing is allocated, and so it is again when a subscriber is gone.
#[test]
fn dropping_the_handle_ends_the_subscription() {
    let (limits, _time) = limits("limits: { all: { rate: 1000/s, key: header:x-user } }");
    let decide = || {
        drop(
            limits
                .try_decide(&[Ask::new("all").key("anna")])
                .expect("there is room"),
        )
    };
    let some = |limits: &dyn Fn()| allocations(|| (0..20).for_each(|_| limits()));
    (0..20).for_each(|_| decide());
    assert_eq!(some(&decide), 0);
    let events = limits.subscribe(100);
    assert!(some(&decide) >= 20);
    drop(events);
    // The first decision finds that it is gone.
    decide();
    assert_eq!(some(&decide), 0);

    let (sender, calls) = mpsc::channel();
    let listener = limits.subscribe_with(move |_| {
        let _ = sender.send(());
    });
    drop(listener.expect("a thread"));
    decide();
    assert_eq!(some(&decide), 0);
    // The function is dropped with its thread.
    assert_eq!(calls.iter().count(), 0);
}

#[test]
fn what_waits_for_a_subscriber_is_bounded() {
    let (limits, _time) = limits(FILE);
    let mut events = limits.subscribe(1);
    let long = "ä".repeat(64_000);
    let _ = limits.try_decide(&[Ask::new("user").key(&long)]);
    let event = events.next().expect("it is told");
    let key = event.asked()[0].key.as_ref().expect("a key");
    assert!(long.starts_with(key.reveal()) && key.reveal().len() <= 256);
}

/// Whoever is woken by a change may change the limits again.
#[test]
fn a_woken_reader_may_use_the_limits() {
    struct Again(Limits, std::sync::atomic::AtomicBool);
    impl std::task::Wake for Again {
        fn wake(self: std::sync::Arc<Self>) {
            if !self.1.swap(true, std::sync::atomic::Ordering::Relaxed) {
                self.0.replace(&config("limits: {}")).expect("a file");
            }
        }
    }
    let (limits, _time) = limits("limits: { all: { rate: 1/s } }");
    let mut events = limits.subscribe(10);
    let waker = Waker::from(std::sync::Arc::new(Again(limits.clone(), false.into())));
    assert!(
        events
            .poll_recv(&mut Context::from_waker(&waker))
            .is_pending()
    );
    limits
        .replace(&config("limits: { all: { rate: 2/s } }"))
        .expect("a file");
    assert_eq!(events.count(), 2);
    assert_eq!(limits.names(), [""; 0]);
}
