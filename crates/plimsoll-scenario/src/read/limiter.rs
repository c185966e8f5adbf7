//! Reads limiters and their queues.

use std::time::Duration;

use super::fields::{Fields, each};
use super::scalar::{Bare, count, flag, positive, rate, text, word};
use super::{algorithm, duration, period};
use crate::error::Read;
use crate::spec::{Align, Bandwidth, Counts, Full, Kind, LimiterSpec, Order, QueueSpec, Style};
use crate::tree::Node;

/// A kind: its word, its own fields, how they are read.
type KindRow = (
    &'static str,
    &'static [&'static str],
    fn(&Fields<'_>) -> Read<Kind>,
);

const COMMON: [&str; 5] = ["kind", "queue", "keyed", "max_keys", "name"];
const BUCKET: [&str; 5] = ["burst", "refill", "every", "style", "initial"];
const PENALTY: [&str; 7] = [
    "burst",
    "refill",
    "every",
    "initial",
    "soft_limit",
    "soft_window",
    "lockout",
];
const SECOND: Duration = Duration::from_secs(1);

const KINDS: [KindRow; 13] = [
    ("fixed_window", &["limit", "window", "align"], fixed_window),
    (
        "sliding_window",
        &["limit", "window", "segments"],
        sliding_window,
    ),
    (
        "sliding_log",
        &["limit", "window", "min_gap", "count_denied"],
        sliding_log,
    ),
    ("sliding_counter", &["limit", "window"], sliding_counter),
    ("token_bucket", &BUCKET, |fields| {
        bucket(fields).map(Kind::TokenBucket)
    }),
    ("bandwidths", &["limits"], |fields| {
        fields.required("limits", bandwidths).map(Kind::Bandwidths)
    }),
    ("smooth_bursty", &["rate", "max_burst"], smooth_bursty),
    (
        "smooth_warmup",
        &["rate", "warmup", "cold_factor"],
        smooth_warmup,
    ),
    ("refresh", &["limit", "period", "max_wait"], refresh),
    ("concurrency", &["limit"], |fields| {
        Ok(Kind::Concurrency {
            limit: fields.required("limit", positive)?,
        })
    }),
    ("adaptive", &[], |fields| {
        algorithm::adaptive(fields, Bare::Nanos).map(Kind::Adaptive)
    }),
    ("penalty_bucket", &PENALTY, penalty_bucket),
    ("all", &["of"], |fields| {
        Ok(Kind::All(fields.required("of", |of| {
            each(of, "a list of limiters", limiter)
        })?))
    }),
];

/// Reads one limiter, with its members if it is `all`.
pub(crate) fn limiter(node: &Node) -> Read<LimiterSpec> {
    let fields = Fields::any(node, "a limiter: a map with a `kind`")?;
    let words = KINDS.map(|row| (row.0, row));
    let (word, own, read) = fields.required("kind", |kind| super::scalar::word(kind, &words))?;
    let what = format!("the limiter `{word}`");
    let own = if word == "adaptive" {
        algorithm::adaptive_fields(&fields)?
    } else {
        own.to_vec()
    };
    fields.only(&what, &[COMMON.as_slice(), &own].concat())?;

    let keyed = fields.optional("keyed", flag)?.unwrap_or(false);
    let max_keys = fields.optional("max_keys", positive)?;
    if max_keys.is_some() && !keyed && word != "penalty_bucket" {
        return Err(fields.problem("max_keys", "only a limiter with `keyed: true` has keys"));
    }
    Ok(LimiterSpec {
        place: fields.place,
        kind: read(&fields)?,
        queue: fields.optional("queue", |node| queue(node, Bare::Nanos))?,
        keyed,
        max_keys,
        name: fields.optional("name", text)?,
    })
}

fn fixed_window(fields: &Fields<'_>) -> Read<Kind> {
    let align = |node: &Node| word(node, &[("start", Align::Start), ("epoch", Align::Epoch)]);
    Ok(Kind::FixedWindow {
        limit: fields.required("limit", positive)?,
        window: fields.required("window", period)?,
        align: fields.optional("align", align)?.unwrap_or(Align::Start),
    })
}

