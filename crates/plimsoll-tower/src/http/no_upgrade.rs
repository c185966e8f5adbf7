//! Without the feature `upgrade`, upgraded connections hold nothing.

use std::convert::Infallible;

use http::{Extensions, Request, StatusCode};

use super::held_permits::HeldPermits;
use super::limits::Limits;

/// The upgrade that a request asks for: never.
pub(super) struct Upgrade<L>(Infallible, std::marker::PhantomData<fn(L)>);

impl<L: Limits> Upgrade<L> {
    pub(super) const fn of<B>(_request: &mut Request<B>) -> Option<Self> {
        None
    }

    pub(super) fn is_done(&self, _status: StatusCode) -> bool {
        match self.0 {}
    }

    pub(super) fn hold(&self, _permits: HeldPermits<L>) {
        match self.0 {}
    }
}

pub(super) const fn comes_with(_status: StatusCode, _extensions: &Extensions) -> bool {
    false
}

pub(super) fn hold_by_response<L: Limits>(_extensions: &mut Extensions, _permits: HeldPermits<L>) {}
