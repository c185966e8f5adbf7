//! What passes through the world.

use plimsoll::Permit;

use crate::closed_loop::Turn;
use crate::traffic::Kind;

/// One request of a client, through all its tries.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) arrived: u64,
    pub(crate) tries: u32,
    pub(crate) kind: Kind,
    /// Whose it is in the closed loop.
    pub(crate) turn: Option<Turn>,
}

/// A request that was let in.
pub(crate) struct Job<'s> {
    pub(crate) request: Request,
    pub(crate) begun: u64,
    pub(crate) permit: Permit<'s>,
    /// The station that it is at, or will be next.
    pub(crate) at: usize,
    /// The permit of the gate before that station.
    pub(crate) inner: Option<Permit<'s>>,
    /// The stations whose workers it holds until it is answered, with their permits.
    pub(crate) held: Vec<(usize, Option<Permit<'s>>)>,
}

impl<'s> Job<'s> {
    pub(crate) fn new(request: Request, begun: u64, permit: Permit<'s>) -> Self {
        Self {
            request,
            begun,
            permit,
            at: 0,
            inner: None,
            held: Vec::new(),
        }
    }
}
