//! Checks stores, and limiters in stores.

use plimsoll_spec::scalar::nearest;
use plimsoll_spec::{
    Common, Kind, Limiter, Name, Places, Read, STORABLE, Step, Store, Url, below, keys, quote,
};

use super::Context;

/// The section of the file.
const STORES: &str = "stores";

/// Checks the stores of a file.
pub(super) fn stores(context: &Context<'_>) {
    let (file, places) = (context.file, context.places);
    if cfg!(not(feature = "redis")) && !file.stores.is_empty() {
        let message = "stores need the feature `redis` of plimsoll-engine (or plimsoll-config), and this program was built without it";
        context.note(places.name(&keys(&[STORES]), message));
        return;
    }
    for (name, store) in file.stores.iter() {
        let path = keys(&[STORES, name]);
        if !Name::is_valid(name) {
            let message = format!("expected {}, found {}", Name::WANTED, quote(name));
            context.note(places.name(&path, message));
        }
        context.check(one(store, &path, places));
    }
}

fn one(store: &Store, path: &[Step<'_>], places: &Places<'_>) -> Read<()> {
    if let Some(secret) = &store.key_secret {
        let path = below(path, Step::Key("key_secret"));
        if secret.env.is_some() == secret.file.is_some() {
            let message = "expected where the secret is: either `env` or `file`";
            return Err(places.value(&path, message));
        }
        if store.raw_keys {
            let message =
                "keys that are not digested need no secret: expected no `raw_keys` beside it";
            return Err(places.name(&path, message));
        }
    }
    match (&store.url, &store.cluster) {
        (Some(url), None) => address(url, &below(path, Step::Key("url")), places)?,
        (None, Some(nodes)) => {
            let path = below(path, Step::Key("cluster"));
            if nodes.is_empty() {
                let message = "expected the addresses of some nodes, found an empty list";
                return Err(places.value(&path, message));
            }
            for (index, node) in nodes.iter().enumerate() {
                address(node, &below(&path, Step::Index(index)), places)?;
            }
            go_together(store, &path, places)?;
        }
        (None, None) => {
            let message = "expected a `url`, or a `cluster`, found neither";
            return Err(places.value(path, message));
        }
        (Some(_), Some(_)) => {
            let message = "a store is one server or a cluster: expected no `url` beside it";
            return Err(places.name(&below(path, Step::Key("cluster")), message));
        }
    }
    Ok(())
}

/// Whether the client accepts an address.
#[cfg(feature = "redis")]
fn address(url: &Url, path: &[Step<'_>], places: &Places<'_>) -> Read<()> {
    if cfg!(not(feature = "redis-tls")) && url.address().starts_with("rediss://") {
        let message = "TLS needs the feature `redis-tls` of plimsoll-config, and this program was built without it";
        return Err(places.value(path, message));
    }
    if plimsoll_redis::Store::open(url.address()).is_ok() {
        return Ok(());
    }
    let shown = url.to_string();
    let found = quote(&Url::hidden(&shown));
    let message = format!("expected {}, found {found}", Url::WANTED);
    Err(places.value(path, message))
}

/// Whether the valid addresses of the nodes of a cluster go together.
#[cfg(feature = "redis")]
fn go_together(store: &Store, path: &[Step<'_>], places: &Places<'_>) -> Read<()> {
    if crate::redis::check(store).is_ok() {
        return Ok(());
    }
    let message = "these are not the nodes of one cluster: expected TLS with all or with none, and the same user, password and database";
    Err(places.value(path, message))
}

/// Without the client nothing is checked.
#[cfg(not(feature = "redis"))]
fn go_together(_store: &Store, _path: &[Step<'_>], _places: &Places<'_>) -> Read<()> {
    Ok(())
}

/// Without the client nothing is checked.
#[cfg(not(feature = "redis"))]
fn address(_url: &Url, _path: &[Step<'_>], _places: &Places<'_>) -> Read<()> {
    Ok(())
}

/// Checks the fields of a limiter that need a store, or need none.
pub(super) fn store_fields(
    limiter: &Limiter,
    path: &[Step<'_>],
    context: &Context<'_>,
) -> Read<()> {
    let (file, places) = (context.file, context.places);
    let (common, word) = (&limiter.common, limiter.kind.word());
    let field = |name| below(path, Step::Key(name));
    let Some(store) = &common.store else {
        let alone = |(name, what)| {
            let message = format!("only a limiter with a `store` {what}");
            Err(places.name(&field(name), message))
        };
        return needs_a_store(common, &limiter.kind).map_or(Ok(()), alone);
    };
    if !STORABLE.contains(&word) {
        let kinds = STORABLE.join(", ");
        let message = format!("`{word}` cannot be kept in a store: expected one of {kinds}");
        return Err(places.name(&field("store"), message));
    }
    if file.stores.get(&store.0).is_none() && !context.broken.has(&store.0) {
        let known: Vec<&str> = file.stores.iter().map(|(name, _)| name).collect();
        let hint = nearest(&store.0, known.iter().copied());
        let message = format!("there is no store `{store}`{hint}");
        return Err(places.value(&field("store"), message));
    }
    if common.queue.is_some() {
        let message = "a limiter in a store has no queue: it says yes or no at once";
        return Err(places.name(&field("queue"), message));
    }
    if common.max_keys.is_some() {
        let message = "a store has no bound on keys: expected no `max_keys` beside `store`";
        return Err(places.name(&field("max_keys"), message));
    }
    if common.borrow.is_some() && matches!(limiter.kind, Kind::Concurrency { .. }) {
        let message =
            format!("`{word}` cannot borrow, because its permits are returned: expected a rate");
        return Err(places.name(&field("borrow"), message));
    }
    Ok(())
}

/// A field that needs a store, and the reason.
fn needs_a_store(common: &Common, kind: &Kind) -> Option<(&'static str, &'static str)> {
    if common.outage.is_some() {
        return Some(("outage", "can be cut off from it"));
    }
    if common.borrow.is_some() {
        return Some(("borrow", "can borrow from it"));
    }
    match kind {
        Kind::Concurrency { lease: Some(_), .. } => Some(("lease", "has leases")),
        _ => None,
    }
}
