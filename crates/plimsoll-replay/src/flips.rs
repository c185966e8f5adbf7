//! The requests that two configurations decide differently.

use std::collections::HashMap;

use plimsoll_engine::TopKeys;

/// The decision of one configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    Admitted,
    Refused { limit: String, key: String },
}

/// Requests that are decided differently.
#[derive(Debug, Default)]
pub(crate) struct Flips {
    /// Decisions of one configuration that the other has not made yet, by the number of the request, and whether it is the new one.
    open: HashMap<u64, (bool, Option<usize>, Admission)>,
    pub(crate) both_admitted: u64,
    pub(crate) both_refused: u64,
    pub(crate) to_refused: Side,
    pub(crate) to_admitted: Side,
}

/// The differences in one direction.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) requests: u64,
    /// The number of requests, by the limit that refuses them in one of the configurations.
    pub(crate) limits: HashMap<String, u64>,
    pub(crate) routes: HashMap<Option<usize>, u64>,
    /// The number of requests, by limit and key.
    pub(crate) keys: TopKeys,
}

impl Side {
    fn add(&mut self, route: Option<usize>, limit: String, key: &str) {
        self.requests += 1;
        *self.routes.entry(route).or_default() += 1;
        if !key.is_empty() {
            self.keys.add(&format!("{limit}\0{key}"), 1);
        }
        *self.limits.entry(limit).or_default() += 1;
    }
}

impl Flips {
    /// Adds the decision of one configuration. `route` is the route of the request in the new one.
    pub(crate) fn decided(
        &mut self,
        number: u64,
        is_new: bool,
        route: Option<usize>,
        admission: Admission,
    ) {
        let Some((_, other_route, other)) = self.open.remove(&number) else {
            self.open.insert(number, (is_new, route, admission));
            return;
        };
        let (route, new, old) = match is_new {
            true => (route, admission, other),
            false => (other_route, other, admission),
        };
        match (new, old) {
            (Admission::Admitted, Admission::Admitted) => self.both_admitted += 1,
            (Admission::Refused { .. }, Admission::Refused { .. }) => self.both_refused += 1,
            (Admission::Refused { limit, key }, Admission::Admitted) => {
                self.to_refused.add(route, limit, &key)
            }
            (Admission::Admitted, Admission::Refused { limit, key }) => {
                self.to_admitted.add(route, limit, &key)
            }
        }
    }
}
