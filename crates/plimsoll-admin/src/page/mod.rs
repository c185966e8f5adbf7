//! The live page of the admin port, which shows every limit. It consists of three embedded files and a stream of events.

mod events;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

pub(crate) use events::{Streams, events};

const HTML: (&str, &str) = ("text/html; charset=utf-8", include_str!("page.html"));
const STYLE: (&str, &str) = ("text/css; charset=utf-8", include_str!("page.css"));
const SCRIPT: (&str, &str) = ("text/javascript; charset=utf-8", include_str!("page.js"));

/// The content security policy: only resources of this server, no frames, no forms.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The files of the page.
pub(crate) fn files<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route(
            "/",
            get(|headers: HeaderMap| async move { file(HTML, &headers) }),
        )
        .route(
            "/page.css",
            get(|headers: HeaderMap| async move { file(STYLE, &headers) }),
        )
        .route(
            "/page.js",
            get(|headers: HeaderMap| async move { file(SCRIPT, &headers) }),
        )
}

/// Responds with a file, or with 304 if the browser has it.
fn file((kind, text): (&'static str, &'static str), headers: &HeaderMap) -> Response {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = headers.get(IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    let mut response = (fields, text).into_response();
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Refuses cross-site requests and adds security header fields.
pub(crate) async fn protect(request: Request, next: Next) -> Response {
    let method = request.method();
    let reads = *method == Method::GET || *method == Method::HEAD;
    if !reads && is_cross_site(request.headers()) {
        let why = "the request comes from a page of another site: expected a page of this server, or a client other than a browser\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fields = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fields {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a browser marks the request as cross-site. Other clients send no such field.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    if let Some(site) = text(HeaderName::from_static("sec-fetch-site")) {
        return site != b"same-origin" && site != b"none";
    }
    let Some(origin) = text(ORIGIN) else {
        return false;
    };
    let host = origin
        .strip_prefix(b"http://")
        .or_else(|| origin.strip_prefix(b"https://"));
    host.is_none() || host != text(HOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        fields.collect()
    }

    #[test]
    fn only_this_site_and_clients_that_are_no_browsers_may_ask() {
        let host = ("host", "127.0.0.1:8422");
        for fields in [
            &[host][..],
            &[host, ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
            &[host, ("origin", "http://127.0.0.1:8422")],
        ] {
            assert!(!is_cross_site(&headers(fields)), "{fields:?}");
        }
        for fields in [
            &[host, ("sec-fetch-site", "cross-site")][..],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://127.0.0.1:9")],
            &[("origin", "http://127.0.0.1:8422")],
            &[
                host,
                ("origin", "http://127.0.0.1:8422"),
                ("sec-fetch-site", "cross-site"),
            ],
        ] {
            assert!(is_cross_site(&headers(fields)), "{fields:?}");
        }
    }
}
