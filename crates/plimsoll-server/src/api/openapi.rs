//! The `OpenAPI` 3.1 document of the HTTP port.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

/// The document. A test compares it with the server.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /openapi.json`
pub(crate) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}
