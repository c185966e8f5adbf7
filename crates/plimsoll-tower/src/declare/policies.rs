use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use plimsoll::{Denied, Grant, Moment, Permit, Reason, Standing};
use plimsoll_policy::{OpCode, Policies};
use std::net::IpAddr;
use tower_layer::Layer;
use tower_service::Service;

use super::refusal::refusal;
use crate::answer::Class;
use crate::endpoint::look;
use crate::http::{Answers, Ask, Asked, Granted, Subject, Take};
use crate::keys::{Forwarded, Missing, TrustedProxies};
use crate::{Head, HttpLimit, HttpLimitLayer, KeyFrom, RequestLimit};

/// The layer that limits handlers without a declaration by the fallback. See [`PolicyLayer::answer`].
pub type FallbackLayer = HttpLimitLayer<RequestLimit<Policies, ByPolicy>>;

/// A layer that provides [`Policies`] to the handlers that declare limits, and limits all other handlers by the fallback.
///
/// [`LimitRoutes::policies`](super::LimitRoutes::policies) applies it to all routes of a router.
///
/// ```
/// use plimsoll_policy::Policies;
/// use plimsoll_tower::declare::PolicyLayer;
/// use plimsoll_tower::keys::TrustedProxies;
///
/// let policies = Policies::builder().ipv6_prefix(64).build()?;
/// let layer = PolicyLayer::new(policies)
///     .behind(TrustedProxies::parse(["192.0.2.0/28"])?)
///     .answer(|layer| layer.problem(false));
/// # let _ = layer;
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct PolicyLayer {
    policies: Policies,
    client: Forwarded,
    layer: FallbackLayer,
    /// The settings for the responses of declarations, if any were set.
    answers: Option<Answers>,
}

impl PolicyLayer {
    /// Creates a layer with these policies, which count by the address of the [peer](crate::keys::Peer).
    pub fn new(policies: Policies) -> Self {
        let client = Forwarded::x_forwarded_for(TrustedProxies::none());
        let subject = ByPolicy {
            client: client.clone(),
            is_declared: false,
        };
        let limit = RequestLimit::with_subject(policies.clone(), subject);
        Self {
            policies,
            client,
            layer: HttpLimitLayer::new(limit),
            answers: None,
        }
    }

    /// Trusts these proxies to report the client's address: in `X-Forwarded-For`, or in the field that a [`Forwarded`] reads.
    pub fn behind(self, proxies: impl Into<Forwarded>) -> Self {
        self.client(proxies.into())
    }

    /// Sets how the client's address is found. The policies set how many bits of it count.
    pub fn client(mut self, client: Forwarded) -> Self {
        self.client = client.clone();
        self.layer = self
            .layer
            .map_limits(|limit| limit.map_subject(|subject| ByPolicy { client, ..subject }));
        self
    }

    /// Changes how refusals are answered and observed: those of the fallback, and those of all declarations behind this layer.
    ///
    /// ```
    /// use plimsoll_policy::Policies;
    /// use plimsoll_tower::declare::PolicyLayer;
    ///
    /// let layer = PolicyLayer::new(Policies::builder().build()?)
    ///     .answer(|layer| layer.on_refused(|request, denied| eprintln!("{}: {denied}", request.uri())));
    /// # let _ = layer;
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub fn answer(mut self, set: impl FnOnce(FallbackLayer) -> FallbackLayer) -> Self {
        self.layer = set(self.layer);
        self.answers = Some(self.layer.answers());
        self
    }

    pub(super) fn provided(&self) -> Arc<Provided> {
        Arc::new(Provided(self.clone()))
    }
}

/// The same as [`PolicyLayer::new`].
impl From<Policies> for PolicyLayer {
    fn from(policies: Policies) -> Self {
        Self::new(policies)
    }
}

impl<S: Clone> Layer<S> for PolicyLayer {
    type Service = PolicyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let is_declared = look(&inner).limited;
        let layer = self.layer.clone().map_limits(|limit| {
            limit.map_subject(|subject| ByPolicy {
                is_declared,
                ..subject
            })
        });
        PolicyService {
            inner: layer.layer(inner),
            provided: self.provided(),
        }
    }
}

