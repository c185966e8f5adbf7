//! Several limits on one request, in order, all or none.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::Response;
use plimsoll::together::AskKey;
use plimsoll::{Acquire, Demand, Denied, Limiter, Moment, Permit, Priority, Standing};

use super::settle::Done;
use crate::Head;
use crate::answer::{Class, LimitStatus};

/// The limits of an [`HttpLimitLayer`](crate::HttpLimitLayer): a [`RequestLimit`](crate::RequestLimit), or a pair of limits,
/// which may be pairs again. A request is granted by all of them or by none.
///
/// This trait is sealed; [`HttpLimitLayer::and`](crate::HttpLimitLayer::and) makes pairs.
///
/// ```
/// use plimsoll::{Concurrency, Gate, TokenBucket};
/// use plimsoll_tower::{HttpLimitLayer, Limits, RequestLimit};
///
/// fn with_slots<L: Limits>(layer: HttpLimitLayer<L>) -> HttpLimitLayer<impl Limits> {
///     layer.and(RequestLimit::new(Gate::new(Concurrency::new(100))))
/// }
///
/// let rate = RequestLimit::new(Gate::new(TokenBucket::per_second(5)));
/// let layer = with_slots(HttpLimitLayer::new(rate));
/// # let _ = layer;
/// ```
///
/// If several limits refuse a request, the response names the first of them. A request that waits in a queue holds none of
/// the others, so requests with limits in different order cannot deadlock.
pub trait Limits: sealed::Sealed + Send + Sync + 'static {
    /// The permits and keys that a request holds.
    #[doc(hidden)]
    type Held: Default + Send + Unpin + 'static;

    /// The number of limits.
    #[doc(hidden)]
    const COUNT: usize;

    /// Asks the limit with this index, unless it has already granted.
    #[doc(hidden)]
    fn ask(&self, index: usize, head: &Head<'_>, how: How, held: &mut Self::Held) -> Ask;

    /// Returns the limit with this index, for questions that do not depend on the permits held.
    #[doc(hidden)]
    fn at(&self, index: usize) -> &dyn OneLimit;

    /// Visits the limiter or key that each limit asks, after [`How::Prepare`] has found the keys.
    #[doc(hidden)]
    fn asked<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(Asked<'a>));

    /// Stores a permit that was granted after waiting.
    #[doc(hidden)]
    fn granted(&self, index: usize, permit: Permit<'static>, held: &mut Self::Held);

    /// Records that the request waits, or that it was refused after waiting.
    #[doc(hidden)]
    fn note(&self, note: &Note<'_>, held: &mut Self::Held) {
        let _ = (note, held);
    }

    /// Undoes all grants, as if the request had not been made.
    #[doc(hidden)]
    fn undo(&self, held: &mut Self::Held);

    /// Charges the final cost of a request, or refunds it if an inner limit has refused the request and the limit is set to; and
    /// returns the permits that are no longer held. Returns whether any are left.
    #[doc(hidden)]
    fn settle(&self, done: &Done<'_>, held: &mut Self::Held) -> bool;

    /// Whether any of them reads the bodies of responses.
    #[doc(hidden)]
    const READS_BODIES: bool = false;

    /// Called with each part of the response body: its length, and a function that copies it.
    #[doc(hidden)]
    fn see_body(&self, held: &mut Self::Held, length: usize, copy: &dyn Fn(&mut Vec<u8>)) {
        let _ = (held, length, copy);
    }

    /// Visits the status of each limit for the header fields of the response.
    #[doc(hidden)]
    fn describe<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(LimitStatus<'a>));

    /// Whether [`describe`](Self::describe) may visit more than one status.
    #[doc(hidden)]
    const TELLS_SEVERAL: bool = Self::COUNT > 1;

    /// Returns the status of the limit with this index for the header fields of a refusal, with this standing.
    #[doc(hidden)]
    fn refused_status<'a>(
        &'a self,
        index: usize,
        denied: &'a Denied,
        standing: Standing,
    ) -> LimitStatus<'a> {
        let _ = denied;
        self.at(index).status(standing)
    }

    /// Returns the response to a refusal, if the limits define one.
    #[doc(hidden)]
    fn respond(&self, head: &Head<'_>, denied: &Denied, class: Class) -> Option<Response<Bytes>> {
        let _ = (head, denied, class);
        None
    }

    /// Inserts into a request what its handler and inner layers need: the limits that have charged it, and its leases.
    #[doc(hidden)]
    fn prepare(&self, held: &Self::Held, extensions: &mut http::Extensions) -> After;
}

/// The remaining steps for a request that was admitted.
#[doc(hidden)]
#[derive(Clone, Copy, Default, Debug)]
pub struct After {
    /// Whether its handler can report usage.
    pub reads_usage: bool,
    /// Whether something is held or charged after the head of the response.
    pub outlasts_head: bool,
    /// Whether something is charged according to the response.
    pub settles: bool,
}

impl After {
    /// Whether nothing is left to do, apart from describing the limits in the response.
    pub(super) const fn is_nothing(self) -> bool {
        !(self.outlasts_head || self.settles || self.reads_usage)
    }
}

/// One limit of any type.
#[doc(hidden)]
pub trait OneLimit {
    /// Returns the demand of a request, unless it has already been charged.
    fn demand(&self, head: &Head<'_>, priority: Priority) -> Option<Demand>;

    /// Returns the current time by the clock of its limiter.
    fn now(&self) -> Moment;

    /// Returns the status for header fields, with this standing.
    fn status(&self, standing: Standing) -> LimitStatus<'_>;

    /// Returns the class of a refusal.
    fn class(&self, head: &Head<'_>, denied: &Denied) -> Class;

    /// Returns the remedy if the program does not record what the key is made of.
    fn missing(&self, head: &Head<'_>) -> Option<&'static str>;
}

/// The mode in which a limit is asked.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Takes. A limit that is `alone` in its layer is waited for alone.
    Take {
        priority: Priority,
        alone: bool,
        /// Whether the response describes the status of the limits.
        described: bool,
    },
    /// Takes nothing, but finds the key.
    Prepare,
}

/// The answer of one limit.
#[doc(hidden)]
pub enum Ask {
    Pass,
    Refused(Denied),
    /// It has to be waited for, together with the others.
    Wait,
    /// It has to be waited for, and is alone.
    WaitAlone(Acquire<'static>),
    /// It is in a store, which is asked without a queue.
    Store(Acquire<'static>),
    /// Its key is looked up.
    FindKey(Finding),
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "Pass",
            Self::Refused(_) => "Refused",
            Self::Wait | Self::WaitAlone(_) => "Wait",
            Self::Store(_) => "Store",
            Self::FindKey(_) => "FindKey",
        })
    }
}

/// A key that is looked up.
#[doc(hidden)]
pub type Finding = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The limiter or key of a limit, for the wait for several limits.
#[doc(hidden)]
pub enum Asked<'a> {
    Limiter(&'a dyn Limiter),
    Key(Box<dyn AskKey + 'a>),
    /// It asks nothing of this request.
    Nothing,
}

impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limiter(_) => "Limiter",
            Self::Key(_) => "Key",
            Self::Nothing => "Nothing",
        })
    }
}

