//! Distributions of durations.

use plimsoll_spec::scalar::{expected, fraction, period, rate};
use plimsoll_spec::{Fields, Node, Problem, Read, Value, each, label, scalar};

use super::shape;
use crate::mix::Mix;
use crate::work::Work;

/// The largest `sigma`. Above it, no realistic sample has the mean of a lognormal distribution.
const WIDEST: f64 = 5.0;

const A_SERVICE: &str = "a duration, or one of { constant: 50ms }, { exponential: { mean: 50ms } }, \
                         { lognormal: { mean: 50ms, sigma: 0.5 } }, { bimodal: { fast: 20ms, slow: 500ms, \
                         share: 0.05 } }, { pareto: { least: 20ms, alpha: 1.5 } }";

type WorkRow = (&'static str, fn(&Node) -> Read<Work>);
const WORKS: [WorkRow; 5] = [
    ("constant", constant),
    ("exponential", exponential),
    ("lognormal", lognormal),
    ("bimodal", bimodal),
    ("pareto", pareto),
];

/// Reads a distribution, or a mix of several.
pub(super) fn mix(node: &Node) -> Read<Mix> {
    if let Value::Map(_) = node.value
        && let Some(entry) = Fields::any(node, A_SERVICE)?.get("mix")
    {
        Fields::of(node, "a service", &["mix"])?;
        return kinds(&entry.value).map_err(|problem| problem.under_key("mix"));
    }
    work(node).map(Mix::one)
}

fn kinds(node: &Node) -> Read<Mix> {
    let kinds = each(node, "a list of { weight, service }", |item| {
        let fields = Fields::of(item, "a kind of work", &["weight", "service"])?;
        let weight = fields.required("weight", shape::amounts)?;
        Ok((weight, fields.required("service", work)?))
    })?;
    let none = |at: &u64| kinds.iter().all(|(weight, _)| weight.at(*at) <= 0.0);
    let corners = kinds.iter().flat_map(|(weight, _)| weight.corners());
    let corners: Vec<u64> = corners.flat_map(|at| [at.saturating_sub(1), at]).collect();
    if let Some(at) = corners.into_iter().find(none) {
        let seconds = crate::num::seconds(at);
        let message = format!("at {seconds} s no kind of work has a weight above 0");
        return Err(Problem::new(node.place, message));
    }
    Ok(Mix::of(kinds))
}

/// Reads a distribution: a map with its name as the only field. A duration alone is a constant.
pub(super) fn work(node: &Node) -> Read<Work> {
    if let Value::Scalar { .. } = node.value {
        return constant(node);
    }
    let fields = Fields::any(node, A_SERVICE)?;
    let mut entries = fields.iter();
    let (Some(entry), None) = (entries.next(), entries.next()) else {
        return Err(expected(A_SERVICE, node));
    };
    let Some((_, read)) = WORKS.iter().find(|(word, _)| *word == entry.key) else {
        let hint = scalar::nearest(&entry.key, WORKS.iter().map(|(word, _)| *word));
        let problem = Problem::new(entry.place, format!("unknown distribution{hint}"));
        return Err(problem.under_key(&label(&entry.key)));
    };
    read(&entry.value).map_err(|problem| problem.under_key(&entry.key))
}

fn constant(node: &Node) -> Read<Work> {
    period(node).map(Work::constant)
}

fn exponential(node: &Node) -> Read<Work> {
    let fields = Fields::of(node, "an exponential distribution", &["mean"])?;
    fields.required("mean", period).map(Work::exponential)
}

fn lognormal(node: &Node) -> Read<Work> {
    let fields = Fields::of(node, "a lognormal distribution", &["mean", "sigma"])?;
    let mean = fields.required("mean", period)?;
    fields.required("sigma", |node| {
        let sigma = fraction(node).ok().filter(|sigma| *sigma <= WIDEST);
        let work = sigma.and_then(|sigma| Work::lognormal(mean, sigma));
        work.ok_or_else(|| expected("a number from 0 to 5", node))
    })
}

fn bimodal(node: &Node) -> Read<Work> {
    let fields = Fields::of(node, "a bimodal distribution", &["fast", "slow", "share"])?;
    let fast = fields.required("fast", period)?;
    let slow = fields.required("slow", period)?;
    let share = |node: &Node| {
        let share = fraction(node).ok().filter(|share| *share <= 1.0);
        share.ok_or_else(|| expected("the share of the slow, from 0 to 1", node))
    };
    Ok(Work::bimodal(fast, slow, fields.required("share", share)?))
}

fn pareto(node: &Node) -> Read<Work> {
    let fields = Fields::of(node, "a Pareto distribution", &["least", "alpha"])?;
    let least = fields.required("least", period)?;
    fields.required("alpha", |node| {
        Work::pareto(least, rate(node)?).ok_or_else(|| expected("a number above 0", node))
    })
}
