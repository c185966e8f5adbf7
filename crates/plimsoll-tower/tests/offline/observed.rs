//! What operators see of layers: metrics and events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response};
use plimsoll::{Concurrency, Gate, ManualClock, Queue, Quota, TokenBucket};
use plimsoll_observe::prometheus_client::encoding::text;
use plimsoll_observe::prometheus_client::registry::Registry;
use plimsoll_observe::{Metric, Metrics};
use plimsoll_policy::Policies;
use plimsoll_tower::declare::{Declaration, LimitHandlers, LimitRoutes, PolicyLayer};
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::{HttpLimitLayer, Limits, LoadShed, RequestLimit, per_address};
use tower::util::{BoxCloneService, MapResponse};
use tower::{Layer, Service, ServiceExt, service_fn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Metadata, Subscriber};

type Server = BoxCloneService<Request<()>, Response<()>, Infallible>;
type Sent = Pin<Box<dyn Future<Output = Result<Response<()>, Infallible>> + Send>>;

/// A server that answers nobody, or, if it is quick, everybody after a while.
fn server<L: Limits + Clone>(layer: &HttpLimitLayer<L>, quick: bool) -> Server {
    let handler = service_fn(move |_: Request<()>| async move {
        if !quick {
            pending::<()>().await;
        }
        tokio::task::yield_now().await;
        Ok(Response::new(String::new()))
    });
    BoxCloneService::new(MapResponse::new(
        layer.layer(handler),
        |response: Response<_>| response.map(drop),
    ))
}

fn request(method: &str, priority: &str) -> Request<()> {
    let request = Request::builder().method(method).uri("/");
    request
        .header("x-priority", priority)
        .body(())
        .expect("a request")
}

/// The status, if there is one yet.
fn answer(sent: &mut Sent) -> Option<u16> {
    match sent.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => Some(response.status().as_u16()),
        Poll::Pending => None,
    }
}

fn send(server: &mut Server, method: &str, priority: &str) -> Sent {
    let mut sent: Sent = Box::pin(server.call(request(method, priority)));
    assert_eq!(answer(&mut sent), None);
    sent
}

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).expect("a page");
    page
}

/// Whether the page has this line, of a metric whose names all begin alike.
fn has(registry: &Registry, line: &str) -> bool {
    let line = format!("http_requests_{line}\n");
    page(registry).contains(&line)
}

/// The sum over all series of a metric.
fn sum(registry: &Registry, name: &str) -> u64 {
    let page = page(registry);
    let series = page.lines().filter(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']))
    });
    let numbers = series.map(|line| {
        let number = line.rsplit(' ').next();
        let number = number.and_then(|number| number.parse::<u64>().ok());
        number.expect("a whole number")
    });
    numbers.sum()
}

#[test]
fn load_shedding_has_the_metrics_of_the_table() {
    let time = ManualClock::new();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let shed = LoadShed::new().min(1).initial(1).clock(time.clock());
    let shed = shed.queue_timeout(Duration::from_secs(1));
    let (layer, gate) = shed.min_queue(1).initial_queue(1).build().unwrap();
    let layer = layer.metered(&metrics, gate).unwrap().observed(&metrics);
    let mut server = server(&layer, false);

    let running = send(&mut server, "GET", "normal");
    let mut waiting = send(&mut server, "POST", "critical");
    let mut refused: Sent = Box::pin(server.call(request("BREW", "non-critical")));
    assert_eq!(answer(&mut refused), Some(503));
    for line in [
        "concurrency_items_total 1",
        "concurrency_limit_total 1",
        "queue_items_total{method=\"POST\",priority=\"critical\"} 1",
        "queue_limit_total 1",
        "rejected_total{method=\"UNKNOWN\",priority=\"noncritical\",reason=\"max_queue_items\"} 1",
    ] {
        assert!(has(&registry, line), "{line} in\n{}", page(&registry));
    }

    time.advance(Duration::from_millis(1001));
    assert_eq!(answer(&mut waiting), Some(503));
    drop(running);
    for line in [
        "concurrency_items_total 0",
        "queue_items_total{method=\"POST\",priority=\"critical\"} 0",
        "task_processing_time_seconds_count{method=\"GET\",priority=\"normal\"} 1",
        "task_processing_time_seconds_sum{method=\"GET\",priority=\"normal\"} 1.001",
        "queue_time_seconds_count{method=\"POST\",priority=\"critical\"} 1",
        "rejected_total{method=\"POST\",priority=\"critical\",reason=\"queue_timeout\"} 1",
    ] {
        assert!(has(&registry, line), "{line} in\n{}", page(&registry));
    }
    // The same refusals, with the reasons themselves.
    for reason in ["queue_full", "timed_out"] {
        let labels = format!("{{limiter=\"load-shedding\",reason=\"{reason}\"}} 1\n");
        assert!(page(&registry).contains(&format!("plimsoll_refused_total{labels}")));
    }
}

