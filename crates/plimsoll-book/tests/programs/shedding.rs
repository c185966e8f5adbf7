//! `docs/howto/load-shedding.md`.

use crate::server::{client, get, serve};

#[path = "../../examples/adaptive_shedding.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod adaptive_shedding;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_and_the_rest_is_answered() {
    let at = serve(adaptive_shedding::app().expect("the limit is right")).await;
    let client = client();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let request = get(&client, at, "/work/500");
        all.spawn(async move { request.send().await.expect("an answer") });
    }
    let (mut done, mut refused) = (0, 0);
    while let Some(answer) = all.join_next().await {
        let answer = answer.expect("no task panics");
        match answer.status().as_u16() {
            200 => done += 1,
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    let limit = get(&client, at, "/limit").send().await.expect("an answer");
    let limit = limit.text().await.expect("a text");
    assert!(limit.trim().parse::<u64>().is_ok(), "{limit}");
}
