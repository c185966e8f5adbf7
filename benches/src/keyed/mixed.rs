//! Keys that come and go: four times as many as there is room for, each forgotten soon after it was asked for.
//!
//! Who does not forget by itself is tidied by whoever asked it as often as there is room for keys; the time counts, and
//! so every trial is a whole number of such turns.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use super::Plan;
use super::asked::{Asked, Case, Walk, in_turns, together};
use super::contenders::{self, Limit, Limiter};
use super::keys::{Key, Spread, sequence};
use crate::asking::{Count, now, undisturbed};

/// How many keys are watched in each round.
const WATCHED: u64 = 100;

pub(super) fn run<K: Key>(plan: &Plan) -> Case {
    let ids = plan.keys * 4;
    let keys = Rc::new(sequence::<K>(Spread::Uniform, ids, K::SEQUENCE));
    let (room, span) = (plan.keys, plan.span * 5);
    // With room for a million a key is as good as new 20 ms after it was asked for once: ten million a second leave
    // 200,000 that are not.
    let limit = Limit {
        burst: 20,
        every: Duration::from_nanos(20 * room as u64),
        max_keys: room,
        keys: room,
    };
    let rows = in_turns(contenders::limiters::<K>(), &plan.few_rounds, |entrant| {
        let (name, make, made) = (entrant.name, entrant.make, OnceCell::new());
        let keys = Rc::clone(&keys);
        let next_watched = Cell::new(ids as u64);
        move || {
            let limiter = &**made.get_or_init(|| make(&limit));
            let ask = |limiter: &dyn Limiter<K>, walk: &mut Walk<'_, K>, span| {
                ask(limiter, walk, room as u64, span)
            };
            let trial = |threads| {
                undisturbed(2, threads, || {
                    let count = together(limiter, &keys, threads, span, ask);
                    let refused = count.asked - count.granted;
                    if refused > 0 {
                        eprintln!("{name}: {refused} of {} refused", count.asked);
                    }
                    (refused == 0).then(|| count.nanos())
                })
            };
            let (one, two) = (trial(1), trial(2));
            let watched = next_watched.get()..next_watched.get() + WATCHED;
            next_watched.set(watched.end);
            let (reset, looked_at) = resets(limiter, &keys, &limit, watched);
            Asked {
                one,
                two,
                reset,
                looked_at,
            }
        }
    });
    let kind = K::KIND;
    let title = format!("Keyed, {kind}, uniform, {ids} keys that come and go, room for {room}");
    Case {
        title,
        wanted: [0.6; 2],
        rows,
    }
}

fn ask<K>(limiter: &dyn Limiter<K>, keys: &mut Walk<'_, K>, turn: u64, span: Duration) -> Count {
    let start = now();
    let (mut asked, mut granted, mut since) = (0, 0, 0);
    loop {
        let batch = keys.batch();
        granted += limiter.ask_all(batch);
        asked += batch.len() as u64;
        since += batch.len() as u64;
        let turns = limiter.needs_tidying();
        if turns && since >= turn {
            limiter.tidy();
            since = 0;
        }
        let end = now();
        if end - start >= span && (since == 0 || !turns) {
            return Count {
                asked,
                granted,
                start,
                end,
            };
        }
    }
}

/// Takes all of some keys' buckets, lets others come and go, and asks again for all. Who grants that before it can be
/// back has reset a limit. Returns how many did, of how many that were asked in time.
fn resets<K: Key>(
    limiter: &dyn Limiter<K>,
    keys: &[K],
    limit: &Limit,
    watched: Range<u64>,
) -> (u64, u64) {
    let start = now();
    let watched = watched.map(K::of);
    let drained: Vec<K> = watched
        .filter(|key| limiter.take(key, limit.burst))
        .collect();
    let mut others = Walk::new(keys, 0);
    while now() - start < limit.every * limit.burst / 3 {
        limiter.ask_all(others.batch());
    }
    limiter.tidy();
    let (mut reset, mut looked_at) = (0, 0);
    for key in &drained {
        let granted = limiter.take(key, limit.burst);
        if now() - start < limit.every * (limit.burst - 1) {
            looked_at += 1;
            reset += u64::from(granted);
        }
    }
    (reset, looked_at)
}
