use plimsoll::Permit;

/// The permit and key that a request holds of a limit.
#[doc(hidden)]
#[derive(Debug)]
pub struct Granted<K> {
    pub(crate) permit: Option<Permit<'static>>,
    /// The key, if the limit is by key.
    pub(super) key: Option<K>,
    /// Whether it was granted without a permit, and the response describes the limit.
    pub(super) described: bool,
}

impl<K> Default for Granted<K> {
    fn default() -> Self {
        Self {
            permit: None,
            key: None,
            described: false,
        }
    }
}
