//! Time in parts of a nanosecond.

use crate::Moment;

/// The number of parts of a nanosecond.
const PARTS: u128 = 1 << 16;
const PARTS_F: f64 = 65536.0;

pub(super) fn parts(moment: Moment) -> u128 {
    u128::from(moment.as_nanos()) * PARTS
}

/// The first moment that is not before `parts`.
pub(super) fn moment(parts: u128) -> Moment {
    Moment::from_nanos(u64::try_from(parts.div_ceil(PARTS)).unwrap_or(u64::MAX))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a price is not negative, and a cast from a float saturates"
)]
pub(super) fn to_parts(nanos: f64) -> u128 {
    (nanos * PARTS_F).round() as u128
}

#[expect(
    clippy::cast_precision_loss,
    reason = "spans are short, or long enough not to matter"
)]
pub(super) fn to_nanos(parts: u128) -> f64 {
    parts as f64 / PARTS_F
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a cast from a float saturates"
)]
pub(super) fn whole(permits: f64) -> u64 {
    permits as u64
}
