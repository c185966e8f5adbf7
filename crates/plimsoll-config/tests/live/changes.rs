//! What a live change did, as data: for every kind, with keys or without, the fields that changed, and that what was used,
//! permits and waiters are kept.

use std::pin::Pin;

use plimsoll::{Acquire, Demand, ManualClock, PerKey, Permit};
use plimsoll_config::{ChangeKind, Changes, FieldChange, FreshReason, Limits, Part, StateOutcome};

use crate::files::{self, poll, replace};

fn build(text: &str) -> Limits {
    files::build(text, &ManualClock::new())
}

/// The fields of a kind with this limit.
type Kind = fn(u64) -> String;

/// Every kind that counts, and the field that holds its limit.
const KINDS: [(&str, Kind); 12] = [
    ("limit", |n| {
        format!("kind: fixed_window, limit: {n}, window: 10s")
    }),
    ("limit", |n| {
        format!("kind: sliding_window, limit: {n}, window: 10s, segments: 4")
    }),
    ("limit", |n| {
        format!("kind: sliding_log, limit: {n}, window: 10s")
    }),
    ("limit", |n| {
        format!("kind: sliding_counter, limit: {n}, window: 10s")
    }),
    ("burst", |n| {
        format!("kind: token_bucket, burst: {n}, refill: 1, every: 10s")
    }),
    ("burst", |n| {
        format!("kind: token_bucket, burst: {n}, refill: 1, every: 10s, style: interval")
    }),
    ("limits", |n| {
        format!("kind: bandwidths, limits: [{{ id: x, burst: {n}, refill: 1, every: 10s }}]")
    }),
    ("limit", |n| {
        format!("kind: refresh, limit: {n}, period: 10s")
    }),
    ("burst", |n| {
        format!("kind: penalty_bucket, burst: {n}, refill: 1, every: 10s")
    }),
    ("limit", |n| format!("kind: concurrency, limit: {n}")),
    ("max", |n| {
        format!("kind: adaptive, algorithm: aimd, min: 1, initial: 3, max: {n}")
    }),
    ("max", |n| {
        format!("kind: adaptive, algorithm: vegas, min: 1, initial: 3, max: {n}")
    }),
];

/// Takes for a limit, with a key if it has keys.
fn take(part: &Part, cost: u64) -> Result<Permit<'static>, plimsoll::Denied> {
    match part {
        Part::Limiter(limiter) => limiter.try_acquire(cost.into()).map(Permit::into_owned),
        Part::Keyed(keyed) => keyed
            .try_acquire("anna", Demand::of(cost))
            .map(Permit::into_owned),
        other => panic!("expected a limiter: {other:?}"),
    }
}

fn wait(part: &Part, cost: u64) -> Acquire<'static> {
    match part {
        Part::Limiter(limiter) => limiter.shared().acquire_owned(cost.into()),
        Part::Keyed(keyed) => keyed.acquire_owned("anna", cost.into()),
        other => panic!("expected a limiter: {other:?}"),
    }
}

fn field(changes: &Changes, name: &str) -> FieldChange {
    let mut fields = changes.details[0].fields.iter();
    let found = fields.find(|field| field.field == name);
    found
        .cloned()
        .unwrap_or_else(|| panic!("{name}: {changes:?}"))
}

#[test]
fn every_kind_keeps_what_is_used_and_its_waiters_through_every_change_and_says_so() {
    for (limit, kind) in KINDS {
        for keyed in [false, true] {
            if keyed && limit == "max" {
                continue;
            }
            let text = |n: u64, queue: u64, keys: u64, route: &str| {
                let kind = kind(n);
                let keyed = match keyed {
                    true => format!(", key: header:x-user, max_keys: {keys}"),
                    false => String::new(),
                };
                format!(
                    "limits: {{ a: {{ {kind}, queue: {{ bound: {queue} }}{keyed} }} }}\nroutes: [{{ match: {route}, limits: [a] }}]\n"
                )
            };
            let limits = build(&text(3, 10, 50, "/a"));
            let part = limits.current().get("a").expect("there");
            let held = take(&part, 3).expect("it fits");
            let mut waiter = wait(&part, 3);
            assert!(poll(Pin::new(&mut waiter)).is_pending(), "{limit}");
            // Numbers (smaller ones, so that the waiter is not served), the queue, the bound of keys, the place in routes.
            let n = if limit == "max" { 3 } else { 4 };
            let steps = [
                (text(n, 10, 50, "/a"), limit),
                (text(n, 20, 50, "/a"), "queue"),
                (text(n, 20, 60, "/a"), "max_keys"),
                (text(n, 20, 60, "/b"), "routes"),
            ];
            for (file, changed) in steps {
                let what = format!("{}: {changed}", kind(3));
                let is_same = changed == "max_keys" && !keyed || changed == "max";
                let changes = replace(&limits, &file);
                if is_same {
                    assert!(changes.is_empty(), "{what}: {changes}");
                    continue;
                }
                let [change] = changes.details.as_slice() else {
                    panic!("{what}: {changes:?}");
                };
                assert_eq!(change.kind, ChangeKind::Changed, "{what}");
                assert_eq!(change.state, StateOutcome::Preserved, "{what}");
                assert_eq!(change.waiters, 1, "{what}");
                assert_eq!(change.in_use, Some(3), "{what}");
                let field = field(&changes, changed);
                assert!(field.from.is_some() && field.to.is_some(), "{what}");
                assert!(poll(Pin::new(&mut waiter)).is_pending(), "{what}");
                let said = change.to_string();
                assert!(said.ends_with("3 in use and 1 waiter kept"), "{said}");
            }
            drop(held);
        }
    }
}

