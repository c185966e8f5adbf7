//! Whatever happens, what is exported is what the limiter says, under labels that are known.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::hand::{gate, poll};
use crate::page::{page, sum, sum_on, value};
use plimsoll::{Concurrency, Demand, Denied, Gate, ManualClock, Outcome, Priority};
use plimsoll_observe::prometheus_client::registry::Registry;
use plimsoll_observe::{Metered, MeteredAcquire, MeteredPermit, Method, Metrics};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const ITEMS: &str = "http_requests_concurrency_items_total";
const LIMIT: &str = "http_requests_concurrency_limit_total";
const QUEUE: &str = "http_requests_queue_items_total";
const TIMES: &str = "http_requests_task_processing_time_seconds_count";
const REJECTED: &str = "http_requests_rejected_total";

fn metered(gate: Gate<Concurrency>) -> (Registry, Metered<Gate<Concurrency>>) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let metered = metrics.meter(Arc::new(gate)).expect("the only one");
    (registry, metered)
}

/// All labels of a page and their values.
fn labels(page: &str) -> Vec<(String, String)> {
    let lists = page.lines().filter(|line| !line.starts_with('#'));
    let lists = lists.filter_map(|line| line.split_once('{')?.1.rsplit_once('}'));
    lists
        .flat_map(|(list, _)| list.split(','))
        .filter_map(|label| label.split_once('='))
        .map(|(label, word)| (label.to_owned(), word.trim_matches('"').to_owned()))
        .collect()
}

/// What may happen to a limiter.
#[derive(Clone, Copy, Debug)]
enum Op {
    Try(Priority),
    Wait(Priority, Option<u64>),
    GiveUp(usize),
    Finish(usize),
    Own(usize),
    Panic(usize),
    Pass(u64),
    Resize(u64),
    Bound(u64),
}

fn ops() -> impl Strategy<Value = Op> {
    let priority = || prop::sample::select(&Priority::ALL[..]);
    prop_oneof![
        priority().prop_map(Op::Try),
        (priority(), prop::option::of(0_u64..50)).prop_map(|(class, ms)| Op::Wait(class, ms)),
        (priority(), prop::option::of(0_u64..50)).prop_map(|(class, ms)| Op::Wait(class, ms)),
        (0_usize..8).prop_map(Op::GiveUp),
        (0_usize..8).prop_map(Op::Finish),
        (0_usize..8).prop_map(Op::Own),
        (0_usize..8).prop_map(Op::Panic),
        (0_u64..60).prop_map(Op::Pass),
        (1_u64..5).prop_map(Op::Resize),
        (0_u64..5).prop_map(Op::Bound),
    ]
}

/// Everybody who asked, and what has become of them.
#[derive(Default)]
struct World<'a> {
    permits: Vec<MeteredPermit<'a>>,
    waiting: Vec<MeteredAcquire<'a>>,
    refused: u64,
    granted: u64,
}

impl<'a> World<'a> {
    fn answered(&mut self, answer: Result<MeteredPermit<'a>, Denied>) {
        match answer {
            Ok(permit) => {
                self.granted += 1;
                self.permits.push(permit);
            }
            Err(_) => self.refused += 1,
        }
    }

