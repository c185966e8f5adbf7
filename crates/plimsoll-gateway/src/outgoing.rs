//! The request that is sent to a server.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, SEC_WEBSOCKET_KEY,
    UPGRADE,
};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri, Version};
use hyper::ext::Protocol;
use plimsoll_config::gateway;
use plimsoll_tower::Usage;

use crate::fault::Fault;
use crate::headers::{self, Peer};
use crate::pool::Lease;
use crate::request_body::RequestBody;

/// The head of the request that is sent, before a server is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
    host: Option<HeaderValue>,
    pub(crate) upgrade: Upgrade,
    /// Whether the client waits for `100 Continue`.
    pub(crate) expects: bool,
}

/// Whether a request upgrades its connection to another protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Upgrade {
    No,
    /// `Upgrade` of HTTP/1.1.
    Field,
    /// Extended CONNECT of HTTP/2 (RFC 8441).
    Connect,
}

impl Outgoing {
    /// The request that is sent for a client's request with this head.
    pub(crate) fn new(parts: &mut Parts, is_trusted: bool) -> Result<Self, Fault> {
        let mut headers = std::mem::take(&mut parts.headers);
        let host = headers::host(&parts.uri, &headers, parts.version)?;
        let wanted = match parts.extensions.get::<Protocol>() {
            Some(protocol) if parts.method == Method::CONNECT => {
                let protocol = HeaderValue::from_str(protocol.as_str());
                Some((Upgrade::Connect, protocol.map_err(|_| Fault::BadHead)?))
            }
            _ if parts.method == Method::CONNECT => return Err(Fault::Connect),
            _ if parts.version == Version::HTTP_11 => {
                headers::upgrade_of(&headers).map(|protocol| (Upgrade::Field, protocol))
            }
            _ => None,
        };
        headers::strip(&mut headers);
        headers::via(&mut headers, parts.version);
        if let Some(peer) = parts.extensions.get::<Arc<Peer>>() {
            headers::forwarded(&mut headers, peer, host.as_ref(), is_trusted);
        }
        if parts.version == Version::HTTP_2 {
            headers::join_cookies(&mut headers);
        }
        // Usage cannot be read from a compressed response.
        if parts.extensions.get::<Usage>().is_some() {
            headers.remove(ACCEPT_ENCODING);
        }
        let expects = headers
            .get(EXPECT)
            .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let mut method = parts.method.clone();
        let upgrade = match wanted {
            None => Upgrade::No,
            Some((upgrade, protocol)) => {
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(UPGRADE, protocol);
                if upgrade == Upgrade::Connect {
                    method = Method::GET;
                    headers.remove(CONTENT_LENGTH);
                    headers.insert(SEC_WEBSOCKET_KEY, websocket_key());
                }
                upgrade
            }
        };
        let path = parts.uri.path_and_query().cloned();
        Ok(Self {
            method,
            path: path.unwrap_or(PathAndQuery::from_static("/")),
            headers,
            host,
            upgrade,
            expects,
        })
    }

    /// Recovers the head and the body of a request that was not sent.
    pub(crate) fn back(request: Request<RequestBody>, upgrade: Upgrade) -> (Self, RequestBody) {
        let (parts, body) = request.into_parts();
        let authority = parts.uri.authority();
        let host = match authority.map(|it| HeaderValue::from_str(it.as_str())) {
            Some(Ok(host)) => Some(host),
            _ => parts.headers.get(HOST).cloned(),
        };
        let path = parts.uri.path_and_query().cloned();
        let outgoing = Self {
            method: parts.method,
            path: path.unwrap_or(PathAndQuery::from_static("/")),
            headers: parts.headers,
            host,
            upgrade,
            expects: false,
        };
        (outgoing, body)
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// The length that the client announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.headers
            .get(CONTENT_LENGTH)?
            .to_str()
            .ok()?
            .parse()
            .ok()
    }

    /// The request, for a server that was chosen.
    pub(crate) fn request(mut self, lease: &Lease, body: RequestBody) -> Request<RequestBody> {
        let pool = &lease.pool;
        let origin = &lease.endpoint.origin;
        let host = pool.host.clone().or(self.host);
        let host = host.or_else(|| HeaderValue::from_str(&origin.authority).ok());
        let is_http2 = pool.protocol == gateway::Protocol::Http2 && self.upgrade == Upgrade::No;
        let mut uri = Uri::from(self.path);
        if is_http2 {
            self.headers.remove(HOST);
            self.headers.remove(EXPECT);
            let mut parts = uri.into_parts();
            parts.scheme = Some(if origin.tls {
                Scheme::HTTPS
            } else {
                Scheme::HTTP
            });
            parts.authority = host.and_then(|host| host.as_bytes().try_into().ok());
            uri = Uri::from_parts(parts).unwrap_or_default();
        } else if let Some(host) = host {
            self.headers.insert(HOST, host);
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers;
        if is_http2 {
            *request.version_mut() = Version::HTTP_2;
        }
        request
    }
}

/// Sixteen random bytes. They keep caches from answering, and are no secret.
fn websocket_key() -> HeaderValue {
    let mut bytes = [0; 16];
    let _ = getrandom::fill(&mut bytes);
    let text = STANDARD.encode(bytes);
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("AAAAAAAAAAAAAAAAAAAAAA=="))
}
