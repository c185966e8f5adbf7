//! What `tracing` is told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use crate::hand::{gate, poll};
use plimsoll::{Concurrency, Demand, Gate, ManualClock, Outcome, Priority, Queue};
use plimsoll_observe::prometheus_client::registry::Registry;
use plimsoll_observe::{Metered, Metrics, Trace};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Metadata, Subscriber};

type Fields = BTreeMap<&'static str, String>;

/// Writes down what it is told, up to a level.
#[derive(Clone)]
struct Notes {
    level: Level,
    written: Arc<Mutex<Written>>,
    spans: Arc<AtomicU64>,
}

#[derive(Default)]
struct Written {
    /// Level and fields of each event.
    events: Vec<(Level, Fields)>,
    /// Of each span its name and fields; they are numbered from 1.
    spans: Vec<(&'static str, Fields)>,
    entered: Vec<u64>,
    closed: Vec<u64>,
}

impl Notes {
    fn up_to(level: Level) -> Self {
        Self {
            level,
            written: Arc::default(),
            spans: Arc::default(),
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().expect("no test dies while it writes")
    }
}

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
        assert_eq!(metadata.target(), "plimsoll");
        *metadata.level() <= self.level
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        span.record(&mut Reader(&mut fields));
        let name = span.metadata().name();
        self.written().spans.push((name, fields));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut written = self.written();
        let index = usize::try_from(span.into_u64()).expect("few spans") - 1;
        values.record(&mut Reader(&mut written.spans[index].1));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let level = *event.metadata().level();
        self.written().events.push((level, fields));
    }

    fn enter(&self, span: &Id) {
        self.written().entered.push(span.into_u64());
    }

    fn exit(&self, _span: &Id) {}

    fn try_close(&self, span: Id) -> bool {
        self.written().closed.push(span.into_u64());
        true
    }
}

