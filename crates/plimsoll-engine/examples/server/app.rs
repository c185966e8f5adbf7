//! What the server does. Nothing here is about limits, but the two layers.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path};
use axum::http::StatusCode;
use axum::routing::{get, post};
use plimsoll_engine::Limits;
use plimsoll_tower::Usage;
use tokio::net::TcpListener;

/// Serves on `listener`, behind `limits`.
pub(crate) async fn serve(listener: TcpListener, limits: &Limits) -> io::Result<()> {
    // Without the address of the peer nobody would know whose limit counts.
    let app = app(limits).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await
}

fn app(limits: &Limits) -> Router {
    Router::new()
        .route("/login", post(login))
        .route("/v1/model", post(model))
        .route("/download/{bytes}", get(download))
        .fallback(received)
        .layer(limits.layer())
        // Around it: some limits are read from bodies.
        .layer(limits.body_layer())
}

/// Everybody whose password is `good` may come in.
async fn login(form: String) -> (StatusCode, &'static str) {
    match form.contains("password=good") {
        true => (StatusCode::OK, "welcome\n"),
        false => (StatusCode::UNAUTHORIZED, "no\n"),
    }
}

/// Answers with the text in capitals, and says what that cost: a token for each character.
async fn model(Extension(usage): Extension<Usage>, text: String) -> String {
    usage.add(text.len().try_into().unwrap_or(u64::MAX));
    text.to_uppercase()
}

/// So many bytes.
async fn download(Path(bytes): Path<u32>) -> Vec<u8> {
    vec![b'x'; bytes.min(10_000_000).try_into().unwrap_or_default()]
}

/// Everything else: how much has arrived.
async fn received(body: Bytes) -> String {
    format!("{} bytes\n", body.len())
}
