//! The scripts, put together of the files in `lua/`.

use std::fmt;
use std::sync::{LazyLock, OnceLock};

use crate::RedisRule;
use crate::rule::Kind;

/// A script and the hash by which servers know it.
#[derive(Clone)]
pub(crate) struct Script {
    text: String,
    hash: String,
}

const EXACT: &str = include_str!("lua/exact.lua");
const TIME: &str = include_str!("lua/time.lua");
const TERMS: &str = include_str!("lua/terms.lua");
const DECIDE: &str = include_str!("lua/decide.lua");
const ASKED: &str = include_str!("lua/asked.lua");
const MANY: &str = include_str!("lua/many.lua");
const LIST: &str = include_str!("lua/list.lua");
const BATCH: &str = include_str!("lua/batch.lua");
const QUICK: &str = include_str!("lua/quick/quick.lua");
const WINDOW: &str = include_str!("lua/quick/window.lua");
const OR_NOT: &str = include_str!("lua/quick/or_not.lua");

pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[EXACT, TIME, include_str!("lua/renew.lua")]));

pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[include_str!("lua/release.lua")]));

impl Script {
    fn of(parts: &[&str]) -> Self {
        let text = parts.concat();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The script that decides lists of demands on one limit: if it is of an everyday size, the quick way first.
    pub(crate) fn batch(rule: &RedisRule) -> Self {
        let kind = rule.kind();
        let quick: &[&str] = match kind {
            _ if !rule.is_everyday() => &[],
            Kind::FixedWindow => &[
                QUICK,
                WINDOW,
                include_str!("lua/quick/fixed_window.lua"),
                OR_NOT,
            ],
            Kind::SlidingWindow => &[
                QUICK,
                WINDOW,
                include_str!("lua/quick/sliding_window.lua"),
                OR_NOT,
            ],
            Kind::SlidingCounter => &[
                QUICK,
                WINDOW,
                include_str!("lua/quick/sliding_counter.lua"),
                OR_NOT,
            ],
            Kind::TokenBucket => &[QUICK, include_str!("lua/quick/token_bucket.lua"), OR_NOT],
            Kind::Concurrency => &[QUICK, include_str!("lua/quick/concurrency.lua"), OR_NOT],
            Kind::SlidingLog => &[QUICK, include_str!("lua/quick/sliding_log.lua"), OR_NOT],
        };
        Self::of(&[LIST, &quick.concat(), &deciding([kind]), BATCH])
    }

    /// The script for everything else that one limit is asked.
    pub(crate) fn asking(kind: Kind) -> Self {
        Self::of(&[&deciding([kind]), ASKED])
    }

    /// The script that decides about several limits of these kinds at once. There is one for each set of kinds.
    pub(crate) fn many(kinds: impl Iterator<Item = Kind> + Clone) -> &'static Self {
        static SCRIPTS: [OnceLock<Script>; 1 << Kind::COUNT] =
            [const { OnceLock::new() }; 1 << Kind::COUNT];
        let set = kinds.clone().fold(0, |set, kind| set | 1 << kind as usize);
        SCRIPTS[set].get_or_init(|| Self::of(&[&deciding(kinds), MANY]))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

/// The functions that decide for limits of these kinds, and no more than they need: every call runs through all of them.
fn deciding(kinds: impl IntoIterator<Item = Kind>) -> String {
    let mut kinds: Vec<Kind> = kinds.into_iter().collect();
    // One order for the same kinds, so that servers keep one script for them.
    kinds.sort_unstable();
    kinds.dedup();
    let mut parts = vec![EXACT, TIME];
    let is_text = |kind: &Kind| !matches!(kind, Kind::SlidingLog | Kind::Concurrency);
    if kinds.iter().any(is_text) {
        parts.push(TERMS);
    }
    parts.extend(kinds.into_iter().map(|kind| match kind {
        Kind::FixedWindow => include_str!("lua/fixed_window.lua"),
        Kind::SlidingWindow => include_str!("lua/sliding_window.lua"),
        Kind::SlidingCounter => include_str!("lua/sliding_counter.lua"),
        Kind::TokenBucket => include_str!("lua/token_bucket.lua"),
        Kind::SlidingLog => include_str!("lua/sliding_log.lua"),
        Kind::Concurrency => include_str!("lua/concurrency.lua"),
    }));
    parts.push(DECIDE);
    parts.concat()
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.hash).finish()
    }
}