    fn apply(&mut self, op: Op, metered: &'a Metered<Gate<Concurrency>>, time: &ManualClock) {
        let of = |class| Demand::of(1).priority(class);
        match op {
            Op::Try(class) => self.answered(metered.try_acquire("GET", of(class))),
            Op::Wait(class, ms) => {
                let patience = |ms| of(class).within(Duration::from_millis(ms));
                let demand = ms.map_or_else(|| of(class), patience);
                self.waiting.push(metered.acquire("PUT", demand));
            }
            Op::GiveUp(n) if n < self.waiting.len() => drop(self.waiting.remove(n)),
            Op::Finish(n) if n < self.permits.len() => {
                self.permits.remove(n).finish(Outcome::Success);
            }
            Op::Own(n) if n < self.permits.len() => {
                let permit = self.permits.remove(n).into_owned();
                self.permits.push(permit);
            }
            Op::Panic(n) if n < self.permits.len() => {
                let permit = self.permits.remove(n);
                let died = catch_unwind(AssertUnwindSafe(move || {
                    let _held = permit;
                    // Without the message of a panic that nobody expects.
                    std::panic::resume_unwind(Box::new("work failed"));
                }));
                assert!(died.is_err());
            }
            Op::Pass(ms) => time.advance(Duration::from_millis(ms)),
            Op::Resize(limit) => metered.limiter().resize(limit).expect("at least 1"),
            Op::Bound(bound) => metered.limiter().set_queue_bound(bound),
            _ => {}
        }
        self.hear();
    }

    /// Everybody hears their answers; twice, because who comes last may be the reason that another has to go.
    fn hear(&mut self) {
        for _ in 0..2 {
            for mut acquire in std::mem::take(&mut self.waiting) {
                match poll(&mut acquire) {
                    Poll::Ready(answer) => self.answered(answer),
                    Poll::Pending => self.waiting.push(acquire),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Whatever happens, the gauges say what the limiter says, and all is counted once.
    #[test]
    fn gauges_are_exact_and_come_back_to_nothing(ops in prop::collection::vec(ops(), 1..120)) {
        let time = ManualClock::new();
        let (registry, metered) = metered(gate(&time, 2, 3));
        let mut world = World::default();
        for op in ops {
            world.apply(op, &metered, &time);
            let (page, snapshot) = (page(&registry), metered.limiter().snapshot());
            prop_assert_eq!(sum_on(&page, ITEMS), snapshot.in_use() as f64);
            prop_assert_eq!(sum_on(&page, QUEUE), snapshot.queued() as f64);
            prop_assert_eq!(sum_on(&page, REJECTED), world.refused as f64);
            prop_assert_eq!(snapshot.denied_total(), world.refused);
        }
        world.waiting.clear();
        world.permits.clear();
        prop_assert_eq!(sum(&registry, ITEMS), 0.0);
        prop_assert_eq!(sum(&registry, QUEUE), 0.0);
        let limit = metered.limiter().snapshot().limit() as f64;
        prop_assert_eq!(value(&registry, LIMIT), Some(limit));
        // Whoever was granted last while others gave up heard of it: all that ran is counted.
        prop_assert_eq!(sum(&registry, TIMES), world.granted as f64);
    }

    /// Whatever clients send, the values of labels are those that are known.
    #[test]
    fn labels_are_of_a_closed_set(words in prop::collection::vec(".*|[a-zA-Z]{3,7}|get|Delete", 1..20)) {
        let (registry, metered) = metered(gate(&ManualClock::new(), 3, 1));
        let mut held = Vec::new();
        for word in &words {
            let known = Method::ALL.map(Method::as_str).contains(&&*word.to_ascii_uppercase());
            let method = Method::from(word.as_str());
            prop_assert_eq!(method.as_str() == word.to_ascii_uppercase(), known);
            held.push(metered.try_acquire(word.as_str(), 1));
        }
        let used = labels(&page(&registry));
        let of = |label: &str| -> BTreeSet<&str> {
            let mut of = BTreeSet::new();
            of.extend(used.iter().filter(|(l, _)| l == label).map(|(_, word)| word.as_str()));
            of
        };
        prop_assert!(of("method").is_subset(&Method::ALL.map(Method::as_str).into()));
        prop_assert!(of("priority").is_subset(&["critical", "normal", "noncritical"].into()));
        prop_assert!(of("reason").is_subset(&["exhausted"].into()));
        let names: BTreeSet<&str> = used.iter().map(|(label, _)| label.as_str()).collect();
        prop_assert!(names.is_subset(&["method", "priority", "reason", "le"].into()));
    }
}
