//! Applies the prepared changes of a reload. Nothing can fail here.

use std::sync::Arc;

use super::binding::{Binding, Past};
use super::build::Running;
use super::gates::{Live, Member};
use super::in_place::{ChangeInPlace, Prepared};
use super::version::Version;
use crate::Config;
use crate::check::Definition;

/// The prepared changes of a reload, in order.
#[derive(Default)]
pub(super) struct Work {
    /// Limiters that are changed in place.
    pub(super) changed: Vec<Prepared>,
    /// Bindings that get another version.
    replaced: Vec<Replaced>,
    /// Bindings that the file has again.
    pub(super) restored: Vec<Arc<Binding>>,
}

struct Replaced {
    binding: Arc<Binding>,
    old: Past,
    name: String,
    next: Arc<Version>,
    change: Arc<dyn ChangeInPlace>,
}

impl Work {
    /// Makes `next` the version of the binding of `live`.
    pub(super) fn replace(&mut self, old: &Live, live: &Live, next: Arc<Version>) {
        self.replaced.push(Replaced {
            binding: Arc::clone(&live.binding),
            old: Past {
                version: old.binding.latest(),
                change: Arc::clone(&old.change),
                definition: old.definition.clone(),
            },
            name: live.definition.name().to_owned(),
            next,
            change: Arc::clone(&live.change),
        });
    }

    pub(super) fn run(self) {
        for change in self.changed {
            change();
        }
        for it in self.replaced {
            it.binding
                .replace((it.old, &it.next, &*it.change), &it.name);
        }
        for binding in self.restored {
            binding.restore();
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
