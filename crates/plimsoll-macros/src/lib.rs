//! The attribute by which a handler declares its limit. Use it as `plimsoll_tower::limit`.

mod expand;
mod numbers;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use crate::numbers::Numbers;

/// Limits a handler of axum: so many requests a second from each address, and so many at once.
///
/// ```ignore
/// use plimsoll_tower::limit;
///
/// #[limit(rps = 5, burst = 2.5)]
/// async fn search() -> &'static str {
///     "found"
/// }
///
/// let app = Router::new().route("/search", get(search));
/// ```
///
/// | argument | |
/// |---|---|
/// | `rps` | requests a second, rounded up to 1, 2, 4, … 128; 0 is unlimited |
/// | `burst` | how many at once, rounded up to 1, 2, 4, … 64; 1 unless set; 0 refuses everything |
/// | `name` | the name of the limit in refusals and metrics; that of the function unless set |
///
/// The function stays a handler like any other: it gets an argument more, the first one, by which axum asks whether it may
/// be called. So it has at most 15 arguments of its own, and whoever calls it as a function is told that one is
/// missing. It must not be a method. What is declared, and how it goes together with the router, is told in
/// `plimsoll_tower::declare`.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = syn::parse::<Numbers>(arguments)
        .and_then(|numbers| expand::expand(&numbers, item.clone().into()));
    match expanded {
        Ok(expanded) => expanded.into(),
        // With the function as it was, so that nobody is told that it is missing as well.
        Err(mistake) => {
            let mut told = TokenStream::from(mistake.into_compile_error());
            told.extend(item);
            told
        }
    }
}