/// An event of a request that is not admitted at once.
#[doc(hidden)]
#[derive(Debug)]
pub enum Note<'a> {
    Waits,
    Refused(&'a Denied),
}

impl<A: Limits, B: Limits> Limits for (A, B) {
    type Held = (A::Held, B::Held);
    const COUNT: usize = A::COUNT + B::COUNT;

    #[inline(always)]
    fn ask(&self, index: usize, head: &Head<'_>, how: How, held: &mut Self::Held) -> Ask {
        if index < A::COUNT {
            self.0.ask(index, head, how, &mut held.0)
        } else {
            self.1.ask(index - A::COUNT, head, how, &mut held.1)
        }
    }

    fn at(&self, index: usize) -> &dyn OneLimit {
        if index < A::COUNT {
            self.0.at(index)
        } else {
            self.1.at(index - A::COUNT)
        }
    }

    fn asked<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(Asked<'a>)) {
        self.0.asked(&held.0, see);
        self.1.asked(&held.1, see);
    }

    fn granted(&self, index: usize, permit: Permit<'static>, held: &mut Self::Held) {
        if index < A::COUNT {
            self.0.granted(index, permit, &mut held.0);
        } else {
            self.1.granted(index - A::COUNT, permit, &mut held.1);
        }
    }

    fn note(&self, note: &Note<'_>, held: &mut Self::Held) {
        self.0.note(note, &mut held.0);
        self.1.note(note, &mut held.1);
    }

    fn undo(&self, held: &mut Self::Held) {
        self.1.undo(&mut held.1);
        self.0.undo(&mut held.0);
    }

    #[inline]
    fn settle(&self, done: &Done<'_>, held: &mut Self::Held) -> bool {
        let left = self.1.settle(done, &mut held.1);
        self.0.settle(done, &mut held.0) || left
    }

    const READS_BODIES: bool = A::READS_BODIES || B::READS_BODIES;

    fn see_body(&self, held: &mut Self::Held, length: usize, copy: &dyn Fn(&mut Vec<u8>)) {
        self.0.see_body(&mut held.0, length, copy);
        self.1.see_body(&mut held.1, length, copy);
    }

    const TELLS_SEVERAL: bool = true;

    fn describe<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(LimitStatus<'a>)) {
        self.0.describe(&held.0, see);
        self.1.describe(&held.1, see);
    }

    fn refused_status<'a>(
        &'a self,
        index: usize,
        denied: &'a Denied,
        standing: Standing,
    ) -> LimitStatus<'a> {
        if index < A::COUNT {
            self.0.refused_status(index, denied, standing)
        } else {
            self.1.refused_status(index - A::COUNT, denied, standing)
        }
    }

    fn respond(&self, head: &Head<'_>, denied: &Denied, class: Class) -> Option<Response<Bytes>> {
        let first = self.0.respond(head, denied, class);
        first.or_else(|| self.1.respond(head, denied, class))
    }

    #[inline]
    fn prepare(&self, held: &Self::Held, extensions: &mut http::Extensions) -> After {
        let (one, other) = (
            self.0.prepare(&held.0, extensions),
            self.1.prepare(&held.1, extensions),
        );
        After {
            reads_usage: one.reads_usage || other.reads_usage,
            outlasts_head: one.outlasts_head || other.outlasts_head,
            settles: one.settles || other.settles,
        }
    }
}

impl<A: Limits, B: Limits> sealed::Sealed for (A, B) {}

pub(crate) mod sealed {
    /// Implemented only by the limits of this workspace.
    pub trait Sealed {}
}
