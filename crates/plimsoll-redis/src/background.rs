use std::sync::OnceLock;

use tokio::runtime::Handle;

/// The tokio runtime for background tasks.
#[derive(Default, Debug)]
pub(crate) struct Background(OnceLock<Handle>);

impl Background {
    /// The runtime of the caller, or otherwise the runtime of the first call.
    pub(crate) fn handle(&self) -> Option<Handle> {
        match Handle::try_current() {
            Ok(handle) => {
                if self.0.get().is_none() {
                    let _ = self.0.set(handle.clone());
                }
                Some(handle)
            }
            Err(_) => self.0.get().cloned(),
        }
    }

    /// Spawns a task. Returns `false` if there is no runtime.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let handle = self.handle();
        handle.map(|handle| handle.spawn(task)).is_some()
    }
}
