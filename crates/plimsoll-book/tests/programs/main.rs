//! The programs of the book, each as its page shows it, over real sockets.

mod behind_nginx;
mod from_a_file;
mod model_tokens;
mod outbound;
mod pages;
mod redis;
mod server;
mod shedding;
mod tiers;
