//! Letting tasks run without letting time pass.

/// Lets every task that can run do so. For runtimes of one thread, and tasks that wait for nothing outside of it.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
