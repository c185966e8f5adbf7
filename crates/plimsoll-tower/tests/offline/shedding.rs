//! Load shedding in one call: its settings, who waits, who is sent away, and how.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use plimsoll::adaptive::LatencyGradient;
use plimsoll::{ManualClock, Priority, Reason};
use plimsoll_tower::shedding::SheddingLayer;
use plimsoll_tower::{EndpointPriorityLayer, LoadShed, Refused, load_shedding};
use tower::util::{BoxCloneService, MapResponse};
use tower::{Layer, Service, service_fn};

/// A server behind the layer, which answers `/quick` at once and everything else never.
struct Server(BoxCloneService<Request<()>, Response<()>, Infallible>);

/// A request that may have been answered.
struct Sent(Pin<Box<dyn Future<Output = Result<Response<()>, Infallible>> + Send>>);

impl Server {
    fn new(layer: &SheddingLayer) -> Self {
        Self::of(layer.layer(Self::endpoint()))
    }

    /// With an endpoint that declares a priority.
    fn declaring(layer: &SheddingLayer, priority: Priority) -> Self {
        Self::of(layer.layer(EndpointPriorityLayer::new(priority).layer(Self::endpoint())))
    }

    fn endpoint() -> BoxCloneService<Request<()>, Response<String>, Infallible> {
        BoxCloneService::new(service_fn(|request: Request<()>| async move {
            if request.uri().path() != "/quick" {
                pending::<()>().await;
            }
            Ok(Response::new(String::new()))
        }))
    }

    fn of<S, B>(limited: S) -> Self
    where
        S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
        B: 'static,
    {
        let answered = |response: Response<B>| response.map(drop);
        Self(BoxCloneService::new(MapResponse::new(limited, answered)))
    }

    fn send(&mut self, path: &str, priority: &str) -> Sent {
        let request = Request::get(path).header("x-priority", priority).body(());
        Sent(Box::pin(self.0.call(request.expect("a request"))))
    }

    /// Sends one that is never answered if it is let in.
    fn occupy(&mut self, priority: &str) -> Sent {
        let mut sent = self.send("/slow", priority);
        assert!(sent.answer().is_none());
        sent
    }
}

impl Sent {
    fn answer(&mut self) -> Option<Response<()>> {
        match self
            .0
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(response)) => Some(response),
            Poll::Pending => None,
        }
    }

    /// It was turned away: says why.
    fn refusal(&mut self) -> Reason {
        let response = self.answer().expect("an answer");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
        assert!(!response.headers().contains_key("ratelimit"));
        let Refused(denied) = response.extensions().get().expect("a refusal");
        assert_eq!(denied.limiter(), Some("load-shedding"));
        denied.reason()
    }
}

#[test]
fn the_usual_settings_are_those_of_the_table() {
    let (_layer, gate) = LoadShed::new().build().unwrap();
    let seen = gate.snapshot();
    assert_eq!((seen.limit(), seen.queue_bound()), (5, 20));

    let mut server = Server::new(&load_shedding());
    let _inside: Vec<_> = (0..5).map(|_| server.occupy("normal")).collect();
    let _waiting: Vec<_> = (0..20).map(|_| server.occupy("normal")).collect();
    let mut late = server.send("/slow", "normal");
    assert_eq!(late.refusal(), Reason::QueueFull);
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let shed = LoadShed::new;
    let cases = [
        (shed().min(0), "`min` is 0: expected at least 1"),
        (shed().initial(0), "`initial` is 0: expected at least 1"),
        (shed().max(0), "`max` is 0: expected at least 1"),
        (shed().min_queue(0), "`min_queue` is 0: expected at least 1"),
        (
            shed().initial_queue(0),
            "`initial_queue` is 0: expected at least 1",
        ),
        (
            shed().min(9).max(9),
            "`max` is 9: expected above the minimum",
        ),
        (
            shed().initial(4),
            "`initial` is 4: expected from the minimum to the maximum",
        ),
        (
            shed().initial_queue(19),
            "`initial_queue` is 19: expected at least the minimum queue",
        ),
    ];
    for (shed, message) in cases {
        assert_eq!(shed.build().unwrap_err().to_string(), message);
    }
    let edge = shed().min(1).initial(1).max(2);
    assert!(edge.min_queue(1).initial_queue(1).build().is_ok());
}

#[test]
fn every_algorithm_can_be_chosen_and_keeps_to_the_bounds() {
    // As files describe them; their own bounds are wider.
    let bounds = "min: 1, initial: 7, max: 100";
    let windowed = format!("{{ delegate: {{ algorithm: gradient2 }}, {bounds} }}");
    let plain = format!("{{ {bounds} }}");
    let algorithms = [
        ("verdict", &plain),
        ("latency_gradient", &plain),
        ("windowed", &windowed),
        ("vegas", &plain),
        ("aimd", &plain),
    ];
    for (name, parameters) in algorithms {
        let algorithm = plimsoll_spec::limit(name, parameters).unwrap();
        let shed = LoadShed::new().algorithm(algorithm);
        let (layer, gate) = shed.max(8).build().unwrap();
        assert_eq!(gate.snapshot().limit(), 7);
        let mut server = Server::new(&layer);
        for _ in 0..100 {
            assert!(server.send("/quick", "normal").answer().is_some());
        }
        assert!((5..=8).contains(&gate.snapshot().limit()));
    }
}

