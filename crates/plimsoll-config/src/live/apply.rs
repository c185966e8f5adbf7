//! What is done once nothing can fail any more.

use std::sync::Arc;

use plimsoll_spec::Queue;

use super::build::Running;
use super::change::{Change, Prepared};
use super::gates::{Live, Member, without_bound};
use super::generation::Generation;
use super::slot::{Past, Slot};
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
    pub(super) restored: Vec<Arc<Slot>>,
}

struct Replaced {
    slot: Arc<Slot>,
    old: Past,
    name: String,
    next: Arc<Generation>,
    change: Arc<dyn Change>,
    /// Where those who wait are moved to.
    queues: Vec<(Arc<dyn Change>, Option<Queue>)>,
}

impl Work {
    /// Puts `next` behind the name of `live`.
    pub(super) fn replace(
        &mut self,
        old: &Live,
        live: &Live,
        next: Arc<Generation>,
        running: &Running,
    ) {
        let mut queues = Vec::new();
        queues_behind(live, running, &mut queues);
        self.replaced.push(Replaced {
            slot: Arc::clone(&live.slot),
            old: Past {
                generation: old.slot.latest(),
                change: Arc::clone(&old.change),
                definition: old.definition.clone(),
            },
            name: live.definition.name().to_owned(),
            next,
            change: Arc::clone(&live.change),
            queues,
        });
    }

    pub(super) fn run(self) {
        for change in self.changed {
            change();
        }
        for Replaced {
            slot,
            old,
            name,
            next,
            change,
            queues,
        } in self.replaced
        {
            let lift = || {
                for (change, queue) in &queues {
                    change.set_queue(Some(without_bound(queue.as_ref())));
                }
            };
            let settle = || {
                for (change, queue) in &queues {
                    change.set_queue(queue.as_ref().map(Queue::build));
                }
            };
            slot.replace((old, &next, &*change), &name, lift, settle);
        }
        for slot in self.restored {
            slot.restore();
        }
    }
}

/// The queues in which those wait who ask a limiter.
fn queues_behind(
    live: &Live,
    running: &Running,
    found: &mut Vec<(Arc<dyn Change>, Option<Queue>)>,
) {
    for member in live
        .definition
        .members
        .iter()
        .filter_map(|id| running.get(id))
    {
        queues_behind(member, running, found);
    }
    let queue = live.definition.limiter.common.queue.clone();
    found.push((Arc::clone(&live.change), queue));
}

/// The members of `all`, and whether each is kept in a store.
pub(super) fn members(to: &Definition, running: &Running, config: &Config) -> Vec<Member> {
    let members = to.members.iter();
    let member = |id: &String| {
        let stored = config.definition(id).is_some_and(|member| member.stored);
        Some((Arc::clone(&running.get(id)?.slot), stored))
    };
    members.filter_map(member).collect()
}
