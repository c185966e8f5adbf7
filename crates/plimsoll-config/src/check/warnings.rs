//! Warnings: settings that are valid but probably not intended.

use std::collections::HashSet;
use std::time::Duration;

use plimsoll_spec::{
    Bandwidth, Kind, Limiter, Member, Positive, SlidingLog, Step, Style, TokenBucket, below, keys,
};

use super::Context;
use crate::route::RouteSpec;
use crate::spec::Limit;
use crate::uses::{CostSpec, Tier};

/// The resolution of the default clock.
const TICK: Duration = Duration::from_millis(1);

/// Adds the warnings about a limiter.
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
            // The number that fits into a window with such a gap after each.
            if limit.0 > 1
                && gap.as_nanos().saturating_mul((limit.0 - 1).into()) >= window.as_nanos()
            {
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
        let has = |name| context.places.has(&below(path, Step::Key(name)));
        // In a short form the field has another name, or is missing.
        let at = [name, "rate"].into_iter().find(|name| has(name));
        let at: Vec<Step<'_>> = at.into_iter().map(Step::Key).collect();
        let span = Duration::from(span);
        if span < TICK {
            let message = format!(
                "{span:?} is shorter than the clock counts: so short a time limits nothing, did you mean seconds?"
            );
            warn(&at, message);
        }
    }
    if let Some(queue) = &limiter.common.queue {
        let nothing = "no request ever waits in this queue: it has no effect";
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

/// Adds the warnings about how requests use a limit.
pub(super) fn odd_use(limit: &Limit, path: &[Step<'_>], context: &Context<'_>) {
    let Limit { uses, limiter } = limit;
    let places = context.places;
    let cost = match uses.cost {
        CostSpec::Fixed(cost) => cost,
        CostSpec::Estimated { default, .. } => default,
        _ => 1,
    };
    let never = |kind: &Kind| {
        // An adaptive limit may be larger later.
        if matches!(kind, Kind::Adaptive(_)) {
            return None;
        }
        let most = kind.most()?;
        (most < cost).then(|| {
            format!("no request ever fits: it costs {cost}, and at most {most} are granted at once")
        })
    };
    if let Some(message) = never(&limiter.kind) {
        context.warn(places.value(&below(path, Step::Key("cost")), message));
    }
    for (field, name, tier) in uses.tiers() {
        let Tier::Limit(tier) = tier else { continue };
        let path = [path, &[Step::Key(field), Step::Key(name)]].concat();
        if tier.kind == limiter.kind {
            let message = "this is the same limit, so it has no effect";
            context.warn(places.value(&path, message));
        } else if let Some(message) = never(&tier.kind) {
            context.warn(places.value(&path, message));
        }
    }
}

/// Warns of limits that no route uses, if there are routes.
pub(super) fn unused(routes: &[RouteSpec], context: &Context<'_>) {
    let file = context.file;
    if routes.is_empty() {
        return;
    }
    let asked = routes
        .iter()
        .flat_map(|route| route.limits.iter().chain(&route.bytes));
    let mut used: HashSet<&str> = asked.map(String::as_str).collect();
    // A limiter with a name may be used by the program.
    let providers = file
        .providers
        .iter()
        .flat_map(|(_, provider)| provider.0.iter());
    let provided = providers.flat_map(|(_, words)| words.as_slice());
    let listed = file.middleware.iter().flat_map(|(_, names)| names);
    used.extend(provided.chain(listed).map(|name| name.0.as_str()));
    for (_, _, limit) in file.all() {
        members(&limit.limiter, &mut used);
    }
    for (section, name, _) in file.all() {
        if !used.contains(name) {
            context.warn(
                context
                    .places
                    .name(&keys(&[section, name]), "no route uses this limit"),
            );
        }
    }
}

fn members<'a>(limiter: &'a Limiter, used: &mut HashSet<&'a str>) {
    let Kind::All { of } = &limiter.kind else {
        return;
    };
    for member in of {
        match member {
            Member::Name(name) => _ = used.insert(&name.0),
            Member::Inline(limiter) => members(limiter, used),
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
