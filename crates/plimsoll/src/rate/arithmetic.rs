//! Whole numbers.

/// The number of bits of `number`.
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

/// ⌊a · b / c⌋ and whether that is exact; at most `u128::MAX`. `b` and `c` must be below 2^126, and `c` not 0.
///
/// The product may have 254 bits, so the division proceeds bit by bit. Use it for changes of limits, not for decisions.
pub(super) fn mul_div(a: u128, b: u128, c: u128) -> (u128, bool) {
    let (mut quotient, mut rest) = (0_u128, 0_u128);
    for bit in (0..128 - a.leading_zeros()).rev() {
        let next = rest * 2 + if a >> bit & 1 == 1 { b } else { 0 };
        quotient = quotient.saturating_mul(2).saturating_add(next / c);
        rest = next % c;
    }
    (quotient, rest == 0)
}