fn fields<const N: usize>(fields: [(&'static str, &str); N]) -> Fields {
    let owned = fields.map(|(name, value)| (name, value.to_owned()));
    Fields::from(owned)
}

#[test]
fn what_happens_is_told_with_its_numbers() {
    let notes = Notes::up_to(Level::TRACE);
    let time = ManualClock::new();
    let gate = gate(&time, 1, 1);
    let mut trace = Trace::new(gate.subscribe(100), "api");
    with_default(notes.clone(), || {
        let critical = Demand::of(1).priority(Priority::Critical);
        let running = gate.try_acquire(1).unwrap();
        let mut waiting = gate.acquire(critical);
        assert!(poll(&mut waiting).is_pending());
        assert!(poll(&mut gate.acquire(1)).is_ready());
        time.advance(Duration::from_millis(1500));
        running.finish(Outcome::Success);
        drop(poll(&mut waiting));
        gate.resize(4).unwrap();
        assert_eq!(trace.forward(), 10);
        assert_eq!(trace.forward(), 0);
    });
    let written = notes.written();
    let told: Vec<_> = written
        .events
        .iter()
        .map(|(level, fields)| (*level, fields["message"].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (Level::INFO, "limit_changed"),
            (Level::INFO, "queue_bound_changed"),
            (Level::DEBUG, "processing"),
            (Level::DEBUG, "enqueued"),
            (Level::WARN, "rejected"),
            (Level::DEBUG, "processed"),
            (Level::DEBUG, "dequeued"),
            (Level::DEBUG, "processing"),
            (Level::DEBUG, "processed"),
            (Level::INFO, "limit_changed"),
        ]
    );
    let state = |at, limit, in_use, queued, message| {
        let mut fields = fields([("limiter", "api"), ("queue_bound", "1")]);
        fields.extend([
            ("at", String::from(at)),
            ("limit", String::from(limit)),
            ("in_use", String::from(in_use)),
            ("queued", String::from(queued)),
            ("message", String::from(message)),
        ]);
        fields
    };
    let with = |mut fields: Fields, more: &[(&'static str, &str)]| {
        fields.extend(
            more.iter()
                .map(|(name, value)| (*name, String::from(*value))),
        );
        fields
    };
    let (_, first) = &written.events[0];
    assert_eq!(*first, state("0", "1", "0", "0", "limit_changed"));
    let (_, rejected) = &written.events[4];
    assert_eq!(
        *rejected,
        with(
            state("0", "1", "1", "1", "rejected"),
            &[("priority", "normal"), ("reason", "queue_full")]
        )
    );
    let (_, processed) = &written.events[5];
    assert_eq!(
        *processed,
        with(
            state("1500000000", "1", "0", "1", "processed"),
            &[
                ("priority", "normal"),
                ("took", "1.5"),
                ("outcome", "success")
            ]
        )
    );
    let (_, dequeued) = &written.events[6];
    assert_eq!(dequeued["waited"], "1.5");
    assert_eq!(dequeued["priority"], "critical");
    let (_, resized) = &written.events[9];
    assert_eq!(resized["limit"], "4");
}

#[test]
fn what_was_missed_is_told_once() {
    let notes = Notes::up_to(Level::WARN);
    let gate = gate(&ManualClock::new(), 1, 1);
    let mut trace = Trace::new(gate.subscribe(3), "api");
    with_default(notes.clone(), || {
        drop(gate.try_acquire(1)); // four events, for one of which there is room
        assert_eq!(trace.forward(), 3);
        assert_eq!(trace.forward(), 0);
        for _ in 0..4 {
            drop(gate.try_acquire(1));
        }
        assert_eq!(trace.forward(), 2, "and a count, which is not told");
    });
    let told = &notes.written().events;
    let missed: Vec<_> = told.iter().map(|(_, fields)| fields.clone()).collect();
    let of = |missed| {
        fields([
            ("limiter", "api"),
            ("message", "missed"),
            ("missed", missed),
        ])
    };
    assert_eq!(missed, [of("3"), of("13")], "and nothing below its level");
}

fn metered(time: &ManualClock) -> Metered<Gate<Concurrency>> {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .name("api")
        .build();
    let metrics = Metrics::register(&mut Registry::default());
    metrics.meter(Arc::new(gate)).expect("the only one")
}

#[test]
fn a_request_has_a_span_from_asking_to_giving_back() {
    let notes = Notes::up_to(Level::DEBUG);
    let time = ManualClock::new();
    let metered = metered(&time);
    with_default(notes.clone(), || {
        let running = metered.try_acquire("GET", 1).unwrap();
        let low = Demand::of(1).priority(Priority::NonCritical);
        let mut waiting = metered.acquire("post", low);
        assert_eq!(notes.written().spans.len(), 1, "not yet");
        assert!(poll(&mut waiting).is_pending());
        assert!(metered.try_acquire("HEAD", 7).is_err());
        time.advance(Duration::from_millis(250));
        running.finish(Outcome::Overload);
        let Poll::Ready(Ok(permit)) = poll(&mut waiting) else {
            panic!("it is its turn");
        };
        assert_eq!(notes.written().entered, [1, 2, 3, 2]);
        permit
            .span()
            .in_scope(|| time.advance(Duration::from_secs(2)));
        drop(permit.into_owned());
    });
    let written = notes.written();
    let span = |more: &[(&'static str, &str)]| {
        let mut all = fields([("limiter", "api"), ("cost", "1"), ("waited", "0.0")]);
        all.extend(
            more.iter()
                .map(|(name, value)| (*name, String::from(*value))),
        );
        ("plimsoll.acquire", all)
    };
    let first = [
        ("method", "GET"),
        ("priority", "normal"),
        ("took", "0.25"),
        ("outcome", "overload"),
    ];
    let second = [
        ("method", "POST"),
        ("priority", "noncritical"),
        ("waited", "0.25"),
        ("took", "2.0"),
        ("outcome", "ignore"),
    ];
    let third = [
        ("method", "HEAD"),
        ("priority", "normal"),
        ("cost", "7"),
        ("reason", "too_large"),
    ];
    assert_eq!(written.spans, [span(&first), span(&second), span(&third)]);
    assert_eq!(written.entered, [1, 2, 3, 2, 2]);
    assert_eq!(written.closed, [3, 1, 2]);
}

#[test]
fn nobody_who_is_not_interested_is_told() {
    let notes = Notes::up_to(Level::INFO);
    with_default(notes.clone(), || {
        let metered = metered(&ManualClock::new());
        let permit = metered.try_acquire("GET", 1).unwrap();
        assert!(permit.span().is_disabled());
        permit.finish(Outcome::Success);
    });
    assert!(notes.written().spans.is_empty());
}
