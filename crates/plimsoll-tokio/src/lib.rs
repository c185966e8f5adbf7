//! Limits for what moves through tokio: channels, byte streams, streams of items, connections.
