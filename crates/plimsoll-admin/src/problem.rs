//! Error responses as `application/problem+json` (RFC 9457).

use axum::body::{Body, Bytes};
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

/// An error response (RFC 9457).
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    kind: Option<&'static str>,
    title: &'static str,
    detail: String,
    more: Map<String, Value>,
}

impl Problem {
    fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind: None,
            title,
            detail: detail.into(),
            more: Map::new(),
        }
    }

    /// 400: the request is invalid.
    #[must_use]
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", detail)
    }

    /// 404: the resource does not exist.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not Found", detail)
    }

    /// 405: the path does not support the method.
    #[must_use]
    pub fn not_allowed() -> Self {
        let detail = "this path knows other methods; /openapi.json describes them";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed", detail)
    }

    /// 409: the request conflicts with another one.
    #[must_use]
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", detail)
    }

    /// 413: the body is too large.
    #[must_use]
    pub fn too_large() -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(
            status,
            "Payload Too Large",
            "the body is larger than 256 KiB, or ended early",
        )
    }

    /// 422: the request is well-formed and cannot be executed.
    #[must_use]
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(status, "Unprocessable Entity", detail)
    }

    /// 503: the server is shutting down.
    #[must_use]
    pub fn stopping() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
        let detail = "this server stops: ask another, or the same one later";
        Self::refused(status, kind, "Service Unavailable", detail)
    }

    /// 401: the token is missing or wrong.
    #[must_use]
    pub fn unauthorized() -> Self {
        let detail = "expected the token of this server: Authorization: Bearer TOKEN";
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", detail)
    }

    /// A refused decision, with a status, a type and a title.
    #[must_use]
    pub fn refused(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        let mut problem = Self::new(status, title, detail);
        problem.kind = Some(kind);
        problem
    }

    /// Adds a field unless there is one with this name: for names that come from the file.
    #[must_use]
    pub fn with_if_absent(mut self, name: &str, value: Value) -> Self {
        self.more.entry(name).or_insert(value);
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let status = rejection.status();
        let title = status.canonical_reason().unwrap_or("Bad Request");
        Self::new(status, title, rejection.body_text())
    }
}

impl From<Problem> for http::Response<Bytes> {
    fn from(problem: Problem) -> Self {
        let mut body = problem.more;
        let kind = problem.kind.unwrap_or("about:blank");
        body.insert("type".to_owned(), kind.into());
        body.insert("title".to_owned(), problem.title.into());
        body.insert("status".to_owned(), problem.status.as_u16().into());
        body.insert("detail".to_owned(), problem.detail.into());
        let mut response = Self::new(Value::Object(body).to_string().into());
        *response.status_mut() = problem.status;
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        http::Response::<Bytes>::from(self).map(Body::from)
    }
}
