//! Quotas on the admin port: `/quotas` and metrics.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::Moment;
use plimsoll_engine::{Allowance, mask};
use plimsoll_quota::{MemberView, Share};
use serde_json::{Value, json};

use super::bucket::Bucket;
use super::quotas::{BucketKey, Quotas};

/// Maximum number of buckets, and of members of each bucket, on the page.
const MOST_BUCKETS: usize = 100;
const MOST_MEMBERS: usize = 1000;

/// The buckets with the share, demand and expiry of each member. Keys are masked.
pub(crate) fn page(quotas: &Quotas) -> Value {
    let now = quotas.now();
    let table = quotas.table();
    let mut buckets: Vec<_> = table.buckets.iter().collect();
    buckets.sort_by_key(|(key, bucket)| (usize::MAX - bucket.streams(), (*key).clone()));
    let shown = buckets.iter().take(MOST_BUCKETS);
    json!({
        "streams": table.streams.len(),
        "buckets": table.buckets.len(),
        "shown": shown.map(|(key, bucket)| show(key, bucket, now)).collect::<Vec<_>>(),
    })
}

fn show((limit, key): &BucketKey, bucket: &Bucket, now: Moment) -> Value {
    let mut value = json!({
        "limit": limit,
        "key": if key.is_empty() { Value::Null } else { mask(key).into() },
        "members": bucket.streams(),
    });
    let Some(division) = &bucket.division else {
        value["rule"] = match bucket.allowance {
            Allowance::Unlimited => "allow".into(),
            _ => "deny".into(),
        };
        return value;
    };
    let view = division.view();
    let member = |it: &MemberView| {
        let stream = bucket.members.get(&it.member);
        json!({
            "stream": stream.map(|(stream, _)| stream),
            "has": share(it.share),
            "held_per_second": per_second(it.held_rate),
            "wants_per_second": it.wants.map(per_second),
            "refuses": it.denied,
            "expires_in": it.expires.map(|at| seconds(at.since(now))),
            "gone": it.left,
            "allowed": it.total.allowed,
            "denied": it.total.denied,
        })
    };
    value["per_second"] = per_second(view.rate).into();
    value["burst"] = view.burst.into();
    value["held_per_second"] = per_second(view.held_rate).into();
    value["held_burst"] = view.held_burst.into();
    value["tokens"] = view.tokens.into();
    value["learning_for"] = view.learning.map(|at| seconds(at.since(now))).into();
    value["shares"] = view.members.iter().take(MOST_MEMBERS).map(member).collect();
    value
}

fn share(share: Share) -> Value {
    match share.is_none() {
        true => Value::Null,
        false => json!({
            "tokens": share.tokens(),
            "seconds": share.interval().as_secs(),
            "burst": share.burst(),
        }),
    }
}

#[expect(clippy::cast_precision_loss, reason = "to be shown")]
fn per_second(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 10.0).round() / 10.0
}

/// Metrics in the text format of Prometheus. Labels are names of limits. `escaped` escapes the value of a label.
pub(crate) fn metrics(quotas: &Quotas, out: &mut String, escaped: impl Fn(&str) -> String) {
    let table = quotas.table();
    let mut held: std::collections::BTreeMap<&str, (usize, f64, f64)> = Default::default();
    for ((limit, _), bucket) in &table.buckets {
        let of = held.entry(limit).or_default();
        of.0 += bucket.streams();
        if let Some(division) = &bucket.division {
            let (rate, lent) = division.lent();
            of.1 += per_second(rate);
            of.2 += per_second(lent);
        }
    }
    let mut all = |name: &str, kind: &str, help: &str, rows: Vec<(String, String)>| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let of = |limit: &str| format!("{{limit=\"{}\"}}", escaped(limit));
    let one = |value: u64| vec![(String::new(), value.to_string())];
    all(
        "plimsoll_quota_streams",
        "gauge",
        "Proxies that share limits.",
        one(table.streams.len() as u64),
    );
    all(
        "plimsoll_quota_buckets",
        "gauge",
        "Limits by key that proxies share.",
        one(table.buckets.len() as u64),
    );
    all(
        "plimsoll_quota_pushes_total",
        "counter",
        "Assignments that were sent.",
        one(quotas.pushes.load(Ordering::Relaxed)),
    );
    all(
        "plimsoll_quota_unknown_total",
        "counter",
        "Reports of buckets that no limit is for, or too many.",
        one(quotas.unknown.load(Ordering::Relaxed)),
    );
    let rows = |value: &dyn Fn(&(usize, f64, f64)) -> String| {
        held.iter()
            .map(|(limit, it)| (of(limit), value(it)))
            .collect::<Vec<_>>()
    };
    all(
        "plimsoll_quota_members",
        "gauge",
        "Shares that proxies have of a limit.",
        rows(&|it| it.0.to_string()),
    );
    all(
        "plimsoll_quota_rate",
        "gauge",
        "Requests per second that are divided, of all keys.",
        rows(&|it| it.1.to_string()),
    );
    all(
        "plimsoll_quota_held_rate",
        "gauge",
        "Requests per second that proxies may hold.",
        rows(&|it| it.2.to_string()),
    );
    let mut totals: Vec<_> = table.totals.iter().collect();
    totals.sort();
    let rows = |value: &dyn Fn(&(u64, u64)) -> u64| {
        totals
            .iter()
            .map(|(limit, it)| (of(limit), value(it).to_string()))
            .collect::<Vec<_>>()
    };
    all(
        "plimsoll_quota_allowed_total",
        "counter",
        "Requests that proxies let through.",
        rows(&|it| it.0),
    );
    all(
        "plimsoll_quota_denied_total",
        "counter",
        "Requests that proxies refused.",
        rows(&|it| it.1),
    );
}
