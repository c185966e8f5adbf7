//! Who asks.

use plimsoll_spec::scalar::{count, expected, fraction, nearest};
use plimsoll_spec::{Fields, Node, Problem, Read, label};

use super::{server, shape, span};
use crate::class::{CLASSES, NORMAL};
use crate::num::NANOS;
use crate::profile::Profile;
use crate::simulation::{Bursts, Clients, Retries, Traffic};

/// More requests a second, or clients, than this are a mistake.
const MOST: f64 = 1e6;
/// Clients that do not think would ask for ever at one moment.
const LEAST_THINKING: f64 = 1e6;
const RETRY_DELAY: u64 = NANOS / 10;

pub(super) fn traffic(fields: &Fields<'_>) -> Read<Traffic> {
    let rate = fields.optional("rate", rates)?;
    let clients = fields.optional("clients", clients)?;
    let bursts = fields.optional("bursts", bursts)?;
    if rate.is_none() && clients.is_none() && bursts.is_none() {
        let message =
            "one of `rate`, `bursts` and `clients` must be there: nobody asks for anything";
        return Err(Problem::new(fields.place, message));
    }
    Ok(Traffic {
        rate: rate.unwrap_or_else(|| Profile::constant(0.0)),
        bursts,
        clients,
        retries: fields.optional("retries", retries)?,
        shares: fields
            .optional("priorities", priorities)?
            .unwrap_or_else(|| {
                let mut shares = [0.0; CLASSES.len()];
                shares[NORMAL] = 1.0;
                shares
            }),
    })
}

fn rates(node: &Node) -> Read<Profile> {
    shape::profile(node, rate)
}

fn rate(node: &Node) -> Read<f64> {
    let wanted = || expected("a number of requests a second, from 0 to 1000000", node);
    fraction(node)
        .ok()
        .filter(|rate| *rate <= MOST)
        .ok_or_else(wanted)
}

fn bursts(node: &Node) -> Read<Bursts> {
    let fields = Fields::of(node, "bursts", &["every", "for", "rate"])?;
    let (every, length) = regularly(&fields)?;
    Ok(Bursts {
        every,
        length,
        rate: fields.required("rate", rate)?,
    })
}

/// What happens for a while, again and again.
pub(super) fn regularly(fields: &Fields<'_>) -> Read<(u64, u64)> {
    let every = fields.required("every", span)?;
    let length = fields.required("for", span)?;
    if length >= every {
        return Err(fields.problem("for", "must be shorter than `every`"));
    }
    Ok((every, length))
}

fn clients(node: &Node) -> Read<Clients> {
    let fields = Fields::of(node, "clients", &["count", "think"])?;
    let think = |node: &Node| {
        let think = server::work(node)?;
        if think.mean().is_some_and(|mean| mean < LEAST_THINKING) {
            return Err(expected("clients that think for 1ms or longer", node));
        }
        Ok(think)
    };
    Ok(Clients {
        count: fields.required("count", |node| {
            let wanted = || expected("a whole number from 1 to 1000000", node);
            let number = count(node, 1).ok();
            number
                .filter(|count| f64::from(*count) <= MOST)
                .ok_or_else(wanted)
        })?,
        think: fields.required("think", think)?,
    })
}

fn retries(node: &Node) -> Read<Retries> {
    let fields = Fields::of(node, "retries", &["times", "delay"])?;
    Ok(Retries {
        times: fields.required("times", |node| count(node, 1))?,
        delay: fields.optional("delay", span)?.unwrap_or(RETRY_DELAY),
    })
}

fn priorities(node: &Node) -> Read<[f64; CLASSES.len()]> {
    let fields = Fields::any(node, "a map of priorities to their shares")?;
    let mut shares = [0.0; CLASSES.len()];
    for entry in fields.iter() {
        let class = class(&entry.key)
            .map_err(|hint| Problem::new(entry.place, format!("unknown priority{hint}")))
            .map_err(|problem| problem.under_key(&label(&entry.key)))?;
        shares[class] = fraction(&entry.value)
            .ok()
            .filter(|share| *share <= 1.0)
            .ok_or_else(|| expected("a share from 0 to 1", &entry.value).under_key(&entry.key))?;
    }
    let sum: f64 = shares.iter().sum();
    if (sum - 1.0).abs() > 1e-6 {
        let message = format!("the shares must sum up to 1, and sum up to {sum}");
        return Err(Problem::new(node.place, message));
    }
    Ok(shares)
}

/// The class of that name, or what to say if there is none.
pub(super) fn class(name: &str) -> Result<usize, String> {
    let words = CLASSES.iter().map(|(word, _)| *word);
    let found = words.clone().position(|word| word == name);
    found.ok_or_else(|| nearest(name, words))
}
