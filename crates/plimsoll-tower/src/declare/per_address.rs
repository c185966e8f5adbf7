use plimsoll::{InvalidLimit, Keyed, Quota, TokenBucket};

use crate::keys::{Address, Forwarded, TrustedProxies};
use crate::{ByKey, HttpLimitLayer, RequestLimit};

/// A layer that limits each address by a rate. [`per_address`] returns one.
pub type PerAddressLayer =
    HttpLimitLayer<RequestLimit<Keyed<Address, TokenBucket>, ByKey<Forwarded>>>;

/// Limits each address to `rate` requests per second with bursts of `burst`.
///
/// With axum, the server must record the addresses of connections:
///
/// ```
/// # #[cfg(feature = "axum")]
/// # async fn doc(listener: tokio::net::TcpListener) -> std::io::Result<()> {
/// use std::net::SocketAddr;
/// use axum::{Router, routing::get};
/// use plimsoll_tower::per_address;
///
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(per_address(5, 10));
/// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
/// # }
/// ```
///
/// Without `into_make_service_with_connect_info` the address is unknown, and every request is answered with 500; with the
/// feature `tracing` the first one is logged. See [`Peer`](crate::keys::Peer) for what counts as one address; behind proxies,
/// set [`behind`](HttpLimitLayer::behind). The name of the limiter is `per-address`. For other rules, names or clocks, use
/// [`RequestLimit::by_key`].
///
/// # Panics
///
/// Panics if one of the numbers is 0. [`try_per_address`] returns an error instead.
#[track_caller]
pub fn per_address(rate: u64, burst: u64) -> PerAddressLayer {
    match try_per_address(rate, burst) {
        Ok(layer) => layer,
        Err(invalid) => panic!("{invalid}"),
    }
}

/// Like [`per_address`], but returns an error instead of panicking. For numbers from outside the program.
///
/// # Errors
///
/// Returns an error if one of the numbers is 0.
///
/// ```
/// use plimsoll_tower::try_per_address;
///
/// assert!(try_per_address(5, 10).is_ok());
/// assert!(try_per_address(5, 0).is_err());
/// ```
pub fn try_per_address(rate: u64, burst: u64) -> Result<PerAddressLayer, InvalidLimit> {
    if rate == 0 {
        return Err(InvalidLimit::new("rate", rate, "at least 1"));
    }
    let bucket = TokenBucket::greedy(Quota::per_second(rate)).try_burst(burst)?;
    let keyed = Keyed::<Address, _>::builder(bucket)
        .name("per-address")
        .build();
    // Without trusted proxies, the client is the peer.
    let client = Forwarded::x_forwarded_for(TrustedProxies::none());
    Ok(HttpLimitLayer::new(RequestLimit::by_key(keyed, client)))
}

impl<L> HttpLimitLayer<RequestLimit<L, ByKey<Forwarded>>>
where
    L: plimsoll::PerKey<Address> + 'static,
{
    /// Trusts these proxies to report the client's address: in `X-Forwarded-For`, or in the field that a [`Forwarded`] reads. The
    /// header is ignored if the peer is not one of them.
    ///
    /// Only one field is read, even if both are present: a proxy that appends to one field forwards the other as the
    /// client wrote it.
    ///
    /// ```
    /// use plimsoll_tower::{keys::{Forwarded, TrustedProxies}, per_address};
    ///
    /// let proxies = TrustedProxies::parse(["192.0.2.0/28"])?;
    /// let layer = per_address(5, 10).behind(proxies.clone());
    /// // Proxies that write the field of RFC 7239, or one of their own.
    /// let layer = per_address(5, 10).behind(Forwarded::rfc_7239(proxies.clone()));
    /// let layer = per_address(5, 10).behind(Forwarded::single_header(proxies, "cf-connecting-ip".parse()?));
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn behind(self, proxies: impl Into<Forwarded>) -> Self {
        self.map_limits(|limit| limit.with_key(proxies.into()))
    }
}
