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
        let keys = || groups.iter().flat_map(|group| &group.keys);
        let names: Vec<&[u8]> = keys().map(Vec::as_slice).collect();
        let kinds = groups.iter().flat_map(|group| group.kinds.iter().copied());
        let script = Script::many(kinds, groups.iter().all(|group| group.quick));
        let now = store.now();
        let answer = store
            .evaluate(script, &names, |command| {
                command.arg("take").arg(&now).arg("");
                groups.iter().for_each(|group| group.write(command));
            })
            .await?;
        let Value::Array(answers) = answer else {
            return Err(StoreError::bad_reply(&answer));
        };
        store.health().decided(names.len());
        let mut answers = answers.into_iter();
        let answer = |_: &Group| Answer::of_group(answers.next().unwrap_or(Value::Nil));
        Ok(groups.iter().map(answer).collect())
    }
}
