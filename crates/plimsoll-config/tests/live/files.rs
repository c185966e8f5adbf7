//! Files as text: read, built and replaced; and a future that is asked once.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use plimsoll::ManualClock;
use plimsoll_config::{Changes, Config, Format, Limits};

pub(crate) fn config(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn build(text: &str, time: &ManualClock) -> Limits {
    config(text).build(&time.clock()).expect("builds")
}

pub(crate) fn replace(limits: &Limits, text: &str) -> Changes {
    limits.replace(&config(text)).expect("builds")
}

pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
