//! Waiting for somebody else to notice something.

use std::future::Future;
use std::time::Duration;

/// How long anything may take before a test is given up.
const GUARD: Duration = Duration::from_secs(30);

/// Lets everybody else run until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let look = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(GUARD, look).await;
    assert!(in_time.is_ok(), "{what}");
}

/// What must come to an end.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    let in_time = tokio::time::timeout(GUARD, future).await;
    in_time.expect("it takes too long")
}
