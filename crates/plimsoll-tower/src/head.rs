use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

/// A request without its body: what keys, costs and priorities are read from.
///
/// It is a handful of references, so it can be copied, and what is read from it lives as long as the request.
///
/// ```
/// use http::Request;
/// use plimsoll_tower::Head;
///
/// let request = Request::get("/items?page=2").header("x-tenant", "red").body(())?;
/// let head = Head::of(&request);
/// assert_eq!(head.uri().path(), "/items");
/// assert_eq!(head.header("x-tenant"), Some("red"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    method: &'r Method,
    uri: &'r Uri,
    version: Version,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> Head<'r> {
    /// The head of this request, whatever its body.
    #[must_use]
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &'r Method {
        self.method
    }

    /// What is asked for.
    #[must_use]
    pub fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// The version of HTTP.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// All header fields.
    #[must_use]
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// What other layers know of the request: the peer's address, the matched route, who is logged in.
    #[must_use]
    pub fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// The text of a header field, the first one if it is repeated. None if it is missing or not UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'r str> {
        std::str::from_utf8(self.headers.get(name)?.as_bytes()).ok()
    }
}

impl<'r, B> From<&'r Request<B>> for Head<'r> {
    fn from(request: &'r Request<B>) -> Self {
        Self::of(request)
    }
}

impl<'r> From<&'r Parts> for Head<'r> {
    fn from(parts: &'r Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            version: parts.version,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }
}