fn sliding_window(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::SlidingWindow {
        limit: fields.required("limit", positive)?,
        window: fields.required("window", period)?,
        segments: fields.required("segments", positive)?,
    })
}

fn sliding_log(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::SlidingLog {
        limit: fields.required("limit", positive)?,
        window: fields.required("window", period)?,
        min_gap: fields.optional("min_gap", duration)?.unwrap_or_default(),
        count_denied: fields.optional("count_denied", flag)?.unwrap_or(false),
    })
}

fn sliding_counter(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::SlidingCounter {
        limit: fields.required("limit", positive)?,
        window: fields.required("window", period)?,
    })
}

fn smooth_bursty(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::SmoothBursty {
        rate: fields.required("rate", rate)?,
        max_burst: fields.optional("max_burst", duration)?.unwrap_or(SECOND),
    })
}

fn smooth_warmup(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::SmoothWarmup {
        rate: fields.required("rate", rate)?,
        warmup: fields.required("warmup", duration)?,
        cold_factor: fields.optional("cold_factor", rate)?.unwrap_or(3.0),
    })
}

fn refresh(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::Refresh {
        limit: fields.required("limit", positive)?,
        period: fields.required("period", period)?,
        max_wait: fields.optional("max_wait", duration)?.unwrap_or_default(),
    })
}

fn penalty_bucket(fields: &Fields<'_>) -> Read<Kind> {
    Ok(Kind::PenaltyBucket {
        bucket: Bandwidth {
            burst: fields.required("burst", positive)?,
            refill: fields.required("refill", positive)?,
            every: fields.optional("every", period)?.unwrap_or(SECOND),
            style: Style::Greedy,
            initial: fields.optional("initial", count)?,
            id: None,
        },
        soft_limit: fields.optional("soft_limit", positive)?.unwrap_or(3),
        soft_window: fields
            .optional("soft_window", duration)?
            .unwrap_or(5 * SECOND),
        lockout: fields.optional("lockout", duration)?.unwrap_or_default(),
    })
}

fn bucket(fields: &Fields<'_>) -> Read<Bandwidth> {
    let style = |node: &Node| {
        word(
            node,
            &[("interval", Style::Interval), ("greedy", Style::Greedy)],
        )
    };
    Ok(Bandwidth {
        burst: fields.required("burst", positive)?,
        refill: fields.required("refill", positive)?,
        every: fields.required("every", period)?,
        style: fields.optional("style", style)?.unwrap_or(Style::Greedy),
        initial: fields.optional("initial", count)?,
        id: fields.optional("id", text)?,
    })
}

/// Reads the bodies of `bandwidths`, also those of the verb `replace`.
pub(crate) fn bandwidths(node: &Node) -> Read<Vec<Bandwidth>> {
    let known = [BUCKET.as_slice(), &["id"]].concat();
    each(node, "a list of bandwidths", |item| {
        bucket(&Fields::of(item, "a bandwidth", &known)?)
    })
}

/// Reads the queue of a limiter.
pub(crate) fn queue(node: &Node, bare: Bare) -> Read<QueueSpec> {
    let fields = Fields::any(node, "a queue such as { bound: 10 }")?;
    fields.only("a queue", &["bound", "order", "full", "counts", "timeout"])?;
    let order = |node: &Node| word(node, &[("fifo", Order::Fifo), ("lifo", Order::Lifo)]);
    let full = [
        ("incoming", Full::Incoming),
        ("oldest", Full::Oldest),
        ("newest", Full::Newest),
    ];
    let counts = |node: &Node| {
        word(
            node,
            &[("excess", Counts::Excess), ("waiting", Counts::Waiting)],
        )
    };
    Ok(QueueSpec {
        bound: fields.required("bound", count)?,
        order: fields.optional("order", order)?.unwrap_or(Order::Fifo),
        full: fields.optional("full", |node| word(node, &full))?,
        counts: fields.optional("counts", counts)?.unwrap_or(Counts::Excess),
        timeout: fields.optional("timeout", |node| bare.duration(node))?,
    })
}
