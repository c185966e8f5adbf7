//! Files and limiters, by chance.

use proptest::prelude::*;

use super::Who;

/// A limiter as the file describes it.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub(super) kind: Sort,
    pub(super) limit: u64,
    pub(super) keyed: bool,
    pub(super) queue: Option<u64>,
    pub(super) max_keys: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sort {
    /// Which of the rates.
    Rate(usize),
    /// Which of the limits that are given back to.
    Slots(usize),
}

const RATES: usize = 9;

impl Described {
    pub(super) fn text(&self) -> String {
        let limit = self.limit;
        let kind = match self.kind {
            Sort::Rate(0) => format!("kind: fixed_window, limit: {limit}, window: 10s"),
            Sort::Rate(1) => {
                format!("kind: sliding_window, limit: {limit}, window: 10s, segments: 4")
            }
            Sort::Rate(2) => format!("kind: sliding_log, limit: {limit}, window: 10s"),
            Sort::Rate(3) => format!("kind: sliding_counter, limit: {limit}, window: 10s"),
            Sort::Rate(4) => format!("kind: token_bucket, burst: {limit}, refill: 1, every: 1s"),
            Sort::Rate(5) => format!(
                "kind: token_bucket, burst: {limit}, refill: {limit}, every: 10s, style: interval"
            ),
            Sort::Rate(6) => format!(
                "kind: bandwidths, limits: [{{ id: x, burst: {limit}, refill: 1, every: 1s }}]"
            ),
            Sort::Rate(7) => format!("kind: refresh, limit: {limit}, period: 10s"),
            Sort::Rate(_) => format!("kind: penalty_bucket, burst: {limit}, refill: 1, every: 1s"),
            Sort::Slots(1) if !self.keyed => {
                format!(
                    "kind: adaptive, algorithm: aimd, min: {limit}, initial: {limit}, max: {limit}"
                )
            }
            Sort::Slots(2) if !self.keyed => {
                format!(
                    "kind: adaptive, algorithm: vegas, min: {limit}, initial: {limit}, max: {limit}"
                )
            }
            Sort::Slots(_) => format!("kind: concurrency, limit: {limit}"),
        };
        let queue = self
            .queue
            .map(|bound| format!(", queue: {{ bound: {bound} }}"));
        let keyed = self
            .keyed
            .then(|| format!(", keyed: true, max_keys: {}", self.max_keys));
        format!(
            "{{ {kind}{}{} }}",
            queue.unwrap_or_default(),
            keyed.unwrap_or_default()
        )
    }

    pub(super) fn is_rate(&self) -> bool {
        matches!(self.kind, Sort::Rate(_))
    }
}

/// A file: two limiters, one with keys, and perhaps several as one.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) a: Described,
    pub(super) b: Described,
    pub(super) keys: Described,
    /// Which members `both` has.
    pub(super) both: usize,
}

impl File {
    pub(super) fn text(&self) -> String {
        let both = [
            "[a, b]",
            "[b, a]",
            "[a]",
            "[b, { kind: concurrency, limit: 3 }]",
        ][self.both];
        format!(
            "limiters:\n  a: {}\n  b: {}\n  keys: {}\n  both: {{ kind: all, of: {both} }}\n  outer: {{ kind: all, of: [both] }}\n",
            self.a.text(),
            self.b.text(),
            self.keys.text(),
        )
    }
}

impl File {
    /// The bounds of the queues that one who waits for several may come to.
    pub(super) fn bounds(&self, who: Who) -> Vec<(&'static str, Option<u64>)> {
        if !matches!(who, Who::Both | Who::Outer | Who::List(_)) {
            return Vec::new();
        }
        let (a, b, keys) = (self.a.queue, self.b.queue, self.keys.queue);
        vec![("a", a), ("b", b), ("keys", keys), ("both.of[1]", None)]
    }
}

pub(super) fn described(keyed: bool) -> impl Strategy<Value = Described> {
    let kind = prop_oneof![
        3 => (0..RATES).prop_map(Sort::Rate),
        2 => (0..3usize).prop_map(Sort::Slots),
    ];
    let queue = prop::option::weighted(0.7, 1u64..6);
    (kind, 1u64..8, queue, 5u64..9).prop_map(move |(kind, limit, queue, max_keys)| Described {
        kind,
        limit,
        keyed,
        queue,
        max_keys,
    })
}

/// A file in which `keys` has keys, mostly; `always` says so of the first, in which it is looked up.
pub(super) fn file(always: bool) -> impl Strategy<Value = File> {
    (
        described(false),
        described(false),
        prop_oneof![4 => Just(true), 1 => Just(always)].prop_flat_map(described),
        0usize..4,
    )
        .prop_map(|(a, b, keys, both)| File { a, b, keys, both })
}
