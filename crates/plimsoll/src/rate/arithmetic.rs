//! Whole numbers.

/// How many bits `number` has.
pub(super) const fn bits(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// The greatest common divisor.
pub(super) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// ⌈a / b⌉, at most `u64::MAX`. Dividing 128 bits is slow, and rarely needed.
#[inline]
pub(super) fn div_ceil(a: u128, b: u64) -> u64 {
    match u64::try_from(a) {
        Ok(a) => a.div_ceil(b),
        Err(_) => u64::try_from(a.div_ceil(u128::from(b))).unwrap_or(u64::MAX),
    }
}
