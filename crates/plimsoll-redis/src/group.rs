//! The part of a decision about several limits that one script decides.

use std::sync::Arc;

use redis::Cmd;

use crate::rule::RuleKind;

/// The limits of a decision that are in one hash slot, with their script arguments.
pub(crate) struct Group {
    pub(crate) keys: Vec<Vec<u8>>,
    /// One for each key.
    pub(crate) members: Vec<Member>,
    pub(crate) kinds: Vec<RuleKind>,
    /// Whether the quick script can decide all of them.
    pub(crate) quick: bool,
    /// Whether decisions with the same arguments can be answered together: each takes something, and none has leases or borrows.
    pub(crate) in_runs: bool,
}

/// The script arguments of one limit of a decision: see `lua/many.lua`. Those of its rule are shared by all of its decisions.
pub(crate) struct Member {
    pub(crate) cost: u64,
    pub(crate) mode: String,
    pub(crate) rule: Arc<[String]>,
    /// The id of a lease, and what is undone.
    pub(crate) last: Vec<String>,
}

impl Member {
    /// All of its arguments.
    pub(crate) fn into_words(self) -> impl Iterator<Item = String> {
        let rule: Vec<String> = self.rule.to_vec();
        let first = [self.cost.to_string(), self.mode];
        first.into_iter().chain(rule).chain(self.last)
    }

    fn is_same(&self, other: &Self) -> bool {
        // Mostly shared, and then not compared.
        let rule = Arc::ptr_eq(&self.rule, &other.rule) || self.rule == other.rule;
        rule && (self.cost, &self.mode, &self.last) == (other.cost, &other.mode, &other.last)
    }

    fn count(&self) -> usize {
        2 + self.rule.len() + self.last.len()
    }

    fn write(&self, command: &mut Cmd) {
        command.arg(self.cost).arg(&self.mode);
        command.arg(&*self.rule).arg(&self.last);
    }
}

impl Group {
    /// Whether both can be answered together.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&Member, &Member)| one.is_same(other);
        self.in_runs
            && other.in_runs
            && self.keys == other.keys
            && self.members.iter().zip(&other.members).all(same)
    }

    /// Appends `count` such decisions: the number of limits, that of their arguments, the count, and the arguments.
    pub(crate) fn write(&self, count: usize, command: &mut Cmd) {
        let words: usize = self.members.iter().map(Member::count).sum();
        command.arg(self.keys.len()).arg(words).arg(count);
        self.members.iter().for_each(|member| member.write(command));
    }
}

/// Sends batches of decisions about several limits.
pub(crate) struct GroupBatches;
