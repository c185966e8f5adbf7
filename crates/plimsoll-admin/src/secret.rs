//! Tokens, compared without telling anything by the time it takes.

/// Whether two secrets are the same, in a time that does not depend on how much of them is.
#[must_use]
pub fn is_same(secret: &[u8], said: &[u8]) -> bool {
    let differ = secret.len() ^ said.len();
    let bytes = secret.iter().zip(said.iter().chain(std::iter::repeat(&0)));
    let differ = bytes.fold(differ, |differ, (a, b)| differ | usize::from(a ^ b));
    differ == 0
}
