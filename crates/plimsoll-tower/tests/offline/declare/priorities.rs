//! The priority of an endpoint.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use plimsoll::{Concurrency, EventKind, Gate, ManualClock, Priority, Queue};
use plimsoll_tower::declare::LimitHandlers;
use plimsoll_tower::{
    EndpointPriority, HttpLimitLayer, PriorityHeader, RequestLimit, limit, priority,
};

use super::{ANN, ask, from, hello};

#[priority(critical)]
async fn checkout() {}

#[limit(concurrency = 100, priority = non_critical)]
async fn thumbnails() {}

#[priority(critical)]
#[limit(rate = "100/s")]
async fn pay(_: State<&'static str>) {}

#[tokio::test]
async fn an_endpoint_declares_its_priority() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    let mut events = gate.subscribe(100);
    let layer =
        |by: EndpointPriority| HttpLimitLayer::new(RequestLimit::new(gate.clone())).priority(by);
    let router = || {
        Router::new()
            .route("/checkout", get(checkout))
            .route("/thumbnails", get(thumbnails))
            .route("/pay", get(pay))
            .route("/method", get(hello).prioritized(Priority::NonCritical))
            .route("/over", get(checkout).prioritized(Priority::Normal))
            .route("/plain", get(hello))
            .with_state("ready")
    };
    let by_header = EndpointPriority::new().or(PriorityHeader::default());
    let (plain, with_header) = (
        router().layer(layer(EndpointPriority::new())),
        router().layer(layer(by_header)),
    );
    for (path, expected, or) in [
        ("/checkout", Priority::Critical, Priority::Critical),
        ("/thumbnails", Priority::NonCritical, Priority::NonCritical),
        ("/pay", Priority::Critical, Priority::Critical),
        ("/method", Priority::NonCritical, Priority::NonCritical),
        ("/over", Priority::Normal, Priority::Normal),
        ("/plain", Priority::Normal, Priority::Critical),
    ] {
        for (app, expected) in [(&plain, expected), (&with_header, or)] {
            let mut request = from(ANN, "GET", path);
            let critical = "critical".parse().unwrap();
            request.headers_mut().insert("x-priority", critical);
            assert_eq!(ask(app, request).await.status(), 200, "{path}");
            let seen: Vec<_> = events
                .by_ref()
                .filter_map(|event| match event.kind {
                    EventKind::Processing { priority } => Some(priority),
                    _ => None,
                })
                .collect();
            assert_eq!(seen, [expected], "{path}");
        }
    }
}
