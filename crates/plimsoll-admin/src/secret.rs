//! Comparison of tokens in constant time.

/// Whether two secrets are equal. The time does not depend on how many bytes match.
#[must_use]
pub fn constant_time_eq(secret: &[u8], presented: &[u8]) -> bool {
    let differ = secret.len() ^ presented.len();
    let bytes = secret
        .iter()
        .zip(presented.iter().chain(std::iter::repeat(&0)));
    let differ = bytes.fold(differ, |differ, (a, b)| differ | usize::from(a ^ b));
    differ == 0
}
