//! The traffic model.

use plimsoll_spec::scalar::{count, expected, fraction, nearest, word};
use plimsoll_spec::{Fields, Node, Problem, Read, Value, each, label};

use super::work::work;
use super::{shape, span};
use crate::class::{CLASSES, NORMAL};
use crate::num::NANOS;
use crate::profile::Profile;
use crate::simulation::{Bursts, Clients, Retries, Traffic};

/// Maximum number of requests a second, and of clients. A larger number is an error.
const MOST: f64 = 1e6;
/// The shortest mean think time and the shortest delay of a retry, in nanoseconds. Clients without one could send requests
/// endlessly at one moment.
const LEAST_THINKING: f64 = 1e6;
const RETRY_DELAY: u64 = NANOS / 10;

pub(super) fn traffic(fields: &Fields<'_>) -> Read<Traffic> {
    let rate = fields.optional("rate", rates)?;
    let clients = fields.optional("clients", clients)?;
    let bursts = fields.optional("bursts", bursts)?;
    if rate.is_none() && clients.is_none() && bursts.is_none() {
        let message =
            "expected one of `rate`, `bursts` and `clients`: there is no traffic without them";
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
                std::array::from_fn(|class| Profile::constant(f64::from(u8::from(class == NORMAL))))
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

/// Reads the period (`every`) and the length (`for`) of a recurring event.
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
        let think = work(node)?;
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
    let known = [
        "times",
        "delay",
        "factor",
        "max_delay",
        "jitter",
        "budget",
        "on",
    ];
    let fields = Fields::of(node, "retries", &known)?;
    let on = fields.optional("on", causes)?;
    let share = |what: &'static str| {
        move |node: &Node| {
            let share = fraction(node).ok().filter(|share| *share <= 1.0);
            share.ok_or_else(|| expected(what, node))
        }
    };
    let factor = |node: &Node| {
        let factor = fraction(node).ok().filter(|it| (1.0..=1000.0).contains(it));
        factor.ok_or_else(|| expected("a number from 1 to 1000", node))
    };
    let delay = |node: &Node| {
        let delay = span(node)?;
        if (delay as f64) < LEAST_THINKING {
            return Err(expected("a delay of 1ms or longer", node));
        }
        Ok(delay)
    };
    let (refused, failed) = on.unwrap_or((true, false));
    Ok(Retries {
        times: fields.required("times", |node| count(node, 1))?,
        delay: fields.optional("delay", delay)?.unwrap_or(RETRY_DELAY),
        factor: fields.optional("factor", factor)?.unwrap_or(1.0),
        most: fields.optional("max_delay", delay)?.unwrap_or(u64::MAX),
        jitter: fields
            .optional("jitter", share("a part of the delay from 0 to 1"))?
            .unwrap_or(0.5),
        budget: fields.optional("budget", share("a share of the requests from 0 to 1"))?,
        refused,
        failed,
    })
}

/// Reads the causes of retries: whether clients retry after a refusal, and after an error.
fn causes(node: &Node) -> Read<(bool, bool)> {
    const CAUSES: [(&str, bool); 2] = [("refused", true), ("failed", false)];
    let causes = match node.value {
        Value::List(_) => each(node, "a list of refused and failed", |item| {
            word(item, &CAUSES)
        })?,
        _ => vec![word(node, &CAUSES)?],
    };
    Ok((causes.contains(&true), causes.contains(&false)))
}

/// Reads the number of processes, or the share of the traffic of each.
pub(super) fn processes(node: &Node) -> Read<Vec<f64>> {
    const MOST: u32 = 100;
    if !matches!(node.value, Value::List(_)) {
        let number = count(node, 1).ok().filter(|count| *count <= MOST);
        let what = "a number of processes from 1 to 100, or a list of their shares of the traffic";
        let number = number.ok_or_else(|| expected(what, node))?;
        return Ok(vec![1.0 / f64::from(number); number as usize]);
    }
    let shares = each(node, "a list of shares", |item| {
        let share = fraction(item).ok().filter(|share| *share <= 1.0);
        share.ok_or_else(|| expected("a share from 0 to 1", item))
    })?;
    if shares.len() > MOST as usize {
        return Err(expected("at most 100 shares", node));
    }
    whole(node, shares.iter().sum())?;
    Ok(shares)
}

fn whole(node: &Node, sum: f64) -> Read<()> {
    if (sum - 1.0).abs() > 1e-6 {
        let message = format!("the shares must sum up to 1, and sum up to {sum}");
        return Err(Problem::new(node.place, message));
    }
    Ok(())
}

fn priorities(node: &Node) -> Read<[Profile; CLASSES.len()]> {
    let fields = Fields::any(node, "a map of priorities to their shares")?;
    let mut shares = [(); CLASSES.len()].map(|()| Profile::constant(0.0));
    for entry in fields.iter() {
        let class = class(&entry.key)
            .map_err(|hint| Problem::new(entry.place, format!("unknown priority{hint}")))
            .map_err(|problem| problem.under_key(&label(&entry.key)))?;
        shares[class] = shape::shares(&entry.value).map_err(|it| it.under_key(&entry.key))?;
    }
    // Between the corners of all shares, the sum is a straight line. Jumps are at corners.
    for at in shares.iter().flat_map(Profile::corners) {
        for at in [at.saturating_sub(1), at] {
            whole(node, shares.iter().map(|share| share.at(at)).sum())?;
        }
    }
    Ok(shares)
}

/// The class with this name, or an error message.
pub(super) fn class(name: &str) -> Result<usize, String> {
    let words = CLASSES.iter().map(|(word, _)| *word);
    let found = words.clone().position(|word| word == name);
    found.ok_or_else(|| nearest(name, words))
}
