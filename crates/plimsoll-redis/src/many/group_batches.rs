//! Batches of decisions about several limits: see [`batcher`](crate::batcher).

use redis::Value;

use crate::StoreError;
use crate::answer::Answer;
use crate::batcher::BatchedWork;
use crate::group::{Group, GroupBatches};
use crate::script::Script;
use crate::store::Store;

impl BatchedWork for GroupBatches {
    type Demand = Group;
    type Reply = Answer;
    type Transport = Store;

    fn keys(group: &Group) -> &[Vec<u8>] {
        &group.keys
    }

    async fn send(
        &self,
        store: &Store,
        groups: Vec<Group>,
    ) -> Result<Vec<Result<Answer, StoreError>>, StoreError> {
        let runs: Vec<&[Group]> = groups.chunk_by(Group::is_same).collect();
        let keys = runs.iter().flat_map(|run| &run[0].keys);
        let names: Vec<&[u8]> = keys.map(Vec::as_slice).collect();
        let kinds = groups.iter().flat_map(|group| group.kinds.iter().copied());
        let script = Script::many(kinds, groups.iter().all(|group| group.quick));
        let now = store.now();
        let answer = store
            .evaluate(script, &names, |command| {
                command.arg("take").arg(&now).arg("");
                runs.iter().for_each(|run| run[0].write(run.len(), command));
            })
            .await?;
        let Value::Array(parts) = answer else {
            return Err(StoreError::bad_reply(&answer));
        };
        let decided = groups.iter().map(|group| group.keys.len());
        store.health().decided(decided.sum());
        let mut answers = Vec::with_capacity(groups.len());
        let mut parts = parts.into_iter();
        while answers.len() < groups.len() {
            // The number of decisions that the next part answers.
            let count = match parts.next() {
                Some(Value::Int(count)) => u64::try_from(count).unwrap_or(0),
                _ => 0,
            };
            let missing = groups.len() - answers.len();
            if count == 0 || count > missing as u64 {
                return Err(StoreError::bad_reply(&Value::Nil));
            }
            answers.extend(Answer::of_groups(parts.next().unwrap_or(Value::Nil), count));
        }
        Ok(answers)
    }
}