#[test]
fn who_leaves_the_queue_is_neither_refused_nor_counted_on() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let (layer, gate) = LoadShed::new().min(1).initial(1).build().unwrap();
    let layer = layer.metered(&metrics, gate).unwrap();
    let mut server = server(&layer, false);
    let running = send(&mut server, "GET", "normal");
    let mut second = send(&mut server, "GET", "normal");
    let third = send(&mut server, "GET", "normal");
    assert_eq!(sum(&registry, Metric::QueueItems.default_name()), 2);
    drop(third);
    assert_eq!(sum(&registry, Metric::QueueItems.default_name()), 1);
    drop(running);
    assert_eq!(answer(&mut second), None);
    assert_eq!(sum(&registry, Metric::QueueItems.default_name()), 0);
    assert_eq!(sum(&registry, Metric::ConcurrencyItems.default_name()), 1);
    drop(second);
    assert_eq!(sum(&registry, Metric::ConcurrencyItems.default_name()), 0);
    assert_eq!(sum(&registry, Metric::Rejected.default_name()), 0);
}

#[tokio::test]
async fn a_crowd_comes_and_goes_and_the_gauges_are_back_at_nothing() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let shed = LoadShed::new().min(99).initial(100).max(101);
    let (layer, gate) = shed.min_queue(4).initial_queue(4).build().unwrap();
    let layer = layer.metered(&metrics, gate.clone()).unwrap();
    let server = server(&layer, true);
    let priorities = ["critical", "normal", "non-critical"];
    let crowd: Vec<_> = (0..1000)
        .map(|number| {
            let request = request("PUT", priorities[number % 3]);
            tokio::spawn(server.clone().oneshot(request))
        })
        .collect();
    let (mut done, mut refused) = (0, 0);
    for one in crowd {
        match one.await.unwrap().unwrap().status().as_u16() {
            200 => done += 1,
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(done >= 44 && refused > 0, "{done} {refused}");
    assert_eq!(done + refused, 1000);
    let counted = |metric: Metric| sum(&registry, metric.default_name());
    assert_eq!(counted(Metric::Rejected), refused);
    assert_eq!(counted(Metric::ConcurrencyItems), 0);
    assert_eq!(counted(Metric::QueueItems), 0);
    let times = format!("{}_count", Metric::ProcessingTime.default_name());
    assert_eq!(sum(&registry, &times), done);
    assert_eq!((gate.snapshot().in_use(), gate.snapshot().queued()), (0, 0));
}

/// Whichever of them is waited for, a request is let in when all have said so.
#[test]
fn of_several_limits_the_request_is_counted_once() {
    let slots = || {
        let gate = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(5));
        gate.name("slots").build()
    };
    let ample = || Gate::new(Concurrency::new(10));
    for slots_first in [true, false] {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (slots, ample) = (slots(), ample());
        let (one, other) = if slots_first {
            (slots.clone(), ample.clone())
        } else {
            (ample.clone(), slots.clone())
        };
        let layer = HttpLimitLayer::new(RequestLimit::new(one)).and(RequestLimit::new(other));
        let layer = layer.metered(&metrics, slots.clone()).unwrap();
        let mut server = server(&layer, false);
        let counts = || {
            let items = sum(&registry, Metric::ConcurrencyItems.default_name());
            (items, sum(&registry, Metric::QueueItems.default_name()))
        };
        let first = send(&mut server, "GET", "normal");
        let mut second = send(&mut server, "GET", "normal");
        assert_eq!(counts(), (1, 1));
        drop(first);
        assert_eq!(answer(&mut second), None);
        assert_eq!(counts(), (1, 0));
        assert_eq!(
            (slots.snapshot().in_use(), ample.snapshot().in_use()),
            (1, 1)
        );
        drop(second);
        assert_eq!(counts(), (0, 0));
    }
}

