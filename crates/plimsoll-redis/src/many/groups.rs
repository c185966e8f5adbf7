//! Decisions about several limits that share scripts: see [`lanes`](crate::lanes).

use redis::Value;

use crate::StoreError;
use crate::answer::Answer;
use crate::group::{Group, Groups};
use crate::lanes::Work;
use crate::script::Script;
use crate::store::Store;

impl Work for Groups {
    type Demand = Group;
    type Reply = Answer;
    type Way = Store;

    fn keys(group: &Group) -> &[Vec<u8>] {
        &group.keys
    }

    async fn send(
        &self,
        store: &Store,
        groups: Vec<Group>,
    ) -> Result<Vec<Result<Answer, StoreError>>, StoreError> {
        let keys: Vec<&[u8]> = groups
            .iter()
            .flat_map(|it| &it.keys)
            .map(|key| &key[..])
            .collect();
        let kinds = groups.iter().flat_map(|group| group.kinds.iter().copied());
        let script = Script::many(kinds, groups.iter().all(|group| group.everyday));
        let now = store.now();
        let answer = store
            .evaluate(script, &keys, |command| {
                command.arg("take").arg(&now).arg("");
                for group in &groups {
                    command.arg(group.keys.len()).arg(group.words.len());
                    command.arg(&group.words);
                }
            })
            .await?;
        let Value::Array(answers) = answer else {
            return Err(StoreError::bad_reply(&answer));
        };
        store.health().decided(keys.len());
        Ok(answers.into_iter().map(Answer::of_group).collect())
    }
}
