//! What is done once nothing can fail any more.

use std::sync::Arc;

use super::binding::{Binding, Past};
use super::build::Running;
use super::change::{Change, Prepared};
use super::gates::{Live, Member};
use super::version::Version;
use crate::Config;
use crate::check::Definition;

/// Everything that a new configuration changes, in order.
#[derive(Default)]
pub(super) struct Work {
    /// Limiters that are changed where they are.
    pub(super) changed: Vec<Prepared>,
    /// Names behind which another limiter comes to stand.
    replaced: Vec<Replaced>,
    /// Names that the file knows again.
    pub(super) restored: Vec<Arc<Binding>>,
}

struct Replaced {
    binding: Arc<Binding>,
    old: Past,
    name: String,
    next: Arc<Version>,
    change: Arc<dyn Change>,
}

impl Work {
    /// Puts `next` behind the name of `live`.
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

/// The members of `all`, and whether each is kept in a store.
pub(super) fn members(to: &Definition, running: &Running, config: &Config) -> Vec<Member> {
    let members = to.members.iter();
    let member = |id: &String| {
        let stored = config.definition(id).is_some_and(|member| member.stored);
        Some((Arc::clone(&running.get(id)?.binding), stored))
    };
    members.filter_map(member).collect()
}