fn from(address: [u8; 4], path: &str) -> Request<Body> {
    let request = Request::get(path).extension(PeerAddr((address, 1).into()));
    request.body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn refusals_are_counted_by_name_and_never_by_key() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let app = Router::new()
        .route("/", get(|| async {}))
        .layer(per_address(1, 1).observed(&metrics));
    for host in 0..100 {
        for _ in 0..3 {
            let request = from([192, 0, 2, host], "/");
            app.clone().oneshot(request).await.unwrap();
        }
    }
    let expected = "\
# HELP plimsoll_refused What was refused, by limiter.
# TYPE plimsoll_refused counter
plimsoll_refused_total{limiter=\"per-address\",reason=\"exhausted\"} 200
# EOF
";
    assert_eq!(page(&registry), expected);
}

#[tokio::test]
async fn refusals_of_declarations_have_the_names_of_the_handlers() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let policies = Policies::builder().fallback(TokenBucket::greedy(Quota::per_hour(1)));
    let layer = PolicyLayer::new(policies.build().unwrap());
    let search = Declaration::per_second("search", 1.0, 1.0);
    let app: Router = Router::new()
        .route("/", get(|| async {}))
        .route("/search", get(|| async {}).limited_by(search))
        .policies(layer.answer(|layer| layer.observed(&metrics)));
    for path in ["/search", "/search", "/search", "/", "/"] {
        let request = from([192, 0, 2, 1], path);
        app.clone().oneshot(request).await.unwrap();
    }
    let page = page(&registry);
    let line = |name: &str, count: u64| {
        let labels = format!("limiter=\"{name}\",reason=\"soft_throttle\"");
        page.contains(&format!("plimsoll_refused_total{{{labels}}} {count}\n"))
    };
    assert!(line("search", 2), "{page}");
    assert!(line("fallback", 1), "{page}");
}

type Fields = BTreeMap<&'static str, String>;

/// Writes events down.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Fields>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "plimsoll" && *metadata.level() <= Level::DEBUG
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        self.0
            .lock()
            .expect("no test dies while it writes")
            .push(fields);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn every_refusal_is_one_event() {
    let time = ManualClock::new();
    let rate = Gate::builder(TokenBucket::per_second(2).burst(1));
    let rate = rate.name("rate").clock(time.clock()).build();
    let slots = Gate::new(Concurrency::new(1));
    let layer = HttpLimitLayer::new(RequestLimit::new(slots)).and(RequestLimit::new(rate));
    let mut server = server(&layer, false);
    let notes = Notes::default();
    with_default(notes.clone(), || {
        let first = send(&mut server, "GET", "normal");
        let mut full: Sent = Box::pin(server.call(request("GET", "normal")));
        assert_eq!(answer(&mut full), Some(503));
        drop(first);
        let mut early: Sent = Box::pin(server.call(request("GET", "normal")));
        assert_eq!(answer(&mut early), Some(429));
    });
    let notes = notes.0.lock().unwrap();
    let fields = |fields: &[(&'static str, &str)]| -> Fields {
        let fields = fields
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        fields.collect()
    };
    assert_eq!(
        *notes,
        [
            fields(&[("message", "refused"), ("reason", "exhausted")]),
            fields(&[
                ("limiter", "rate"),
                ("message", "refused"),
                ("reason", "exhausted"),
                ("retry_after", "0.5"),
            ]),
        ]
    );
}

/// A program that forgets to keep the addresses of its peers had to find that out by itself.
#[test]
fn a_missing_peer_address_is_logged_once_with_what_to_write() {
    let keyed = plimsoll::Keyed::<plimsoll::Address, _>::new(TokenBucket::per_second(5));
    let limit = RequestLimit::by_key(keyed, plimsoll_tower::keys::Peer::new());
    let mut server = server(&HttpLimitLayer::new(limit), false);
    let notes = Notes::default();
    with_default(notes.clone(), || {
        for _ in 0..3 {
            let mut sent: Sent = Box::pin(server.call(request("GET", "normal")));
            assert_eq!(answer(&mut sent), Some(500));
        }
    });
    let notes = notes.0.lock().unwrap();
    let remedies = notes.iter().filter_map(|fields| fields.get("message"));
    let remedies = remedies
        .filter(|text| text.contains("into_make_service_with_connect_info::<SocketAddr>()"));
    assert_eq!(remedies.count(), 1);
}
