//! The smallest limit that refuses no more than a share, found by replaying.
//!
//! Each pass over the logs tries several numbers for each limit at once, alone and with real limiters; the next pass tries
//! numbers between the largest that refused too much and the smallest that did not.

use plimsoll_config::{Config, ConfigError};
use plimsoll_engine::{Hold, Limits, Refusal};
use serde_json::Value;

use crate::described::{document, number, read, with_number, words};
use crate::peaks::{Peaks, SPANS};
use crate::report::{PeakReport, SuggestedLimit, share};
use crate::tally::is_refused;
use crate::world::{Brief, Role, Sink, World};

/// The number of candidates for a limit in one pass.
const TRIED: u64 = 8;

/// The largest number that is suggested.
const MOST: u64 = 1 << 40;

/// The search for one limit.
pub(crate) struct Search {
    pub(crate) limit: usize,
    name: String,
    now: Value,
    /// The largest known number that refuses too much.
    low: u64,
    /// The smallest known number that refuses at most the fraction, and the fraction that it refuses.
    high: Option<(u64, f64)>,
    /// The largest candidate of the next pass, while `high` is unknown.
    reach: u64,
}

impl Search {
    /// Creates a search for each limit that has one number and applies to at least one request.
    pub(crate) fn all(config: &Config, asked: &[u64], peaks: &[u64]) -> Vec<Self> {
        let document = document(config);
        let of = |(limit, name): (usize, &str)| {
            let now = document.get("limits")?.get(name)?.clone();
            number(&now)?;
            (asked[limit] > 0).then(|| Self {
                limit,
                name: name.to_owned(),
                now,
                low: 0,
                high: None,
                reach: peaks[limit].max(16),
            })
        };
        config.limiters().enumerate().filter_map(of).collect()
    }

    /// Whether the search has ended: the number is known exactly, or to 0.5 % if it is large.
    fn is_done(&self) -> bool {
        self.high
            .is_some_and(|(high, _)| high.saturating_sub(self.low) <= (high / 200).max(1))
            || self.low >= MOST
    }

    /// The numbers to try next.
    fn next(&self) -> Vec<u64> {
        let mut tried = Vec::new();
        if self.is_done() {
            return tried;
        }
        let high = self.high.map_or(self.reach, |(high, _)| high);
        let span = high.saturating_sub(self.low);
        for step in 1..=TRIED {
            // All numbers if they are few, otherwise numbers with equal ratios.
            let ratio =
                (high as f64 / (self.low.max(1)) as f64).powf(step as f64 / (TRIED + 1) as f64);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it lies between two whole numbers"
            )]
            let geometric = (self.low.max(1) as f64 * ratio) as u64;
            let at = if span <= TRIED + 1 {
                self.low + step
            } else {
                geometric
            };
            if at > self.low && at < high && !tried.contains(&at) {
                tried.push(at);
            }
        }
        if self.high.is_none() {
            tried.push(high);
        }
        tried
    }

    fn tell(&mut self, tried: u64, refused: f64, most: f64) {
        if refused <= most {
            if self.high.is_none_or(|(high, _)| tried < high) {
                self.high = Some((tried, refused));
            }
        } else if self.high.is_none_or(|(high, _)| tried < high) {
            self.low = self.low.max(tried);
            self.reach = self.reach.max(self.low.saturating_mul(8)).min(MOST);
        }
    }

    pub(crate) fn report(&self, peaks: &mut Peaks, now_share: f64) -> SuggestedLimit {
        let suggested = self.high.and_then(|(high, _)| with_number(&self.now, high));
        SuggestedLimit {
            limit: self.name.clone(),
            peaks: peak_reports(peaks),
            now: words(&self.now),
            now_share,
            suggested: suggested.map(|limit| words(&limit)),
            number: self.high.map(|(high, _)| high),
            suggested_share: self.high.map(|(_, refused)| refused),
        }
    }
}

fn peak_reports(peaks: &mut Peaks) -> Vec<PeakReport> {
    let all = peaks.percentiles(&[50.0, 90.0, 99.0, 99.9, 100.0]);
    let of = |(seconds, values): (i64, Vec<u64>)| match values[..] {
        [p50, p90, p99, p999, most] => Some(PeakReport {
            seconds,
            p50,
            p90,
            p99,
            p999,
            most,
        }),
        _ => None,
    };
    SPANS.into_iter().zip(all).filter_map(of).collect()
}

/// The limits of one pass, each with a candidate for its number.
pub(crate) struct Candidates {
    of: Vec<Candidate>,
}

pub(crate) struct Candidate {
    search: usize,
    number: u64,
    /// The position of the limit in its own limits.
    pub(crate) limit: usize,
    pub(crate) limits: Limits,
    asked: u64,
    refused: u64,
}

impl Candidates {
    /// The candidates of all searches. `None` if all searches have ended.
    pub(crate) fn of(
        searches: &[Search],
        config: &Config,
        world: &World,
    ) -> Result<Option<Self>, ConfigError> {
        let document = document(config);
        let mut of = Vec::new();
        for (index, search) in searches.iter().enumerate() {
            for number in search.next() {
                let mut document = document.clone();
                document["limits"][&search.name] =
                    with_number(&search.now, number).unwrap_or_default();
                let config = read(&document)?.for_records();
                let limits = world.limits(&config)?;
                let limit = limits.names().iter().position(|name| *name == search.name);
                of.push(Candidate {
                    search: index,
                    number,
                    limit: limit.unwrap_or(0),
                    limits,
                    asked: 0,
                    refused: 0,
                });
            }
        }
        Ok((!of.is_empty()).then_some(Self { of }))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, &Limits, usize)> {
        self.of
            .iter()
            .enumerate()
            .map(|(index, it)| (index, &it.limits, it.limit))
    }

    /// Updates the searches with the results.
    pub(crate) fn tell(&self, searches: &mut [Search], most: f64) {
        for it in &self.of {
            searches[it.search].tell(it.number, share(it.refused, it.asked), most);
        }
    }
}

impl Sink for Candidates {
    fn decided(
        &mut self,
        role: Role,
        _: &Brief,
        _: &dyn Fn() -> String,
        decided: &Result<Hold, Refusal>,
        _: u64,
    ) {
        if let Role::Candidate(index) = role {
            let it = &mut self.of[index];
            it.asked += 1;
            it.refused += u64::from(is_refused(decided));
        }
    }
}
