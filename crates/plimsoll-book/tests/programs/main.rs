//! The programs of the book, each as its page shows it, over real sockets.

mod from_a_file;
mod outbound;
mod pages;
mod proxy;
mod redis;
mod server;
mod shedding;
mod tiers;
mod tokens;
