use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Response;
use plimsoll_policy::{OpCode, Policies, Policy};

use super::policies::{PolicyLayer, Provided};
use super::refusal::refusal;
use crate::Head;

/// The number of the next declaration. Numbers count down from that of handlers without a declaration.
static NEXT: AtomicU32 = AtomicU32::new(u32::MAX - 1);

/// The limit that a handler declares: a rate and a burst for each address, under a name.
///
/// Every declaration is an operation of its own, with a number counted down from the largest. Numbers that you assign
/// in [`PoliciesBuilder::handler`](plimsoll_policy::PoliciesBuilder::handler), should count up from the smallest.
///
/// ```
/// use axum::{Router, routing::post};
/// use plimsoll_tower::declare::{Declaration, LimitHandlers};
///
/// let logins = Declaration::per_second("logins", 1.0, 5.0);
/// let app: Router = Router::new().route("/login", post(|| async {}).limited_by(logins));
/// # let _ = app;
/// ```
pub struct Declaration {
    name: &'static str,
    policy: Option<Policy>,
    op: OnceLock<OpCode>,
    /// The policies for a router without any.
    alone: OnceLock<Arc<Provided>>,
}

impl Declaration {
    /// Declares a policy under this name, which refusals and metrics have.
    #[must_use]
    pub const fn new(name: &'static str, policy: Policy) -> Self {
        Self {
            name,
            policy: Some(policy),
            op: OnceLock::new(),
            alone: OnceLock::new(),
        }
    }

    /// Limits each address to `rps` requests per second with bursts of `burst`, under this name. The numbers are
    /// rounded up as in a [`Policy`].
    #[must_use]
    pub const fn per_second(name: &'static str, rps: f64, burst: f64) -> Self {
        Self::new(name, Policy::per_second(rps).burst(burst))
    }

    /// The declaration of an operation whose policy was declared with the policies.
    pub(super) fn operation(op: OpCode) -> Self {
        Self {
            name: "operation",
            policy: None,
            op: OnceLock::from(op),
            alone: OnceLock::new(),
        }
    }

    /// Admits a request, or returns the response that refuses it.
    pub(super) fn admit(&self, head: &Head<'_>) -> Result<(), Box<Response<Bytes>>> {
        let provided = head.extensions().get::<Arc<Provided>>();
        let provided = provided.unwrap_or_else(|| self.alone());
        let client = provided.client(head);
        let op = *self
            .op
            .get_or_init(|| OpCode(NEXT.fetch_sub(1, Ordering::Relaxed)));
        let decision = match self.policy {
            Some(policy) => provided.policies().evaluate_by(policy, op, client),
            None => provided.policies().evaluate(op, client),
        };
        match refusal(decision, self.name, client) {
            None => Ok(()),
            Some(denied) => Err(Box::new(provided.answer(head, denied))),
        }
    }

    /// Policies for this declaration only.
    fn alone(&self) -> &Arc<Provided> {
        self.alone
            .get_or_init(|| match Policies::builder().build() {
                Ok(policies) => PolicyLayer::new(policies).provided(),
                Err(_) => unreachable!("the usual settings go together"),
            })
    }
}

impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declaration")
            .field("name", &self.name)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
