//! Middleware for the header field `Idempotency-Key`: a repeated request receives the stored response and is not executed again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use crate::body::LONGEST_BODY;
use plimsoll_admin::Problem;

/// The lifetime of a stored response.
const TTL: Duration = Duration::from_secs(600);
/// Maximum number of stored responses.
const MAX_RESPONSES: usize = 100_000;
/// Maximum total length of the bodies of stored responses and of their requests.
const MAX_BYTES: usize = 64 << 20;
/// Maximum length of a key.
const MAX_KEY_LENGTH: usize = 255;

/// Stored responses by path and key.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredResponses(Arc<Mutex<Table>>);

type Key = (String, String);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    /// Keys in the order in which they expire.
    by_expiry: VecDeque<(Instant, Key)>,
    /// The length of all bodies.
    bytes: usize,
}

#[derive(Clone, Debug)]
enum Entry {
    /// The first request with this key is being executed.
    InProgress,
    Done {
        request_body: Bytes,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
}

impl Entry {
    /// The length of its bodies.
    fn bytes(&self) -> usize {
        match self {
            Self::InProgress => 0,
            Self::Done {
                request_body, body, ..
            } => request_body.len() + body.len(),
        }
    }
}

impl Table {
    /// Removes expired responses, and then the oldest ones while there are too many or their bodies are too long.
    fn make_room(&mut self, most: usize) {
        let now = Instant::now();
        while let Some((expires, _)) = self.by_expiry.front()
            && (*expires <= now || self.by_expiry.len() > most || self.bytes > MAX_BYTES)
        {
            if let Some((_, oldest)) = self.by_expiry.pop_front() {
                let removed = self.entries.remove(&oldest);
                self.bytes -= removed.map_or(0, |removed| removed.bytes());
            }
        }
    }
}

impl StoredResponses {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a key. If there is none, inserts [`InProgress`](Entry::InProgress), and the caller executes the request.
    fn begin(&self, key: &Key) -> Option<Entry> {
        let mut table = self.lock();
        table.make_room(MAX_RESPONSES - 1);
        if let Some(entries) = table.entries.get(key) {
            return Some(entries.clone());
        }
        table.entries.insert(key.clone(), Entry::InProgress);
        None
    }

    fn end(&self, key: Key, done: Option<Entry>) {
        let mut table = self.lock();
        match done {
            Some(done) => {
                table.bytes += done.bytes();
                table.entries.insert(key.clone(), done);
                table.by_expiry.push_back((Instant::now() + TTL, key));
                table.make_room(MAX_RESPONSES);
            }
            None => {
                table.entries.remove(&key);
            }
        }
    }
}

/// Removes the entry of a request that was cancelled or failed, so that the client may retry.
struct RemoveOnDrop<'a>(&'a StoredResponses, Option<Key>);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.1.take() {
            self.0.end(key, None);
        }
    }
}

/// Whether a key has the form in the API document: visible ASCII without spaces.
fn is_valid(key: &str) -> bool {
    (1..=MAX_KEY_LENGTH).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Answers a repeated request with the stored response. Only successful responses are stored, so a refused client may retry.
pub(crate) async fn replay(
    Extract(stored): Extract<StoredResponses>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = request.headers().get("idempotency-key") else {
        return next.run(request).await;
    };
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let key = match key.to_str() {
        Ok(key) if is_valid(key) => key.to_owned(),
        _ => {
            let detail = format!(
                "Idempotency-Key: expected 1 to {MAX_KEY_LENGTH} visible characters of ASCII, without spaces"
            );
            return Problem::bad(detail).into_response();
        }
    };
    let key = (request.uri().path().to_owned(), key);
    let (parts, body) = request.into_parts();
    let Ok(request_body) = to_bytes(body, LONGEST_BODY).await else {
        return Problem::too_large().into_response();
    };
    match stored.begin(&key) {
        Some(Entry::InProgress) => {
            return Problem::conflict("the same Idempotency-Key is being answered").into_response();
        }
        Some(Entry::Done {
            request_body: before,
            ..
        }) if before != request_body => {
            let detail = "the same Idempotency-Key was used for something else";
            return Problem::unprocessable(detail).into_response();
        }
        Some(Entry::Done {
            status,
            headers,
            body,
            ..
        }) => return (status, headers, body).into_response(),
        None => {}
    }
    let mut guard = RemoveOnDrop(&stored, Some(key));
    let request = Request::from_parts(parts, Body::from(request_body.clone()));
    let (parts, body) = next.run(request).await.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Problem::too_large().into_response();
    };
    if parts.status.is_success()
        && let Some(key) = guard.1.take()
    {
        let done = Entry::Done {
            // Copied, because the body may be a part of the read buffer of its connection.
            request_body: Bytes::copy_from_slice(&request_body),
            status: parts.status,
            headers: parts.headers.clone(),
            body: body.clone(),
        };
        stored.end(key, Some(done));
    }
    Response::from_parts(parts, Body::from(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bound on the number of responses alone would allow 25 GB of the longest bodies.
    #[test]
    fn stored_responses_are_bounded_by_their_length() {
        let stored = StoredResponses::default();
        let key = |number: usize| ("/v1/check".to_owned(), number.to_string());
        let done = |length: usize| Entry::Done {
            request_body: vec![0; length].into(),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
        };
        for number in 0..1000 {
            assert!(stored.begin(&key(number)).is_none());
            stored.end(key(number), Some(done(LONGEST_BODY)));
            let table = stored.lock();
            let entries = table.entries.values();
            let bytes = entries.map(|entry| match entry {
                Entry::InProgress => 0,
                Entry::Done { request_body, .. } => request_body.len(),
            });
            assert!(bytes.sum::<usize>() <= 64 << 20, "{number}");
            assert_eq!(table.by_expiry.len(), table.entries.len());
        }
        // The latest responses are stored, and the bound does not reduce the number of short ones.
        assert!(stored.begin(&key(999)).is_some());
        assert!(stored.begin(&key(0)).is_none());
        stored.end(key(0), None);
        for number in 1000..5000 {
            assert!(stored.begin(&key(number)).is_none());
            stored.end(key(number), Some(done(10)));
        }
        assert!((1000..5000).all(|number| stored.begin(&key(number)).is_some()));
    }
}
