//! Logging of policies, with the feature `tracing`. Without it these functions do nothing.
//!
//! | event | level |
//! |---|---|
//! | a packet without an address | warn |
//! | a lockout that begins | warn |
//! | a sweep that removed something | debug |
//! | a summary, when the policies are closed | info |
//! | a packet of an operation without a policy | trace |

use std::time::Duration;

use crate::decision::{Decision, whole_millis};
use crate::subject::{OpCode, Remote};

#[cfg(feature = "tracing")]
macro_rules! log {
    ($level:ident, $message:literal $(, $name:ident = $value:expr)*) => {
        tracing::$level!(target: "plimsoll::policy", $($name = $value,)* $message)
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! log {
    ($level:ident, $message:literal $(, $name:ident = $value:expr)*) => {{
        $(let _ = || $value;)*
    }};
}

/// A packet without an address, which is refused.
pub(crate) fn unknown_address(op: OpCode) {
    log!(warn, "a packet without an address", op = op.0);
}

/// A packet of an operation without a policy.
#[inline]
pub(crate) fn missing_policy(op: OpCode, remote: Remote, fallback: bool) {
    log!(
        trace,
        "no policy",
        op = op.0,
        remote = remote.to_string(),
        fallback = fallback
    );
}

/// A refusal. It is logged only if it begins a lockout, which then lasts for `lockout`.
pub(crate) fn refused(op: OpCode, remote: Remote, decision: Decision, lockout: Duration) {
    let begins = decision.reason() == Some(plimsoll::Reason::LockedOut)
        && decision.retry_after_ms() == whole_millis(lockout);
    if begins {
        log!(
            warn,
            "lockout",
            op = op.0,
            remote = remote.to_string(),
            retry_after_ms = decision.retry_after_ms()
        );
    }
}

/// A sweep.
pub(crate) fn swept(policies: usize, subjects: usize) {
    if policies > 0 {
        log!(debug, "swept", policies = policies, subjects = subjects);
    }
}

/// The policies were closed.
pub(crate) fn closed(policies: usize, subjects: usize, evaluations: u64) {
    log!(
        info,
        "closed",
        policies = policies,
        subjects = subjects,
        evaluations = evaluations
    );
}
