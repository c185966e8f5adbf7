//! Applies the prepared changes of a reload. Nothing can fail here.

use std::sync::Arc;

use super::binding::{Binding, Past};
use super::build::Running;
use super::gates::{Live, Member};
use super::in_place::Prepared;
use super::version::Version;
use crate::Config;
use crate::check::Definition;

/// The prepared changes of a reload, in the order of the definitions: the members of an `all` come before it, so that none of
/// them is still removed when callers reach the `all`.
#[derive(Default)]
pub(super) struct Work(Vec<Prepared>);

impl Work {
    /// Changes a limiter in place.
    pub(super) fn change(&mut self, prepared: Prepared) {
        self.0.push(prepared);
    }

    /// Makes `next` the version of the binding of `live`.
    pub(super) fn replace(&mut self, old: &Live, live: &Live, next: Arc<Version>) {
        let binding = Arc::clone(&live.binding);
        let old = Past {
            version: old.binding.latest(),
            change: Arc::clone(&old.change),
            definition: old.definition.clone(),
        };
        let change = Arc::clone(&live.change);
        let name = live.definition.name().to_owned();
        self.0.push(Box::new(move || {
            binding.replace((old, &next, &*change), &name);
        }));
    }

    /// Reopens a binding that the file has again.
    pub(super) fn restore(&mut self, binding: &Arc<Binding>) {
        let binding = Arc::clone(binding);
        self.0.push(Box::new(move || binding.restore()));
    }

    pub(super) fn run(self) {
        for step in self.0 {
            step();
        }
    }
}

/// The members of an `all`, and whether each is in a store.
pub(super) fn members(to: &Definition, running: &Running, config: &Config) -> Vec<Member> {
    let members = to.members.iter();
    let member = |id: &String| {
        let stored = config.definition(id).is_some_and(|member| member.stored);
        Some((Arc::clone(&running.get(id)?.binding), stored))
    };
    members.filter_map(member).collect()
}
