//! Bodies that are read whole.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use hyper::body::Body;

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum Failed {
    TooLong,
    /// It ended early, or did not come in time.
    Broken(String),
}

/// Reads a body of at most `longest` bytes. One that came at once is not copied.
pub(crate) async fn whole<B>(mut body: B, longest: usize) -> Result<Bytes, Failed>
where
    B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    let mut whole = Bytes::new();
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await else {
            break;
        };
        let frame = frame.map_err(|error| Failed::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > longest - whole.len() {
            return Err(Failed::TooLong);
        }
        whole = match whole.is_empty() {
            true => data,
            false => {
                // The buffer is our own from the second part on, and grows.
                let mut all = BytesMut::from(whole);
                all.extend_from_slice(&data);
                all.freeze()
            }
        };
    }
    Ok(whole)
}
