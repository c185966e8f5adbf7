//! Decisions about several limits that share scripts: see [`lanes`](crate::lanes).

use plimsoll::Moment;
use redis::Value;

use crate::StoreError;
use crate::answer::{Answer, Decided};
use crate::group::{Alone, Group, Groups, Replied};
use crate::lanes::{Waiter, Work};
use crate::script::Script;
use crate::store::Store;

impl Work for Groups {
    type Demand = Group;
    type Reply = Replied;
    type Way = Store;

    fn keys(group: &Group) -> &[Vec<u8>] {
        &group.keys
    }

    /// Where each is about one limit those of one key come together, so that they are runs.
    fn arrange(waiters: &mut [Waiter<Self>]) {
        if waiters.iter().all(|waiter| waiter.demand.keys.len() == 1) {
            waiters.sort_by(|one, other| one.demand.keys.cmp(&other.demand.keys));
        }
    }

    async fn send(
        &self,
        store: &Store,
        groups: Vec<Group>,
    ) -> Result<Vec<Result<Replied, StoreError>>, StoreError> {
        let runs = || groups.chunk_by(Group::is_same);
        let keys: Vec<&[u8]> = runs()
            .flat_map(|run| &run[0].keys)
            .map(|key| &key[..])
            .collect();
        let kinds = groups.iter().flat_map(|group| group.kinds.iter().copied());
        let script = Script::many(kinds, groups.iter().all(|group| group.everyday));
        let now = store.now();
        let answer = store
            .evaluate(script, &keys, |command| {
                command.arg("take").arg(&now).arg("");
                for run in runs() {
                    run[0].write(run.len(), command);
                }
            })
            .await?;
        let Value::Array(answers) = answer else {
            return Err(StoreError::bad_reply(&answer));
        };
        let decided = groups.iter().map(|group| group.keys.len()).sum();
        store.health().decided(decided);
        let mut answers = answers.into_iter();
        let mut replies = Vec::with_capacity(groups.len());
        for run in runs() {
            let answer = Answer::of_group(answers.next().unwrap_or(Value::Nil));
            match (run, &run[0].alone) {
                ([_, _, ..], Some(alone)) => replies.extend(each_of_run(answer, alone, run.len())),
                _ => replies.push(answer.map(Replied::Each)),
            }
        }
        Ok(replies)
    }
}

/// The answers to so many decisions in a row that are the same.
fn each_of_run(
    answer: Result<Answer, StoreError>,
    alone: &Alone,
    count: usize,
) -> impl Iterator<Item = Result<Replied, StoreError>> + use<> {
    let mut answer = answer.and_then(|mut answer| answer.number::<u8>().map(|_| answer));
    let (limit, cost) = (alone.limit, alone.cost);
    let mut last = Moment::ORIGIN;
    (0..count).map(move |_| {
        let answer = answer.as_mut().map_err(|error| error.clone())?;
        let decided = answer.decided_of_list(limit, cost, last)?;
        if let Decided::Granted(_, taken) = &decided {
            last = *taken;
        }
        Ok(Replied::One(decided))
    })
}
