//! Builds limits in Redis from their descriptions. Nothing connects here.

use plimsoll::Clock;
use plimsoll_redis::{Borrow, FleetBuilder, Outage, RedisRule, Store, StoreBuilder, StoreError};
use plimsoll_spec::{self as spec, Always, InvalidSpec, Kind, Limiter, Step};

/// The store of a description. It uses the clock of its server, unless `clock` is a manual clock.
pub(crate) fn open(spec: &spec::Store, clock: &Clock) -> Result<Store, String> {
    let secret = spec
        .key_secret
        .as_ref()
        .map(spec::Secret::read)
        .transpose()?;
    let store = match clock.is_manual() {
        true => builder(spec).clock(clock.clone()),
        false => builder(spec),
    };
    let store = match secret {
        Some(secret) => store.key_secret(secret),
        None if spec.raw_keys => store.raw_keys(),
        None => store,
    };
    store.open().map_err(|error| error.to_string())
}

/// Whether the addresses of a store can be used together. Nothing secret is read.
pub(crate) fn check(spec: &spec::Store) -> Result<(), StoreError> {
    builder(spec).open().map(drop)
}

fn builder(spec: &spec::Store) -> StoreBuilder {
    let store = match (&spec.url, &spec.cluster) {
        (Some(url), _) => Store::builder(url.address()),
        (None, nodes) => Store::cluster(nodes.iter().flatten().map(spec::Url::address)),
    };
    let store = store.namespace(&spec.namespace);
    store.deadline(spec.deadline.into())
}

/// Builds a limiter in `store`, of a kind that Redis can hold. The error names the invalid field.
pub(crate) fn fleet(
    limiter: &Limiter,
    name: &str,
    store: &Store,
) -> Result<FleetBuilder, InvalidSpec> {
    let (common, rule) = (&limiter.common, rule(&limiter.kind)?);
    let fleet = store.limiter(name, rule)?.fleet();
    let fleet = match &common.outage {
        Some(outage) => fleet.outage(outage_of(*outage)),
        None => fleet,
    };
    let fleet = match &common.borrow {
        Some(borrow) => fleet.borrowing(borrow_of(borrow)),
        None => fleet,
    };
    match fleet.clone().build() {
        Ok(_) => Ok(fleet),
        Err(invalid) => Err(match invalid.field() {
            "keep" => InvalidSpec::from(invalid).under(Step::Key("borrow")),
            "borrow" => invalid.into(),
            // The rule itself is valid, so the error is in its share.
            _ => InvalidSpec::of("local", invalid).under(Step::Key("outage")),
        }),
    }
}

fn rule(kind: &Kind) -> Result<RedisRule, InvalidSpec> {
    let none = || plimsoll::InvalidLimit::new("kind", kind.word(), "one that Redis can hold");
    RedisRule::described(kind).unwrap_or_else(|| Err(none().into()))
}

pub(crate) fn outage_of(outage: spec::Outage) -> Outage {
    match outage {
        spec::Outage::Word(Always::Admit) => Outage::Admit,
        spec::Outage::Word(Always::Deny) => Outage::Deny,
        spec::Outage::Local(share) => Outage::Local {
            share: share.local.0,
        },
    }
}

pub(crate) fn borrow_of(spec: &spec::Borrow) -> Borrow {
    let borrow = Borrow::new().target(spec.target.into());
    let borrow = borrow.keep(spec.keep.into());
    let borrow = borrow.max_keys(usize::try_from(spec.max_keys.0).unwrap_or(usize::MAX));
    match spec.max {
        Some(max) => borrow.max(max.0),
        None => borrow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Format};
    use plimsoll_spec::STORABLE;

    #[test]
    fn a_store_keeps_the_kinds_that_redis_can_hold() {
        for (fields, word) in [
            ("limit: 1, window: 1s", "fixed_window"),
            ("limit: 1, window: 1s, segments: 2", "sliding_window"),
            ("limit: 1, window: 1s", "sliding_log"),
            ("limit: 1, window: 1s", "sliding_counter"),
            ("burst: 1, refill: 1, every: 1s", "token_bucket"),
            ("limits: [{ burst: 1, refill: 1, every: 1s }]", "bandwidths"),
            ("limit: 1", "concurrency"),
            ("rate: 1", "smooth_bursty"),
            ("rate: 1, warmup: 1s", "smooth_warmup"),
            ("limit: 1, period: 1s", "refresh"),
            ("burst: 1, refill: 1", "penalty_bucket"),
            ("algorithm: vegas", "adaptive"),
            ("threshold: 50%", "cpu"),
        ] {
            let text = format!("limiters: {{ a: {{ kind: {word}, {fields} }} }}");
            let config = Config::from_str("a.yaml", &text, Format::Yaml);
            let config = config.unwrap_or_else(|error| panic!("{error}"));
            let kind = &config.spec.limit("a").expect("there").limiter.kind;
            assert_eq!(rule(kind).is_ok(), STORABLE.contains(&word), "{word}");
        }
    }
}
