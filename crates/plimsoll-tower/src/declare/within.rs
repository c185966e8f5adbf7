use std::fmt;
use std::marker::PhantomData;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;

use super::Declaration;
use crate::Head;

/// Something that has a declaration: a type for each handler. The attribute [`limit`](crate::limit) writes it.
#[doc(hidden)]
pub trait Declares: Send + 'static {
    /// The same one every time.
    fn declaration() -> &'static Declaration;
}

/// An argument of a handler that is there if the request is within what `D` declares. If it is not, the handler is not
/// called.
///
/// The attribute [`limit`](crate::limit) puts it first, so that nothing else is read of a request that is refused.
#[doc(hidden)]
pub struct Within<D>(PhantomData<fn() -> D>);

impl<D: Declares, S: Sync> FromRequestParts<S> for Within<D> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        match D::declaration().admit(&Head::from(&*parts)) {
            Ok(()) => Ok(Self(PhantomData)),
            Err(refusal) => Err(refusal.map(Body::from)),
        }
    }
}

impl<D> fmt::Debug for Within<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Within(..)")
    }
}
