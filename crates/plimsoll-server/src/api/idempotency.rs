//! `Idempotency-Key`: what was done for a key is not done again, and answered as before.

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

use super::LONGEST_BODY;
use plimsoll_admin::Problem;

/// How long an answer is kept, and how many of them.
const KEPT: Duration = Duration::from_secs(600);
const MOST: usize = 100_000;
/// How long a key is at most.
const LONGEST_KEY: usize = 255;

/// Answers by path and key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Table>>);

type Key = (String, String);

#[derive(Debug, Default)]
struct Table {
    known: HashMap<Key, Known>,
    /// Each with when it is forgotten.
    by_end: VecDeque<(Instant, Key)>,
}

#[derive(Clone, Debug)]
enum Known {
    /// It is being done.
    UnderWay,
    Done {
        asked: Bytes,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a key. If that is nothing, the caller runs the request.
    fn begin(&self, key: &Key) -> Option<Known> {
        let now = Instant::now();
        let mut table = self.lock();
        let table = &mut *table;
        while let Some((ends, _)) = table.by_end.front()
            && (*ends <= now || table.by_end.len() >= MOST)
        {
            if let Some((_, oldest)) = table.by_end.pop_front() {
                table.known.remove(&oldest);
            }
        }
        if let Some(known) = table.known.get(key) {
            return Some(known.clone());
        }
        table.known.insert(key.clone(), Known::UnderWay);
        None
    }

    fn end(&self, key: Key, done: Option<Known>) {
        let mut table = self.lock();
        match done {
            Some(done) => {
                table.known.insert(key.clone(), done);
                table.by_end.push_back((Instant::now() + KEPT, key));
            }
            None => {
                table.known.remove(&key);
            }
        }
    }
}

/// Ends requests that no client waits for any more: a client that hangs up may ask again.
struct Begun<'a>(&'a Answers, Option<Key>);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.1.take() {
            self.0.end(key, None);
        }
    }
}

/// Answers a request whose key is known as it was answered. Only what was carried out is stored: a refused client may try again.
pub(crate) async fn once(
    Extract(answers): Extract<Answers>,
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
        Ok(key) if (1..=LONGEST_KEY).contains(&key.len()) => key.to_owned(),
        _ => {
            let detail =
                format!("Idempotency-Key: expected 1 to {LONGEST_KEY} characters of ASCII");
            return Problem::bad(detail).into_response();
        }
    };
    let key = (request.uri().path().to_owned(), key);
    let (parts, body) = request.into_parts();
    let Ok(asked) = to_bytes(body, LONGEST_BODY).await else {
        return Problem::too_large().into_response();
    };
    match answers.begin(&key) {
        Some(Known::UnderWay) => {
            return Problem::conflict("the same Idempotency-Key is being answered").into_response();
        }
        Some(Known::Done { asked: before, .. }) if before != asked => {
            let detail = "the same Idempotency-Key was used for something else";
            return Problem::unprocessable(detail).into_response();
        }
        Some(Known::Done {
            status,
            headers,
            body,
            ..
        }) => return (status, headers, body).into_response(),
        None => {}
    }
    let mut begun = Begun(&answers, Some(key));
    let request = Request::from_parts(parts, Body::from(asked.clone()));
    let (parts, body) = next.run(request).await.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Problem::too_large().into_response();
    };
    if parts.status.is_success()
        && let Some(key) = begun.1.take()
    {
        let done = Known::Done {
            asked,
            status: parts.status,
            headers: parts.headers.clone(),
            body: body.clone(),
        };
        answers.end(key, Some(done));
    }
    Response::from_parts(parts, Body::from(body))
}
