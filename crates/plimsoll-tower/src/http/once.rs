//! Limits in several layers that charge a request only once.

use std::sync::Arc;

use http::Extensions;

/// The identity of such a limit: clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Once(Arc<u8>);

/// The limits that have charged a request.
#[derive(Clone, Debug)]
struct Charged(Vec<Once>);

impl Once {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn has_charged(&self, extensions: &Extensions) -> bool {
        let charged = extensions.get::<Charged>();
        charged.is_some_and(|charged| charged.0.iter().any(|other| self.is(other)))
    }

    pub(super) fn mark(&self, extensions: &mut Extensions) {
        if self.has_charged(extensions) {
            return;
        }
        match extensions.get_mut::<Charged>() {
            Some(charged) => charged.0.push(self.clone()),
            None => {
                extensions.insert(Charged(vec![self.clone()]));
            }
        }
    }
}
