//! `docs/howto/model-tokens.md`.

use crate::server::{client, serve, status};

#[path = "../../examples/model_tokens.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod model_tokens;

#[tokio::test]
async fn what_was_not_used_is_returned() {
    let at = serve(model_tokens::app()).await;
    let client = client();
    let ask = async |key: &'static str, words: usize| {
        let question = "word ".repeat(words);
        let request = client.post(format!("http://{at}/v1/complete"));
        status(request.header("x-api-key", key).body(question)).await
    };
    // Each reserves 500 of 1000, and uses three.
    for _ in 0..10 {
        assert_eq!(ask("anna", 3).await, 200);
    }
    assert_eq!(ask("bob", 450).await, 200);
    assert_eq!(ask("bob", 500).await, 200);
    assert_eq!(ask("bob", 1).await, 429, "500 cannot be reserved");
    assert_eq!(ask("anna", 3).await, 200);
}