#[test]
fn a_change_is_told_in_the_words_of_the_file() {
    let limits = build("limits: { per_user: { rate: 100/s, queue: { bound: 999 }, key: client } }");
    let part = limits.current().get("per_user").expect("there");
    let taken = take(&part, 100).expect("it fits");
    let mut waiters: Vec<_> = (0..3).map(|_| wait(&part, 100)).collect();
    assert!(
        waiters
            .iter_mut()
            .all(|waiter| poll(Pin::new(waiter)).is_pending())
    );
    drop(taken);
    let changes = replace(
        &limits,
        "limits: { per_user: { rate: 150/s, queue: { bound: 999 }, key: client } }",
    );
    assert_eq!(
        changes.to_string(),
        "per_user: 100/s → 150/s, 100 in use and 3 waiters kept"
    );
    let changes = replace(
        &limits,
        "limits: { per_user: { rate: 10/min, burst: 150, queue: { bound: 999 }, key: header:x-user, mode: shadow, cost: 2 } }",
    );
    assert_eq!(
        changes.to_string(),
        "per_user: 150/s → 10/m, key client → \"header:x-user\", burst none → 150, cost none → 2, mode none → shadow, begins anew: its keys are new ones"
    );
    let json = serde_json::to_value(&changes.details[0]).expect("JSON");
    assert_eq!(json["what"], "changed");
    assert_eq!(json["state"]["fresh"], "other_key");
    assert_eq!(json["fields"][0]["to"], "10/m");
}

#[test]
fn what_is_new_gone_back_and_of_another_kind_is_told_with_what_was_kept() {
    let limits = build("limits: { a: 10/s, b: { concurrency: 4 } }");
    let (a, b) = (
        limits.current().get("a").expect("there"),
        limits.current().get("b").expect("there"),
    );
    let held = (take(&a, 7).expect("fits"), take(&b, 3).expect("fits"));
    let said = |text: &str| replace(&limits, text).to_string();
    assert_eq!(
        said("limits: { a: { kind: fixed_window, limit: 10, window: 1s }, c: 1/s }"),
        "a: kind token_bucket → fixed_window, burst 10 → none, refill 10 → none, every 1s → none, style greedy → none, initial 10 → none, limit none → 10, window none → 1s, align none → start, 7 in use carried over\n\
         c: new\n\
         b: gone, 3 in use kept"
    );
    // It is back, with the permits that are out.
    let changes = replace(
        &limits,
        "limits: { a: { concurrency: 4 }, b: { concurrency: 4 } }",
    );
    let b = changes.details.iter().find(|it| it.limit == "b");
    let b = b.expect("it is back");
    assert_eq!(
        (b.kind, b.state),
        (ChangeKind::Added, StateOutcome::Preserved)
    );
    assert_eq!(b.in_use, Some(3));
    let a = &changes.details[0];
    assert_eq!(a.state, StateOutcome::Fresh(FreshReason::OtherKind));
    drop(held);
}

#[test]
fn routes_stores_and_answers_are_told_too_and_secrets_are_not() {
    let limits =
        build("limits: { a: 1/s }\nroutes: [{ match: /a, limits: [a] }]\nproxies: [10.0.0.0/8]");
    let changes = replace(
        &limits,
        "limits: { a: 1/s }\nroutes: [{ match: /a, methods: [GET], limits: [a] }, { match: /b, limits: [a] }]\nanswer: { status: 503 }",
    );
    let said = changes.to_string();
    assert!(said.starts_with("a: routes [/a] → [/a, /b]\n"), "{said}");
    assert!(said.contains("route /a { match: \"/a\", limits: [a], holds: true } → { match: \"/a\", methods: [GET], "), "{said}");
    assert!(said.contains("proxies [\"10.0.0.0/8\"] → none"), "{said}");
    assert!(said.contains("answer none → { status: 503 }"), "{said}");
    let nothing = replace(
        &limits,
        "limits: { a: 1/s }\nroutes: [{ match: /a, methods: [GET], limits: [a] }, { match: /b, limits: [a] }]\nanswer: { status: 503 }",
    );
    assert!(nothing.is_empty() && nothing.to_string().is_empty());
}
