//! Splits a batch by tenant, keeps what fits the limit of each tenant, and drops the rest.
//!
//! Each part is reserved. One that could only be used later is cancelled by dropping the reservation, so that what is
//! dropped costs its tenant nothing.
//!
//! Run: `cargo run -p plimsoll-kinds --example split_batch`

#![expect(clippy::print_stdout, reason = "an example that shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;

use plimsoll::{Clock, Denied, Gate, InvalidLimit, Quota, TokenBucket};
use plimsoll_kinds::{Permits, Provider, Weight};

/// A line of a log, and whose it is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) tenant: &'static str,
    pub(crate) text: &'static str,
}

/// The limits of each tenant. Those of whom nothing is known share one.
pub(crate) struct Tenants {
    known: BTreeMap<&'static str, Provider>,
    others: Provider,
}

impl Tenants {
    /// So many lines a second for each tenant, and one for all others.
    pub(crate) fn new(lines: &[(&'static str, u64)], clock: &Clock) -> Result<Self, InvalidLimit> {
        let provider = |name: &str, lines| {
            let gate = Gate::builder(TokenBucket::greedy(Quota::per_second(lines)))
                .name(name)
                .clock(clock.clone());
            let provider = Provider::builder().limit(Weight::REQUEST_ITEMS, gate.build());
            provider.build()
        };
        let known = lines.iter().map(|(name, lines)| {
            let provider = provider(name, *lines)?;
            Ok((*name, provider))
        });
        Ok(Self {
            known: known.collect::<Result<_, _>>()?,
            others: provider("others", 1)?,
        })
    }

    pub(crate) fn of(&self, tenant: &str) -> &Provider {
        self.known.get(tenant).unwrap_or(&self.others)
    }

    /// What may be used now, with the permits for it; the rest is gone.
    pub(crate) fn keep_fitting(&self, batch: Vec<Line>) -> Result<(Vec<Line>, Held<'_>), Denied> {
        let mut parts: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
        for line in batch {
            parts.entry(line.tenant).or_default().push(line);
        }
        let (mut kept, mut held) = (Vec::new(), Vec::new());
        for (tenant, part) in parts {
            let count = u64::try_from(part.len()).unwrap_or(u64::MAX);
            match self.of(tenant).reserve(&[(Weight::REQUEST_ITEMS, count)]) {
                Ok(reserved) if reserved.is_ready() => {
                    held.push(reserved.wait_blocking()?);
                    kept.extend(part);
                }
                Ok(reserved) => drop(reserved),
                Err(_too_large) => {}
            }
        }
        Ok((kept, held))
    }
}

/// To be held until the lines have been used.
pub(crate) type Held<'a> = Vec<Permits<'a>>;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let tenants = Tenants::new(&[("red", 3), ("blue", 1)], &Clock::system())?;
    let line = |tenant, text| Line { tenant, text };
    let batch = vec![
        line("red", "a"),
        line("blue", "b"),
        line("red", "c"),
        line("blue", "d"),
    ];
    let (kept, held) = tenants.keep_fitting(batch)?;
    println!("kept {kept:?}");
    drop(held);
    Ok(())
}
