//! Requests as steps, against the limits of a configuration.
#![cfg_attr(
    not(feature = "config"),
    expect(
        dead_code,
        reason = "they are read to check the file; only the feature runs them"
    )
)]

use std::net::IpAddr;
use std::time::Duration;

use plimsoll_spec::Place;

use super::Hint;

/// A configuration, and the requests that its limits decide.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The file, as seen from the file of the scenario.
    pub(crate) config: String,
    pub(crate) config_place: Place,
    /// Virtual time, in nanoseconds, at which the limits are built.
    pub(crate) start: u64,
    pub(crate) steps: Vec<RequestStep>,
}

/// One step, with its time already absolute.
#[derive(Debug)]
pub(crate) struct RequestStep {
    pub(crate) place: Place,
    /// Virtual time in nanoseconds.
    pub(crate) at: u64,
    pub(crate) act: Option<Act>,
    /// The name (`as`) of the running request.
    pub(crate) name: Option<String>,
    /// The number of repetitions.
    pub(crate) times: u64,
    pub(crate) expect: Option<Answered>,
    /// The expected remaining units of each limit, by name.
    pub(crate) remaining: Vec<Remaining>,
    pub(crate) settled: Vec<(String, Answered)>,
}

/// The action of a step.
#[derive(Debug)]
pub(crate) enum Act {
    Request(Box<RequestSpec>),
    Ask {
        limit: (String, Place),
        key: Option<String>,
        tier: Option<String>,
        cost: u64,
    },
    /// Ends a running request.
    Finish(String),
}

/// A request, and the response of the handler if it is admitted.
#[derive(Debug, Default)]
pub(crate) struct RequestSpec {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) from: Option<IpAddr>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) claims: Vec<(String, String)>,
    pub(crate) descriptors: Vec<(String, String)>,
    pub(crate) reply: Reply,
}

/// The response of the handler.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reply {
    /// 200 unless set.
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) usage: Option<u64>,
}

/// The decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Allowed,
    Refused,
    Pending,
}

impl Admission {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Pending => "pending",
        }
    }
}

/// The expected response. `None` is not checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answered {
    pub(crate) result: Option<Admission>,
    pub(crate) refused_by: Option<(String, Place)>,
    pub(crate) reason: Option<String>,
    pub(crate) retry_after: Option<Hint>,
    pub(crate) status: Option<u16>,
    /// Tolerance of `retry_after`.
    pub(crate) within: Duration,
}

/// The expected remaining amount of a limit, for the key of the request.
#[derive(Debug)]
pub(crate) struct Remaining {
    pub(crate) limit: String,
    pub(crate) place: Place,
    pub(crate) amount: u64,
}
