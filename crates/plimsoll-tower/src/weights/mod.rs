//! Limits by weight, measured by the layer itself.
//!
//! A [`Provider`](plimsoll_kinds::Provider) has a limiter for each weight that is limited. A [`WeightsLayer`] measures the
//! weights of requests and asks for them:
//!
//! | weight | measured | asked |
//! |---|---|---|
//! | `request_count` | 1 | before the request is passed on; held until its response has been sent |
//! | `network_bytes` | bytes of bodies in both directions as they pass, also of chunked bodies and messages of gRPC | for each part before it is passed on: a body above the limit waits, and with it its connection |
//! | `memory_size` | the stated length of a request, and the bytes of its body beyond that as it is read | the stated length before the request is passed on, the rest at once or not at all; held until the response has been sent |
//! | `request_items` and others | by the handler, or by a function of the decoded message | when they are [taken](Weights::take) |
//!
//! Saturation is checked first, for all weights.
//!
//! ```
//! use plimsoll::{Concurrency, Gate, Queue, TokenBucket};
//! use plimsoll_kinds::{Provider, Weight};
//! use plimsoll_tower::weights::WeightsLayer;
//!
//! let provider = Provider::builder()
//!     .limit(Weight::REQUEST_COUNT, Gate::new(Concurrency::new(100)))
//!     .limit(Weight::NETWORK_BYTES, Gate::builder(TokenBucket::per_second(1 << 20)).queue(Queue::fifo(1 << 30)).build())
//!     .limit(Weight::MEMORY_SIZE, Gate::new(Concurrency::new(64 << 20)))
//!     .build()?;
//! let layer = WeightsLayer::try_new(&provider)?;
//! # let _ = layer;
//! # Ok::<(), plimsoll::InvalidLimit>(())
//! ```
//!
//! Bytes on the network can only be limited by a rate, because they are never returned.
//! [`try_new`](WeightsLayer::try_new) returns an error for a resource. A request that holds memory does not wait for
//! more, because two requests that wait for each other would deadlock: the body of a request that gets no more memory
//! fails with the refusal.
//!
//! # Items
//!
//! The number of items of a request is known when it has been decoded. A handler finds [`Weights`] in the extensions of the
//! request; for a service whose requests are messages, [`items`] makes a layer from a function of the message.
//!
//! # Which requests are refused
//!
//! A request that finds no room for `request_count` or for its stated `memory_size` gets a response of the layer, as
//! with an [`HttpLimitLayer`](crate::HttpLimitLayer). Later refusals can no longer change the response: the body of the
//! request or of the response fails with a [`Denied`](plimsoll::Denied), and [`Weights::take`] returns it.
//!
//! # Choosing the limiters
//!
//! - `request_count` and `memory_size` are held while a request is in flight: a [`Concurrency`](plimsoll::Concurrency) limit, or
//!   an adaptive one. With a rate, nothing is returned when the response has been sent.
//! - `network_bytes` is a rate with a queue. Without a queue, a body above the rate fails at once.
//! - Parts of a body that are larger than the burst of the rate are taken in several steps, so the burst need not be as large as
//!   the largest part.
//!
//! ```
//! use plimsoll::{Gate, Queue, TokenBucket};
//! use plimsoll_kinds::{Provider, Weight};
//! use plimsoll_tower::weights::WeightsLayer;
//!
//! // 1 MiB per second, in steps of 64 KiB; up to 16 MiB wait.
//! let rate = TokenBucket::per_second(1 << 20).burst(64 << 10);
//! let bandwidth = Gate::builder(rate).queue(Queue::fifo(16 << 20)).name("bandwidth").build();
//! let provider = Provider::builder().limit(Weight::NETWORK_BYTES, bandwidth).build()?;
//! let layer = WeightsLayer::new(&provider);
//! # let _ = layer;
//! # Ok::<(), plimsoll::InvalidLimit>(())
//! ```

mod items;
mod layer;
mod measured;
mod service;
mod subject;
mod taken;

pub use items::{Items, items};
pub use layer::{WeighedLayer, WeightsLayer};
pub use measured::MeasuredBody;
pub use service::{Measured, MeasuredFuture};
#[doc(hidden)]
pub use subject::{ByWeight, Weighed};
pub use taken::Weights;
