//! Descriptions in a scenario, with the part of the file from which they were read, for errors that occur only when a limiter is
//! built.

use plimsoll_spec::{Algorithm, InvalidSpec, Kind, Limiter, Member, Node, Places, Problem};

/// A description, and the part of the file from which it was read.
#[derive(Debug)]
pub(crate) struct Described<T> {
    pub(crate) node: Node,
    pub(crate) spec: T,
}

/// A limiter of a scenario.
pub(crate) type LimiterSpec = Described<Limiter>;

/// An algorithm of a scenario.
pub(crate) type AlgorithmSpec = Described<Algorithm>;

impl<T> Described<T> {
    /// Converts an invalid setting to a problem of the file.
    pub(crate) fn problem(&self, invalid: &InvalidSpec) -> Problem {
        invalid.problem(&[], &Places::of(&self.node))
    }
}

impl LimiterSpec {
    /// The names that a refusal can have: that of this limiter and, for `all`, those of its members.
    pub(crate) fn names(&self) -> Vec<&str> {
        fn names(limiter: &Limiter) -> Vec<&str> {
            let mut found: Vec<&str> = limiter.common.name.as_deref().into_iter().collect();
            found.extend(members(limiter).flat_map(names));
            found
        }
        names(&self.spec)
    }
}

/// The members of `all`. A scenario describes them inline.
pub(crate) fn members(limiter: &Limiter) -> impl Iterator<Item = &Limiter> {
    let of = match &limiter.kind {
        Kind::All { of } => of.as_slice(),
        _ => &[],
    };
    of.iter().filter_map(|member| match member {
        Member::Inline(limiter) => Some(&**limiter),
        Member::Name(_) => None,
    })
}
