//! What operators see of a layer: metrics and events.

mod counted;
#[cfg(feature = "metrics")]
mod metered;

pub(crate) use counted::{Counted, log_misconfigured};
#[cfg(feature = "metrics")]
pub use metered::MeteredLimits;
