use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

/// A request without its body. Keys, costs and priorities are read from it.
///
/// It consists of references into the request, so copying it is cheap, and values read from it live as long as the request.
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
    /// Returns the head of a request with any type of body.
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

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &'r Method {
        self.method
    }

    /// Returns the URI. On a server that speaks HTTP/1.1 it usually has only the path and the query.
    #[must_use]
    pub fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// Returns the version of HTTP.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns all header fields.
    /// [`header`](Self::header) reads one of them as text.
    #[must_use]
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// Returns the extensions: values that outer layers attached to the request, such as the address of the peer, the matched
    /// route, or the authenticated user.
    ///
    /// ```
    /// use http::Request;
    /// use plimsoll_tower::Head;
    ///
    /// let request = Request::get("/").extension(42_u32).body(())?;
    /// assert_eq!(Head::of(&request).extensions().get(), Some(&42_u32));
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// Returns the value of a header field as text; the first one if the field is repeated. `None` if it is missing or not UTF-8.
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

/// Extractors of axum and middleware that has already split a request have its [`Parts`].
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
