//! From the words of the format to the rules, wherever they are kept.

use std::time::Duration;

use plimsoll::{
    Bandwidths, FixedWindow, InvalidLimit, Quota, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket,
};

use crate::spec::{Align, Bandwidth, Style};

pub(crate) fn fixed_window(
    limit: u32,
    window: Duration,
    align: Align,
) -> Result<FixedWindow, InvalidLimit> {
    let window = FixedWindow::new(Quota::try_new(limit, window)?);
    Ok(match align {
        Align::Start => window,
        Align::Epoch => window.aligned_to_epoch(),
    })
}

pub(crate) fn sliding_window(
    limit: u32,
    window: Duration,
    segments: u32,
) -> Result<SlidingWindow, InvalidLimit> {
    SlidingWindow::try_new(Quota::try_new(limit, window)?, segments)
}

pub(crate) fn sliding_counter(
    limit: u32,
    window: Duration,
) -> Result<SlidingCounter, InvalidLimit> {
    Ok(SlidingCounter::new(Quota::try_new(limit, window)?))
}

pub(crate) fn sliding_log(
    limit: u32,
    window: Duration,
    min_gap: Duration,
    count_denied: bool,
) -> Result<SlidingLog, InvalidLimit> {
    let log = SlidingLog::new(Quota::try_new(limit, window)?).try_with_min_gap(min_gap)?;
    Ok(if count_denied {
        log.counting_refusals()
    } else {
        log
    })
}

/// Several bandwidths, also when they take the place of others.
pub(crate) fn bandwidths(limits: &[Bandwidth]) -> Result<Bandwidths, InvalidLimit> {
    let buckets = limits
        .iter()
        .map(|limit| Ok((limit.id.as_deref(), token_bucket(limit)?)))
        .collect::<Result<Vec<_>, InvalidLimit>>()?;
    Bandwidths::try_new(buckets)
}

pub(crate) fn token_bucket(spec: &Bandwidth) -> Result<TokenBucket, InvalidLimit> {
    let quota = Quota::try_new(spec.refill, spec.every)?;
    let bucket = match spec.style {
        Style::Interval => TokenBucket::interval(quota),
        Style::Greedy => TokenBucket::greedy(quota),
    };
    bucket
        .try_with_burst(spec.burst)?
        .try_with_initial(spec.initial.unwrap_or(spec.burst))
}
