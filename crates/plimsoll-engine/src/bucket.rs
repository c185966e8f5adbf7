//! Limits for buckets of Envoy's quota service, whose usage Envoy counts itself.

use std::time::Duration;

use http::Request;
use plimsoll_config::uses::CostSpec;
use plimsoll_tower::Head;

use crate::handle::Handle;
use crate::keys::write_key;
use crate::limit::Limit;
use crate::limits::Limits;
use crate::request::Descriptors;
use crate::resolve;

/// The entry of a bucket that names its limit.
const LIMIT: &str = "limit";

/// The limit and the key of a bucket, and the allowance of the key. [`Limits::bucket`] returns it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Bucket {
    /// The name of the limit.
    pub limit: String,
    /// The key; empty for a limit without keys.
    pub key: String,
    /// The cost of one request.
    pub cost: u64,
    /// The allowance of this key.
    pub allowance: Allowance,
}

/// The allowance of a limit for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Allowance {
    /// At most this much in each period of this length.
    Rate(u64, Duration),
    /// Everything: the tier of the key is unlimited, or the limit is in shadow mode.
    Unlimited,
    /// Nothing: the key is blocked.
    Blocked,
}

impl Limits {
    /// Returns the limit for a bucket with these entries. `None` if the file has no such limit, or it is not a rate.
    ///
    /// The entry `limit` names the limit. Without that entry, it is the first limit of the file whose `key` reads exactly these
    /// entries, as `descriptor:NAME`.
    ///
    /// ```
    /// use plimsoll_engine::{Allowance, Descriptors, Limits};
    /// use std::time::Duration;
    ///
    /// let limits = Limits::from_yaml("limits:
    ///   api: { rate: 100/s }
    ///   tenants: { rate: 10/s, key: descriptor:tenant, overrides: { big: 50/s } }
    /// ")?;
    /// let bucket = |entries: &[(&str, &str)]| {
    ///     let entries = entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    ///     limits.bucket(&Descriptors(entries.collect()))
    /// };
    /// let second = Duration::from_secs(1);
    /// assert_eq!(bucket(&[("limit", "api")]).unwrap().allowance, Allowance::Rate(100, second));
    /// let tenant = bucket(&[("tenant", "anna")]).unwrap();
    /// assert_eq!((&*tenant.limit, &*tenant.key), ("tenants", "anna"));
    /// assert_eq!(bucket(&[("tenant", "big")]).unwrap().allowance, Allowance::Rate(50, second));
    /// assert_eq!(bucket(&[("unknown", "anna")]), None);
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    #[must_use]
    pub fn bucket(&self, entries: &Descriptors) -> Option<Bucket> {
        let plan = self.plan();
        let limit = match entries.get(LIMIT) {
            Some(name) => &plan.limits[plan.limit(name)?],
            None => plan.limits.iter().find(|limit| reads(limit, entries))?,
        };
        let mut request = Request::new(());
        request.extensions_mut().insert(entries.clone());
        let head = Head::of(&request);
        let mut keys = String::new();
        if !limit.key.is_empty() && !write_key(&limit.key, &head, "", &mut keys) {
            return None;
        }
        let terms = resolve::terms(limit, 0..keys.len(), &head, "", &mut keys);
        let allowance = match limit.terms(terms) {
            _ if limit.shadow => Allowance::Unlimited,
            Handle::Unlimited => Allowance::Unlimited,
            Handle::Blocked => Allowance::Blocked,
            limiter => {
                let promise = limiter.promise().filter(|promise| !promise.returns)?;
                Allowance::Rate(promise.limit, promise.window?)
            }
        };
        let cost = match limit.cost {
            CostSpec::Fixed(cost) => cost.max(1),
            _ => 1,
        };
        Some(Bucket {
            limit: limit.name.to_string(),
            key: keys,
            cost,
            allowance,
        })
    }
}

/// Whether the key of a limit reads exactly these entries.
fn reads(limit: &Limit, entries: &Descriptors) -> bool {
    !limit.key.is_empty()
        && limit.key.len() == entries.0.len()
        && limit.key.iter().all(|part| {
            part.descriptor()
                .is_some_and(|name| entries.get(name).is_some())
        })
}
