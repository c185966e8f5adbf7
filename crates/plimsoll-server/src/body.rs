//! Reads request bodies into memory, up to a size limit.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use hyper::body::Body;

/// Maximum length of a request body.
pub(crate) const LONGEST_BODY: usize = 256 * 1024;

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLong,
    /// The connection failed or the body timed out.
    Broken(String),
}

/// Reads a body of at most `longest` bytes. A body of one frame is not copied.
pub(crate) async fn read_to_end<B>(mut body: B, longest: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    let mut bytes = Bytes::new();
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await else {
            break;
        };
        let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > longest - bytes.len() {
            return Err(BodyError::TooLong);
        }
        bytes = match bytes.is_empty() {
            true => data,
            false => {
                // From the second frame on the buffer is not shared, so it grows in place.
                let mut all = BytesMut::from(bytes);
                all.extend_from_slice(&data);
                all.freeze()
            }
        };
    }
    Ok(bytes)
}
