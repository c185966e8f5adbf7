//! The Lua scripts, assembled from the files in `lua/`.

use std::fmt;
use std::sync::{LazyLock, OnceLock};

use crate::RedisRule;
use crate::rule::RuleKind;

/// A script and its SHA-1, for `EVALSHA`.
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
const DECISIONS: &str = include_str!("lua/decisions.lua");
const LIST: &str = include_str!("lua/list.lua");
const BATCH: &str = include_str!("lua/batch.lua");
const QUICK: &str = include_str!("lua/quick/quick.lua");
const ANSWER: &str = include_str!("lua/quick/answer.lua");
const WINDOW: &str = include_str!("lua/quick/window.lua");
const OR_NOT: &str = include_str!("lua/quick/or_not.lua");
const QUICK_MANY: &str = include_str!("lua/quick/many.lua");
const MANY_OR_NOT: &str = include_str!("lua/quick/many_or_not.lua");

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

    /// The script for batches of demands on one limit. If the rule allows it, the quick functions run first.
    pub(crate) fn batch(rule: &RedisRule) -> Self {
        let kind = rule.kind();
        let window = if has_windows(kind) { WINDOW } else { "" };
        let quick: &[&str] = if rule.is_quick() {
            &[QUICK, ANSWER, window, quick(kind), OR_NOT]
        } else {
            &[]
        };
        Self::of(&[LIST, &quick.concat(), &deciding([kind]), BATCH])
    }

    /// The script for all other operations on one limit.
    pub(crate) fn asking(kind: RuleKind) -> Self {
        Self::of(&[&deciding([kind]), ASKED])
    }

    /// The script that decides about several limits of these kinds. There is one for each set of kinds. If all rules
    /// allow it, the quick functions run first.
    pub(crate) fn many(kinds: impl Iterator<Item = RuleKind>, quick: bool) -> &'static Self {
        static SCRIPTS: [OnceLock<Script>; 2 << RuleKind::COUNT] =
            [const { OnceLock::new() }; 2 << RuleKind::COUNT];
        let set = kinds.fold(0, |set, kind| set | 1 << kind as usize);
        let place = set << 1 | usize::from(quick);
        SCRIPTS[place].get_or_init(|| {
            let kinds = RuleKind::ALL.into_iter();
            let kinds = kinds.filter(|kind| set & 1 << *kind as usize != 0);
            let quick = if quick {
                quick_many(kinds.clone())
            } else {
                String::new()
            };
            Self::of(&[DECISIONS, &quick, &deciding(kinds), MANY])
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

fn has_windows(kind: RuleKind) -> bool {
    matches!(
        kind,
        RuleKind::FixedWindow | RuleKind::SlidingWindow | RuleKind::SlidingCounter
    )
}

/// The quick functions of one kind.
fn quick(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::FixedWindow => include_str!("lua/quick/fixed_window.lua"),
        RuleKind::SlidingWindow => include_str!("lua/quick/sliding_window.lua"),
        RuleKind::SlidingCounter => include_str!("lua/quick/sliding_counter.lua"),
        RuleKind::TokenBucket => include_str!("lua/quick/token_bucket.lua"),
        RuleKind::SlidingLog => include_str!("lua/quick/sliding_log.lua"),
        RuleKind::Concurrency => include_str!("lua/quick/concurrency.lua"),
    }
}

/// The quick functions of several kinds, each wrapped as a function of its arguments.
fn quick_many(kinds: impl Iterator<Item = RuleKind>) -> String {
    let mut text = [
        "local out, size = {}, 1\n",
        QUICK,
        QUICK_MANY,
        ANSWER,
        WINDOW,
    ]
    .concat();
    for kind in kinds {
        let letter = char::from(kind.letter());
        text += &format!("quicks.{letter} = function(argv)\n");
        text += quick(kind);
        text += "return quick\nend\n";
    }
    text + MANY_OR_NOT
}

/// The functions for these kinds only: Redis executes all definitions on each call.
fn deciding(kinds: impl IntoIterator<Item = RuleKind>) -> String {
    let kinds: Vec<RuleKind> = kinds.into_iter().collect();
    let mut parts = vec![EXACT, TIME];
    let is_text = |kind: &RuleKind| !matches!(kind, RuleKind::SlidingLog | RuleKind::Concurrency);
    if kinds.iter().any(is_text) {
        parts.push(TERMS);
    }
    parts.extend(kinds.into_iter().map(|kind| match kind {
        RuleKind::FixedWindow => include_str!("lua/fixed_window.lua"),
        RuleKind::SlidingWindow => include_str!("lua/sliding_window.lua"),
        RuleKind::SlidingCounter => include_str!("lua/sliding_counter.lua"),
        RuleKind::TokenBucket => include_str!("lua/token_bucket.lua"),
        RuleKind::SlidingLog => include_str!("lua/sliding_log.lua"),
        RuleKind::Concurrency => include_str!("lua/concurrency.lua"),
    }));
    parts.push(DECIDE);
    parts.concat()
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.hash).finish()
    }
}
