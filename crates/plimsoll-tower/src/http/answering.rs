//! The content of responses: refusals, and the remaining units.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use plimsoll::{Denied, Moment, Standing};

use super::limits::Limits;
use crate::Head;
use crate::answer::{
    Class, Fields, LimitStatus, PROBLEM_JSON, Policy, grpc_refusal, is_grpc, problem, retry_after,
    retry_seconds,
};
use crate::refusals::{RefusalLog, log_misconfigured};

/// The refusal of a request, in the extensions of the response that answers it.
///
/// Outer layers read it to return the permits of the request; your own middleware can read it, for instance to log refusals.
///
/// ```
/// use http::Response;
/// use plimsoll_tower::Refused;
///
/// fn log<B>(response: &Response<B>) {
///     if let Some(Refused(denied)) = response.extensions().get() {
///         println!("{} by {}", denied.reason(), denied.limiter().unwrap_or("a limit"));
///     }
/// }
/// ```
///
/// A handler that refuses a request by itself can insert it too, so that outer layers treat the response as a refusal:
///
/// ```
/// use http::{Response, StatusCode};
/// use plimsoll::Denied;
/// use plimsoll_tower::{Refused, answer::Class};
///
/// fn refuse(denied: Denied) -> Response<()> {
///     let mut response = Response::new(());
///     *response.status_mut() = Class::of(&denied).status();
///     response.extensions_mut().insert(Refused(denied));
///     response
/// }
/// # let _ = refuse;
/// ```
#[derive(Clone, Debug)]
pub struct Refused(pub Denied);

/// Which responses carry the header fields that describe limits. See [`HttpLimitLayer::send_fields`].
///
/// Fields in all responses let clients slow down before they are refused, and cost some hundred bytes per response.
///
/// [`HttpLimitLayer::send_fields`]: crate::HttpLimitLayer::send_fields
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum SendFields {
    /// No response.
    Never,
    /// Refusals only.
    #[default]
    OnRefusal,
    /// All responses.
    Always,
}

