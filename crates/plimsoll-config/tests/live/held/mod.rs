//! Whoever holds a limiter of a file holds a name: through every valid change of the file it goes on working.
//!
//! It used to hold a gate. Another `kind`, or only a queue for a limiter with keys, closed the gate, and every request was
//! answered with 503 from then on, even when the edit was taken back.

mod kept;
mod several;
mod threads;
mod waiters;

use plimsoll_config::{KeyedLimiter, Limits};
use plimsoll_kinds::AnyLimiter;

/// Rates, with ten at once.
const RATES: [&str; 10] = [
    "kind: fixed_window, limit: 10, window: 10m",
    "kind: sliding_window, limit: 10, window: 10m, segments: 5",
    "kind: sliding_log, limit: 10, window: 10m",
    "kind: sliding_counter, limit: 10, window: 10m",
    "kind: token_bucket, burst: 10, refill: 1, every: 1m",
    "kind: token_bucket, burst: 10, refill: 10, every: 10m, style: interval",
    "kind: bandwidths, limits: [{ burst: 10, refill: 1, every: 1m }]",
    "kind: refresh, limit: 10, period: 10m",
    "kind: penalty_bucket, burst: 10, refill: 1, every: 1m",
    "kind: smooth_bursty, rate: 0.1",
];

/// Limits that are given back to, ten at once.
const SLOTS: [&str; 3] = [
    "kind: concurrency, limit: 10",
    "kind: adaptive, algorithm: vegas, initial: 10, max: 10",
    "kind: adaptive, algorithm: aimd, min: 10, initial: 10, max: 10",
];

const QUEUED: &str = "kind: concurrency, limit: 1, queue: { bound: 5 }";
const ADAPTIVE: &str = "kind: adaptive, algorithm: aimd, min: 1, initial: 1, max: 1";

fn file(limiter: &str) -> String {
    format!("limiters:\n  other: {{ kind: concurrency, limit: 100 }}\n  a: {{ {limiter} }}\n")
}

fn held(limits: &Limits) -> AnyLimiter {
    limits.limiter("a").expect("there")
}

fn held_keyed(limits: &Limits) -> KeyedLimiter {
    limits.keyed("a").expect("there")
}

/// Every kind there is.
fn kinds() -> Vec<String> {
    let all = [
        "kind: all, of: [other, { kind: concurrency, limit: 10 }]",
        "kind: memory, hard_limit: 100%, spike: 0%",
        "kind: cpu, threshold: 100%",
    ];
    let mut kinds: Vec<String> = [&RATES[..], &SLOTS, &all]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let keyed = RATES.iter().chain(&SLOTS[..1]);
    kinds.extend(keyed.map(|kind| format!("{kind}, keyed: true")));
    kinds
}
