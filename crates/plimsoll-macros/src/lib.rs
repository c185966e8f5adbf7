#![doc = include_str!("../README.md")]

mod expand;
mod numbers;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use crate::numbers::Numbers;

/// Limits an axum handler: a number of requests per second from each address, and a burst.
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
/// | `rps` | requests per second, rounded up to 1, 2, 4, … 128; 0 is unlimited |
/// | `burst` | the burst, rounded up to 1, 2, 4, … 64; 0 refuses everything. Default: 1 |
/// | `name` | the name of the limit in refusals and metrics. Default: the name of the function |
///
/// The attribute adds a first argument to the function, an extractor that admits or refuses the request. So the function
/// has at most 15 arguments of its own, cannot be called directly, and must not be a method. `plimsoll_tower::declare`
/// explains how declarations and routers work together.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = syn::parse::<Numbers>(arguments)
        .and_then(|numbers| expand::expand(&numbers, item.clone().into()));
    match expanded {
        Ok(expanded) => expanded.into(),
        // With the function unchanged, so that the compiler does not report it as missing as well.
        Err(mistake) => {
            let mut tokens = TokenStream::from(mistake.into_compile_error());
            tokens.extend(item);
            tokens
        }
    }
}