/// A user's own response.
pub(super) type Respond = Arc<dyn Fn(&Head<'_>, &Denied) -> Response<Bytes> + Send + Sync>;
/// Called when something happens.
pub(super) type OnRefused = Arc<dyn Fn(&Head<'_>, &Denied) + Send + Sync>;
pub(super) type OnAdmitted = Arc<dyn Fn(&Head<'_>) + Send + Sync>;

/// The settings for responses.
#[derive(Clone)]
pub(super) struct Answering {
    pub(super) fields: Fields,
    pub(super) send_fields: SendFields,
    pub(super) retry_after: bool,
    /// The `Retry-After` of refusals without a known time to retry.
    pub(super) retry_full_after: Option<Duration>,
    pub(super) problem: bool,
    pub(super) respond: Option<Respond>,
    pub(super) on_refused: Option<OnRefused>,
    pub(super) on_admitted: Option<OnAdmitted>,
    pub(super) log: RefusalLog,
    /// The parts of the fields that are the same in all responses.
    pub(super) policy: Arc<OnceLock<Policy>>,
    /// Whether the settings of an outer layer apply, if there is one.
    pub(super) inherits: bool,
    /// Whether the missing configuration was logged.
    logged: Arc<Once>,
}

impl Default for Answering {
    fn default() -> Self {
        Self {
            fields: Fields::STANDARD,
            send_fields: SendFields::OnRefusal,
            retry_after: true,
            retry_full_after: None,
            problem: true,
            respond: None,
            on_refused: None,
            on_admitted: None,
            log: RefusalLog::default(),
            policy: Arc::default(),
            inherits: false,
            logged: Arc::new(Once::new()),
        }
    }
}

/// In the extensions of a request: the settings for responses that inner layers inherit.
#[derive(Clone)]
pub(crate) struct Answers(pub(super) Arc<Answering>);

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers(..)")
    }
}

impl Answering {
    /// The settings that apply to this request.
    pub(super) fn for_request<'a>(&'a self, head: &Head<'a>) -> &'a Self {
        let outer = self.inherits.then(|| head.extensions().get::<Answers>());
        outer.flatten().map_or(self, |Answers(outer)| outer)
    }

    /// Writes the fields of limits that have admitted a request.
    pub(super) fn describe<L: Limits>(&self, limits: &L, held: &L::Held, headers: &mut HeaderMap) {
        if !L::TELLS_SEVERAL {
            limits.describe(held, &mut |status| {
                self.fields.write_one(headers, &status, &self.policy);
            });
            return;
        }
        let mut few: [Option<LimitStatus<'_>>; 4] = [None; 4];
        let mut many = Vec::new();
        let mut count = 0;
        limits.describe(held, &mut |status| {
            match few.get_mut(count) {
                Some(place) => *place = Some(status),
                None => many.push(status),
            }
            count += 1;
        });
        // Up to four are stored inline.
        match (few, many.is_empty()) {
            ([None, ..], _) => {}
            ([Some(a), None, ..], _) => self.fields.write_one(headers, &a, &self.policy),
            ([Some(a), Some(b), None, _], _) => self.fields.write(headers, &[a, b]),
            ([Some(a), Some(b), Some(c), None], _) => self.fields.write(headers, &[a, b, c]),
            ([Some(a), Some(b), Some(c), Some(d)], true) => {
                self.fields.write(headers, &[a, b, c, d]);
            }
            (few, false) => {
                let all: Vec<_> = few.into_iter().flatten().chain(many).collect();
                self.fields.write(headers, &all);
            }
        }
    }

    /// The response to a request that the limit with this index refuses.
    pub(super) fn refuse<L: Limits>(
        &self,
        limits: &L,
        index: usize,
        head: &Head<'_>,
        denied: Denied,
    ) -> Response<Bytes> {
        self.log.record(&denied);
        if let Some(hook) = &self.on_refused {
            hook(head, &denied);
        }
        let standing = Standing::new(denied.limit(), denied.remaining())
            .more_after(denied.retry_after())
            .reset(denied.reset());
        let statuses = [limits.refused_status(index, &denied, standing)];
        let class = limits.at(index).class(head, &denied);
        let shown = self.when_full(class, &denied);
        let seconds = retry_seconds(&shown, &statuses);
        let missing = (class == Class::Misconfigured).then(|| limits.at(index).missing(head));
        let remedy = missing.flatten();
        self.misconfigured(remedy);
        let own = match &self.respond {
            Some(respond) => Some(respond(head, &denied)),
            None => limits.respond(head, &denied, class),
        };
        let (mut response, content_type) = match own {
            Some(own) => (own, None),
            None => self.usual(head, class, &shown, seconds, remedy),
        };
        let headers = response.headers_mut();
        // A refusal without a limit describes nothing.
        let described = self.send_fields != SendFields::Never && denied.limit() > 0;
        let [status] = &statuses;
        let status = described.then_some(status);
        let seconds = seconds.filter(|_| self.retry_after);
        if let Some(content_type) = content_type {
            let (fields, policy) = (self.fields, &self.policy);
            fields.write_refusal(headers, content_type, status, seconds, policy);
        } else {
            if let Some(status) = status {
                self.fields.write_one(headers, status, &self.policy);
            }
            if let Some(seconds) = seconds
                && !headers.contains_key(header::RETRY_AFTER)
            {
                retry_after(headers, seconds);
            }
        }
        response.extensions_mut().insert(Refused(denied));
        response
    }

    /// A refusal with the set time to retry, if its own is unknown.
    fn when_full<'d>(&self, class: Class, denied: &'d Denied) -> Cow<'d, Denied> {
        let is_full = matches!(class, Class::Capacity | Class::Quota);
        match self.retry_full_after {
            Some(wait) if is_full && denied.retry_after().is_none() => {
                let now = Moment::ORIGIN;
                let shown = denied.clone().with_ready_at(now, Some(now.plus(wait)));
                Cow::Owned(shown)
            }
            _ => Cow::Borrowed(denied),
        }
    }

    /// Logs once how to fix the program, because every request is refused.
    #[cold]
    pub(super) fn misconfigured(&self, remedy: Option<&'static str>) {
        if let Some(remedy) = remedy {
            self.logged.call_once(|| log_misconfigured(remedy));
        }
    }

    /// The response to a refusal, and its content type, which is not written yet, unless it is one for gRPC.
    fn usual(
        &self,
        head: &Head<'_>,
        class: Class,
        denied: &Denied,
        seconds: Option<u64>,
        remedy: Option<&'static str>,
    ) -> (Response<Bytes>, Option<HeaderValue>) {
        if is_grpc(head) {
            let mut response = Response::new(Bytes::new());
            *response.headers_mut() = grpc_refusal(class, denied);
            return (response, None);
        }
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = class.status();
        let (content_type, body) = if self.problem && remedy.is_none() {
            (PROBLEM_JSON, problem(class, denied, seconds))
        } else {
            // Every response names the misconfiguration, so that its developer sees it first.
            let text = remedy.unwrap_or_else(|| denied.phrase());
            (
                HeaderValue::from_static("text/plain; charset=utf-8"),
                Bytes::from_static(text.as_bytes()),
            )
        };
        *response.body_mut() = body;
        (response, Some(content_type))
    }
}
