//! A limit for each of a million keys.

mod asked;
pub(crate) mod child;
mod contenders;
mod floors;
mod growth;
pub(crate) mod histogram;
mod hits;
mod keys;
mod memory;
mod mixed;
mod peers;
mod returns;
mod stalls;
mod targets;

use std::fmt;
use std::time::Duration;

use self::contenders::Worth;
use self::keys::Spread::{Uniform, Zipf};
use crate::asking::Answer::{Denied, Granted};
use crate::contender::Rounds;

/// What all names of cases here begin with.
pub(crate) const KEYED: &str = "keyed";

/// How many keys, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) keys: usize,
    pub(crate) rounds: Rounds,
    /// Of those that take long.
    pub(crate) few_rounds: Rounds,
    pub(crate) span: Duration,
    /// After which a key has gone idle, where it is waited for.
    pub(crate) idle: Duration,
}

/// What came of the cases that ran.
pub(crate) struct Results {
    asked: Vec<asked::Case>,
    memory: Vec<memory::Memory>,
    stalls: Vec<stalls::Stalls>,
    returns: Vec<returns::Returns>,
    growth: Option<growth::Growth>,
}

/// Runs the cases whose name `wanted` accepts.
pub(crate) fn run(plan: &Plan, wanted: impl Fn(&str) -> bool) -> Results {
    let mut asked = Vec::new();
    if wanted("keyed-u64") {
        asked.push(hits::run::<u64>(plan, Uniform, Granted));
    }
    if wanted("keyed-strings") {
        asked.push(hits::run::<String>(plan, Uniform, Granted));
    }
    if wanted("keyed-zipf") {
        asked.push(hits::run::<u64>(plan, Zipf, Granted));
        asked.push(hits::run::<String>(plan, Zipf, Granted));
    }
    if wanted("keyed-denied") {
        asked.push(hits::run::<u64>(plan, Uniform, Denied));
    }
    if wanted("keyed-mixed") {
        asked.push(mixed::run::<u64>(plan));
        asked.push(mixed::run::<String>(plan));
    }
    let mut memory = Vec::new();
    if wanted("keyed-memory") {
        memory.push(memory::run::<u64>(plan));
        memory.push(memory::run::<String>(plan));
    }
    let mut returns = Vec::new();
    if wanted("keyed-returns") {
        returns.push(returns::run::<u64>(plan));
        returns.push(returns::run::<String>(plan));
    }
    Results {
        asked,
        memory,
        stalls: if wanted("keyed-stalls") {
            stalls::run(plan)
        } else {
            Vec::new()
        },
        returns,
        growth: wanted("keyed-growth").then(|| growth::run(plan)),
    }
}

impl Results {
    pub(crate) fn markdown(&self) -> Vec<String> {
        let asked = self.asked.iter().map(asked::Case::markdown);
        let memory = self.memory.iter().map(memory::Memory::markdown);
        let stalls = self.stalls.iter().map(stalls::Stalls::markdown);
        let returns = self.returns.iter().map(returns::Returns::markdown);
        let growth = self.growth.iter().map(growth::Growth::markdown);
        let all = asked.chain(memory).chain(stalls).chain(returns);
        all.chain(growth).collect()
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::ExactLate => "exact, late by a tick",
            Self::Loose => "not exact",
            Self::Floor => "",
        })
    }
}
