//! Files of ten limits and of ten thousand.
pub(crate) fn report() {}