#[test]
fn a_full_queue_sends_the_lowest_class_away_and_serves_the_highest_first() {
    let time = ManualClock::new();
    let shed = LoadShed::new().min(1).initial(1).clock(time.clock());
    let (layer, _gate) = shed.min_queue(2).initial_queue(2).build().unwrap();
    let mut server = Server::new(&layer);

    let inside = server.occupy("normal");
    let mut low = server.occupy("non-critical");
    let mut normal = server.send("/quick", "normal");
    assert!(normal.answer().is_none());
    let mut critical = server.send("/quick", "critical");
    assert!(critical.answer().is_none());
    assert_eq!(low.refusal(), Reason::Evicted);
    assert_eq!(
        server.send("/slow", "normal").refusal(),
        Reason::QueueFull,
        "among equals the newcomer goes"
    );

    drop(inside);
    assert!(normal.answer().is_none());
    assert!(critical.answer().is_some());
    drop(critical);
    assert!(normal.answer().is_some());
}

/// Found by somebody who copied a page: what an endpoint declared was not read, and the header of the client was.
#[test]
fn an_endpoint_that_declares_its_priority_has_it_whatever_the_client_says() {
    let shed = LoadShed::new()
        .min(1)
        .initial(1)
        .clock(ManualClock::new().clock());
    let (layer, _gate) = shed.build().unwrap();
    let mut others = Server::new(&layer);
    let mut checkout = Server::declaring(&layer, Priority::Critical);

    let inside = others.occupy("normal");
    let mut normal = others.send("/quick", "normal");
    assert!(normal.answer().is_none());
    let mut critical = checkout.send("/quick", "non-critical");
    assert!(critical.answer().is_none());
    drop(inside);
    assert!(normal.answer().is_none(), "it came first, and matters less");
    assert!(critical.answer().is_some());
}

#[test]
fn who_waits_too_long_is_sent_away_like_one_who_finds_the_queue_full() {
    let time = ManualClock::new();
    let shed = LoadShed::new().min(1).initial(1).clock(time.clock());
    let (layer, gate) = shed.queue_timeout(Duration::from_secs(1)).build().unwrap();
    let mut server = Server::new(&layer);

    let _inside = server.occupy("normal");
    let mut waiting = server.occupy("critical");
    time.advance(Duration::from_millis(999));
    assert!(waiting.answer().is_none());
    time.advance(Duration::from_millis(2));
    assert_eq!(waiting.refusal(), Reason::TimedOut);
    assert_eq!(gate.snapshot().queued(), 0);
}

/// The line that everybody copies let requests wait for ever.
#[test]
fn nobody_waits_for_longer_than_a_quarter_of_a_second_unless_told() {
    for (told, refused) in [(true, false), (false, true)] {
        let time = ManualClock::new();
        let mut shed = LoadShed::new().min(1).initial(1).clock(time.clock());
        if told {
            shed = shed.queue_timeout(None);
        }
        let (layer, _gate) = shed.build().unwrap();
        let mut server = Server::new(&layer);
        let _inside = server.occupy("normal");
        let mut waiting = server.occupy("normal");
        time.advance(Duration::from_millis(249));
        assert!(waiting.answer().is_none());
        time.advance(Duration::from_millis(2));
        assert_eq!(waiting.answer().is_some(), refused);
    }
}

#[test]
fn those_who_are_turned_away_can_be_told_when_to_come_back() {
    let time = ManualClock::new();
    let shed = LoadShed::new().min(1).initial(1).clock(time.clock());
    let shed = shed.retry_full_after(Duration::from_millis(1500));
    let (layer, _gate) = shed.min_queue(1).initial_queue(1).build().unwrap();
    let mut server = Server::new(&layer);
    let _inside = (server.occupy("normal"), server.occupy("normal"));
    let refusal = server.send("/slow", "normal").answer().unwrap();
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refusal.headers()[header::RETRY_AFTER], "2");
}

/// One slot, and a queue that is full: the limit grows by what waits, and the queue by its root.
#[test]
fn the_queue_follows_the_limit() {
    let root: fn(u64) -> u64 = |limit| (limit - 1).isqrt() + 1;
    let double: fn(u64) -> u64 = |limit| limit * 2;
    for (set, size) in [(None, root), (Some(double), double)] {
        let time = ManualClock::new();
        let mut shed = LoadShed::new().min(1).initial(1).clock(time.clock());
        let gradient = LatencyGradient::builder().min(1).initial(1).min_queue(2);
        let gradient = gradient.initial_queue(20).build().unwrap();
        shed = shed.algorithm(gradient).queue_timeout(None);
        if let Some(set) = set {
            shed = shed.queue_size(move |now| set(now.limit));
        }
        let (layer, gate) = shed.min_queue(2).initial_queue(20).build().unwrap();
        let mut server = Server::new(&layer);

        // It has the slot, and takes as long as nobody looks for its answer.
        let mut first = server.send("/quick", "normal");
        let mut second = server.send("/quick", "normal");
        assert!(second.answer().is_none());
        let _waiting: Vec<_> = (0..19).map(|_| server.occupy("normal")).collect();
        time.advance(Duration::from_millis(400));
        assert!(first.answer().is_some());
        time.advance(Duration::from_millis(200));
        assert!(second.answer().is_some());

        let seen = gate.snapshot();
        let limit = seen.limit();
        assert!(limit > 10, "{limit}");
        assert_eq!(seen.queue_bound(), size(limit));
    }
}
