use std::sync::OnceLock;

use tokio::runtime::Handle;

/// The runtime on which tasks run in the background.
#[derive(Default, Debug)]
pub(crate) struct Background(OnceLock<Handle>);

impl Background {
    /// The runtime of the caller, or else that of the first call.
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

    /// Runs a task in the background, and says whether there is a runtime for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let handle = self.handle();
        handle.map(|handle| handle.spawn(task)).is_some()
    }
}
