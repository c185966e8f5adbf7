//! What is allowed, and surely not what was meant.

use std::time::Duration;

use plimsoll_spec::{
    Bandwidth, Kind, Limiter, Positive, SlidingLog, Step, Style, TokenBucket, below,
};

use super::Context;

/// The clock counts in these unless it is told otherwise.
const TICK: Duration = Duration::from_millis(1);

/// Notes what is odd about a limiter.
pub(super) fn odd(limiter: &Limiter, path: &[Step<'_>], context: &Context<'_>) {
    let warn = |fields: &[Step<'_>], message: String| {
        let path = [path, fields].concat();
        context.warn(context.places.value(&path, message));
    };
    let field = |name| [Step::Key(name)];
    match &limiter.kind {
        Kind::TokenBucket(bucket) => {
            if let Some(message) = refill_lost(bucket) {
                warn(&field("burst"), message);
            }
        }
        Kind::Bandwidths(buckets) => {
            let limits = &buckets.limits;
            for (index, limit) in limits.iter().enumerate() {
                let at = [Step::Key("limits"), Step::Index(index)];
                if let Some(message) = refill_lost(&limit.bucket()) {
                    warn(&below(&at, Step::Key("burst")), message);
                }
                if let Some(other) = limits.iter().position(|other| hides(other, limit)) {
                    let message = format!(
                        "this never limits anything: limits[{other}] always refuses before"
                    );
                    warn(&at, message);
                }
            }
        }
        Kind::SlidingLog(SlidingLog {
            limit,
            window,
            min_gap,
            ..
        }) => {
            let (gap, window) = (Duration::from(*min_gap), Duration::from(*window));
            // So many fit into a window if there is such a gap after each.
            if limit.0 > 1 && gap.saturating_mul(limit.0 - 1) >= window {
                let message = format!(
                    "{} in {window:?} are never reached: after each nothing is granted for {gap:?}",
                    limit.0
                );
                warn(&field("min_gap"), message);
            }
        }
        _ => {}
    }
    if let Some((name, span)) = limiter.kind.period() {
        let span = Duration::from(span);
        if span < TICK {
            let message = format!(
                "{span:?} is shorter than the clock counts: so short a time limits nothing, did you mean seconds?"
            );
            warn(&field(name), message);
        }
    }
    if let Some(queue) = &limiter.common.queue {
        let nothing = "nobody ever waits in this queue, as if there were none";
        if queue.bound == 0 {
            warn(
                &[Step::Key("queue"), Step::Key("bound")],
                nothing.to_owned(),
            );
        }
        if queue.timeout.is_some_and(|timeout| timeout.0 == 0) {
            warn(
                &[Step::Key("queue"), Step::Key("timeout")],
                nothing.to_owned(),
            );
        }
    }
}

/// Tokens that come all at once and do not fit are lost.
fn refill_lost(bucket: &TokenBucket) -> Option<String> {
    let TokenBucket {
        burst: Positive(burst),
        refill: Positive(refill),
        every,
        ..
    } = bucket;
    let every = Duration::from(*every);
    let lost = bucket.style == Style::Interval && burst < refill;
    lost.then(|| {
        format!(
            "with `style: interval` {refill} tokens come at once and {burst} fit: this is {burst} every {every:?}, \
             did you mean `style: greedy`, or `burst: {refill}`?"
        )
    })
}

/// Whether `one` refuses whenever `other` does.
fn hides(one: &Bandwidth, other: &Bandwidth) -> bool {
    let rate = |it: &Bandwidth, by: &Bandwidth| u128::from(it.refill.0) * u128::from(by.every.0);
    let slower = rate(one, other) <= rate(other, one);
    let strictly = one.burst.0 < other.burst.0 || rate(one, other) < rate(other, one);
    one.style == other.style && one.burst.0 <= other.burst.0 && slower && strictly
}
