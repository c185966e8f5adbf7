//! Reads limiters and algorithms, without the fields that scenarios do not support.

use plimsoll_spec::{
    Bandwidth, Bandwidths, Kind, Limiter, Member, Node, Path, Places, Read, Step, Units, below,
    read_one,
};

use crate::spec::{AlgorithmSpec, LimiterSpec};

/// The fields of limiters in stores.
pub(crate) const OF_STORES: [&str; 4] = ["store", "outage", "borrow", "lease"];

/// Reads one limiter, with its members if it is `all`.
pub(crate) fn limiter(node: &Node) -> Read<LimiterSpec> {
    let mut spec: Limiter = read_one(node, Units::OrNanos)?;
    spec.common.keyed |= spec.kind.is_by_key();
    check(&spec, &Vec::new(), &Places::of(node))?;
    let node = node.clone();
    Ok(LimiterSpec { node, spec })
}

/// Reads the algorithm of a trace.
pub(crate) fn algorithm(node: &Node) -> Read<AlgorithmSpec> {
    Ok(AlgorithmSpec {
        node: node.clone(),
        spec: read_one(node, Units::OrNanos)?,
    })
}

/// Reads the bodies of `bandwidths` for the verb `replace`.
pub(crate) fn bandwidths(node: &Node) -> Read<Kind> {
    let limits: Vec<Bandwidth> = read_one(node, Units::OrNanos)?;
    not_empty(&limits, "a list of bandwidths", &[], &Places::of(node))?;
    Ok(Kind::Bandwidths(Bandwidths::new(limits)))
}

fn check(limiter: &Limiter, path: &Path<'_>, places: &Places<'_>) -> Read<()> {
    let field = |name| below(path, Step::Key(name));
    for name in OF_STORES {
        if places.has(&field(name)) {
            let message = "a scenario has no stores: the same limiter runs in memory and in Redis";
            return Err(places.name(&field(name), message));
        }
    }
    let penalty = matches!(limiter.kind, Kind::PenaltyBucket(_));
    if limiter.common.max_keys.is_some() && !limiter.common.keyed && !penalty {
        let message = "only a limiter with `keyed: true` has keys";
        return Err(places.name(&field("max_keys"), message));
    }
    match &limiter.kind {
        Kind::Bandwidths(buckets) => {
            let path = field("limits");
            not_empty(&buckets.limits, "a list of bandwidths", &path, places)
        }
        Kind::All { of } => {
            not_empty(of, "a list of limiters", &field("of"), places)?;
            of.iter().enumerate().try_for_each(|(index, member)| {
                let path = below(&field("of"), Step::Index(index));
                match member {
                    Member::Inline(limiter) => check(limiter, &path, places),
                    Member::Name(name) => {
                        let message =
                            format!("expected a limiter: a map with a `kind`, found \"{name}\"");
                        Err(places.value(&path, message))
                    }
                }
            })
        }
        _ => Ok(()),
    }
}

fn not_empty<T>(items: &[T], what: &str, path: &[Step<'_>], places: &Places<'_>) -> Read<()> {
    if items.is_empty() {
        let message = format!("expected {what}, found an empty list");
        return Err(places.value(path, message));
    }
    Ok(())
}