/// The policies in the extensions of a request, for declarations.
#[derive(Debug)]
pub(super) struct Provided(PolicyLayer);

impl Provided {
    pub(super) fn policies(&self) -> &Policies {
        &self.0.policies
    }

    pub(super) fn client(&self, head: &Head<'_>) -> Option<IpAddr> {
        self.0.client.client(head)
    }

    pub(super) fn answer(&self, head: &Head<'_>, denied: Denied) -> Response<Bytes> {
        self.0.layer.answer(head, denied)
    }
}

/// A service with handlers that are limited by policies. [`PolicyLayer`] makes one.
#[derive(Clone)]
pub struct PolicyService<S> {
    inner: HttpLimit<S, RequestLimit<Policies, ByPolicy>>,
    provided: Arc<Provided>,
}

impl<S, B> Service<Request<B>> for PolicyService<S>
where
    HttpLimit<S, RequestLimit<Policies, ByPolicy>>: Service<Request<B>>,
{
    type Response =
        <HttpLimit<S, RequestLimit<Policies, ByPolicy>> as Service<Request<B>>>::Response;
    type Error = <HttpLimit<S, RequestLimit<Policies, ByPolicy>> as Service<Request<B>>>::Error;
    type Future = <HttpLimit<S, RequestLimit<Policies, ByPolicy>> as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let extensions = request.extensions_mut();
        extensions.insert(Arc::clone(&self.provided));
        if let Some(answers) = &self.provided.0.answers {
            extensions.insert(answers.clone());
        }
        self.inner.call(request)
    }
}

impl<S: fmt::Debug> fmt::Debug for PolicyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyService")
            .field("inner", self.inner.inner())
            .finish_non_exhaustive()
    }
}

/// Requests to handlers without a declaration count by their address.
#[derive(Clone, Debug)]
pub struct ByPolicy {
    client: Forwarded,
    is_declared: bool,
}

impl ByPolicy {
    /// The remedy if the program does not record addresses.
    fn missing_in_program(&self, head: &Head<'_>) -> Option<&'static str> {
        match self.client.missing(head) {
            Missing::InProgram(remedy) => Some(remedy),
            Missing::InRequest => None,
        }
    }
}

impl Subject<Policies> for ByPolicy {
    type Key = ();

    fn ask(
        &self,
        policies: &Policies,
        head: &Head<'_>,
        take: Option<Take>,
        held: &mut Granted<()>,
    ) -> Ask {
        let Some(Take { demand, .. }) = take.filter(|_| !self.is_declared) else {
            return Ask::Pass;
        };
        let client = self.client.client(head);
        let decision = policies.evaluate(UNDECLARED, client);
        if let Some(denied) = refusal(decision, FALLBACK, client) {
            return Ask::Refused(denied);
        }
        held.permit = Some(Permit::spent(Grant::of(demand.cost(1))));
        Ask::Pass
    }

    fn asked<'a>(&self, _policies: &'a Policies, _key: Option<&'a ()>) -> Asked<'a> {
        // Policies have no queue.
        Asked::Nothing
    }

    fn class(&self, head: &Head<'_>, denied: &Denied) -> Class {
        match denied.reason() {
            Reason::NoKey if self.missing_in_program(head).is_some() => Class::Misconfigured,
            _ => Class::of(denied),
        }
    }

    fn missing(&self, head: &Head<'_>) -> Option<&'static str> {
        self.missing_in_program(head)
    }

    fn standing(&self, _policies: &Policies, _key: Option<&()>) -> Option<Standing> {
        None
    }

    fn promise(&self, _policies: &Policies) -> Standing {
        Standing::default()
    }

    fn now(&self, _policies: &Policies) -> Moment {
        // Policies have no queue.
        Moment::ORIGIN
    }

    fn name<'l>(&self, _policies: &'l Policies) -> Option<&'l str> {
        Some(FALLBACK)
    }
}

const FALLBACK: &str = "fallback";

/// The operation of all handlers without a declaration. Declarations count down from here.
const UNDECLARED: OpCode = OpCode(u32::MAX);
