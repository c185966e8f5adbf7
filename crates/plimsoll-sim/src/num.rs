//! Conversions between the whole nanoseconds of the clock and the fractions of random draws and of reports.

/// Nanoseconds in a second.
pub(crate) const NANOS: u64 = 1_000_000_000;

pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS as f64
}

pub(crate) fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

/// Rounds down and saturates: negative numbers and NaN become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is what is wanted"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

/// [`whole`] for 32 bits.
pub(crate) fn whole32(number: f64) -> u32 {
    u32::try_from(whole(number)).unwrap_or(u32::MAX)
}

pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
