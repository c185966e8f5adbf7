//! Limits by weight, measured by the layer itself.
//!
//! A [`Provider`](plimsoll_kinds::Provider) has a limiter for each weight that is limited. A [`WeightsLayer`] measures the weights of
//! requests and asks for them:
//!
//! | weight | measured | asked |
//! |---|---|---|
//! | `request_count` | 1 | before the request goes on; held until its response has been sent |
//! | `network_bytes` | bytes of bodies, in both directions, as they pass: chunked bodies and messages of gRPC too | for each part before it is passed on: who is over the limit waits, and with it its connection |
//! | `memory_size` | the length that a request states, and what its body has beyond that as it is read | a stated length before the request goes on, the rest at once or not at all; held until the response has been sent |
//! | `request_items` and others | by the handler, or by a function of the decoded message | when they are [taken](Weights::take) |
//!
//! Whether anything is saturated is checked first, for all weights.
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
//! Bytes on the network can only be limited by a rate: nobody could give them back. A resource for them is an error of
//! [`try_new`](WeightsLayer::try_new). A request that holds memory does not wait for more, because two that wait for each
//! other would wait for ever: the body of a request that finds no more fails with the refusal.
//!
//! # Items
//!
//! How many items a request has is known when it has been decoded. A handler finds [`Weights`] in the extensions of the
//! request; in a service whose requests are messages, [`items`] makes a layer of a function of the message.

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
