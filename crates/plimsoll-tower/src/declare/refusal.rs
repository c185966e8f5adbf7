use std::net::IpAddr;

use plimsoll::{Denied, Moment, Reason};
use plimsoll_policy::{Closed, Decision};

/// The refusal of a decision about a request from `client`; `None` if it is allowed.
pub(super) fn refusal(
    decision: Result<Decision, Closed>,
    name: &str,
    client: Option<IpAddr>,
) -> Option<Denied> {
    let Ok(decision) = decision else {
        return Some(Denied::new(Reason::Closed).with_limiter(name));
    };
    // Policies throttle a packet without an address. For an HTTP client that would mean that it has asked too often.
    if client.is_none() && decision.reason() == Some(Reason::SoftThrottle) {
        return Some(Denied::new(Reason::NoKey).with_limiter(name));
    }
    let after = u64::from(decision.retry_after_ms()).saturating_mul(1_000_000);
    Some(
        Denied::new(decision.reason()?)
            .with_limit(0, decision.credit().into())
            .with_ready_at(Moment::ORIGIN, Some(Moment::from_nanos(after)))
            .with_limiter(name),
    )
}
