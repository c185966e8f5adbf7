#![doc = include_str!("../README.md")]

mod arguments;
mod expand;
mod quota;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use crate::arguments::{Limit, Priority};
use crate::expand::{Declared, expand};

/// Declares a limit of an axum handler. Handlers without a declaration share the fallback of the router's policies.
///
/// ```ignore
/// use plimsoll_tower::limit;
/// use plimsoll_tower::keys::Peer;
///
/// #[limit(rps = 5, burst = 2.5)]
/// async fn search() -> &'static str {
///     "found"
/// }
///
/// #[limit(rate = "100/s", burst = 20, key = Peer::new())]
/// async fn suggest() {}
///
/// #[limit(concurrency = 10, queue = 50, priority = critical)]
/// async fn checkout() {}
///
/// let app = Router::new().route("/search", get(search));
/// ```
///
/// One of these arguments is the limit:
///
/// | argument | |
/// |---|---|
/// | `rps = 5` | requests per second from each address, rounded up to 1, 2, 4, … 128; 0 or less is unlimited. `burst` is rounded up to 1, 2, 4, … 64; 0 or less refuses everything. Default: 1 |
/// | `rate = "100/s"` | an exact rate, refilled evenly. `burst` is the most that is granted at once. Default: the amount of the rate |
/// | `window = "1000/h"` | an amount in each fixed window of time |
/// | `concurrency = 10` | a number of requests in flight, until their responses have been sent |
/// | `limiter = SLOTS.clone()` | any limiter: an expression for a `Limiter`, or with `key` for a `PerKey` |
///
/// A rate is a number, perhaps with `k` or `M`, a slash, and a time: `ms`, `s`, `min`, `h`, `d`, `10min`. Further arguments:
///
/// | argument | |
/// |---|---|
/// | `key = Peer::new()` | a limit for each key: an expression for a `KeyFrom`. Without it, one limit for all requests |
/// | `cost = 5`, `cost = \|head\| ..` | the cost of a request. Default: 1 |
/// | `queue = 50` | the bound of the queue, which is served by priority, then first come, first served. Default: no queue |
/// | `name = "search"` | the name of the limit in refusals and metrics. Default: the name of the function |
/// | `priority = critical` | as the attribute [`priority`](macro@priority) |
///
/// With several attributes a request needs a grant of all limits: it takes from all of them or from none.
///
/// The function becomes a handler: a value with its name that can be added to a router, and cannot be called. As with
/// any unit struct, no variable in scope can have that name. The function must be neither a method nor generic.
/// `plimsoll_tower::declare` explains how declarations and routers work together.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let limit = syn::parse::<Limit>(arguments).map(Declared::limit);
    expanded("limit", limit, item)
}

/// Sets the priority of an axum handler, for layers around it that use an `EndpointPriority`: `critical`, `normal` or
/// `non_critical`.
///
/// ```ignore
/// use plimsoll_tower::{EndpointPriority, load_shedding, priority};
///
/// #[priority(critical)]
/// async fn checkout() {}
///
/// let app = Router::new()
///     .route("/checkout", post(checkout))
///     .layer(load_shedding().priority(EndpointPriority::new()));
/// ```
///
/// The function becomes a handler, as with [`limit`](macro@limit).
#[proc_macro_attribute]
pub fn priority(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let priority = syn::parse::<Priority>(arguments).map(|priority| Declared {
        priority: Some(priority),
        ..Declared::default()
    });
    expanded("priority", priority, item)
}

fn expanded(attribute: &str, declared: syn::Result<Declared>, item: TokenStream) -> TokenStream {
    match declared.and_then(|declared| expand(attribute, declared, item.clone().into())) {
        Ok(expanded) => expanded.into(),
        // With the function unchanged, so that the compiler does not report it as missing as well.
        Err(mistake) => {
            let mut tokens = TokenStream::from(mistake.into_compile_error());
            tokens.extend(item);
            tokens
        }
    }
}
