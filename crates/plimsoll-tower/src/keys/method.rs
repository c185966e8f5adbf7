use std::borrow::Cow;

use http::Method;

use super::KeyFrom;
use crate::Head;

/// The methods that have a key of their own.
const KNOWN: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];

/// The key is the method.
///
/// Each of the nine standard methods has its own key. All others share the key `other`, so that a client that invents
/// methods does not get a limit for each of them.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::MethodKey};
///
/// let key = |method| {
///     let request = http::Request::builder().method(method).body(())?;
///     Ok::<_, http::Error>(MethodKey.key(&Head::of(&request)).map(|key| key.into_owned()))
/// };
/// assert_eq!(key("GET")?.as_deref(), Some("GET"));
/// assert_eq!(key("BREW")?.as_deref(), Some("other"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MethodKey;

impl KeyFrom for MethodKey {
    type Key = str;

    fn is_of_caller(&self) -> bool {
        false
    }

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        let method = head.method();
        Some(Cow::Borrowed(if KNOWN.contains(method) {
            method.as_str()
        } else {
            "other"
        }))
    }
}
