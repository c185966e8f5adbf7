//! The stream of server-sent events for the live page.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::drain::Drain;

/// Interval between two events.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of streams.
const MOST: usize = 32;

/// The number of open streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<AtomicUsize>);

/// Decrements the number of streams when it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streams {
    fn enter(&self) -> Option<Counted> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&self.0));
        (before < MOST).then_some(counted)
    }
}

struct State<F> {
    look: F,
    ticks: Interval,
    drain: Drain,
    number: u64,
    ended: bool,
    _counted: Counted,
}

/// Streams the value of `look` as server-sent events, at once and each second, until the server stops.
pub(crate) fn events<F>(streams: &Streams, drain: Drain, look: F) -> Response
where
    F: Fn() -> Value + Send + 'static,
{
    let Some(counted) = streams.enter() else {
        let why = format!("{MOST} pages are open already: close one of them\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let state = State {
        look,
        ticks,
        drain,
        number: 0,
        ended: false,
        _counted: counted,
    };
    let body = Body::from_stream(stream::unfold(state, next));
    let fields = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (fields, body).into_response()
}

async fn next<F: Fn() -> Value>(
    mut state: State<F>,
) -> Option<(Result<Bytes, std::convert::Infallible>, State<F>)> {
    if state.ended {
        return None;
    }
    let text = match state.drain.unless_begun(state.ticks.tick()).await {
        Some(_) => {
            let number = state.number;
            state.number += 1;
            // A browser reconnects after two seconds.
            format!("retry: 2000\nid: {number}\ndata: {}\n\n", (state.look)())
        }
        None => {
            state.ended = true;
            "event: stopping\ndata: {}\n\n".to_owned()
        }
    };
    Some((Ok(text.into()), state))
}
