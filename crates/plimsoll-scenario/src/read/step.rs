//! Reads the steps of a scenario, in order: a step may only use names that an earlier one defined.

use std::collections::BTreeSet;

use plimsoll_spec::scalar::{fraction, nearest, text, total, word};
use plimsoll_spec::{Entry, Fields, Node, Problem, Read, Value, each, label, quote};

use super::expect;
use super::units::nanos;
use super::verb::{MODIFIERS, VERBS, verb};
use crate::spec::{Gauge, LimiterSpec, Settled, Step, Verb};

/// Reads `steps`; the first one is at `start` unless it says otherwise.
pub(crate) fn steps(node: &Node, limiter: &LimiterSpec, start: u64) -> Read<Vec<Step>> {
    let mut reader = Reader {
        limiter,
        now: start,
        names: BTreeSet::new(),
        known: known(),
    };
    each(node, "a list of steps", |node| reader.step(node))
}

fn known() -> Vec<&'static str> {
    let verbs = VERBS.iter().map(|(word, _)| *word);
    let gauges = Gauge::EVERY.iter().map(|(word, _)| *word);
    let others = ["at", "key", "saturation", "settled", "events"];
    verbs.chain(MODIFIERS).chain(others).chain(gauges).collect()
}

/// The words of all events.
pub(crate) const EVENTS: [&str; 9] = [
    "limit_changed",
    "queue_bound_changed",
    "in_use_changed",
    "queued_changed",
    "enqueued",
    "dequeued",
    "processing",
    "processed",
    "rejected",
];

struct Reader<'a> {
    limiter: &'a LimiterSpec,
    now: u64,
    names: BTreeSet<String>,
    known: Vec<&'static str>,
}

impl Reader<'_> {
    fn step(&mut self, node: &Node) -> Read<Step> {
        let fields = Fields::any(node, "a step such as { try: 1, expect: granted }")?;
        fields.only("a step", &self.known)?;
        self.now = fields.optional("at", nanos)?.unwrap_or(self.now);
        let key = fields.optional("key", text)?;
        let name = fields.optional("as", text)?;
        let (verb, expect) = verb(&fields, self.limiter)?;
        self.check_key(&fields, verb.as_ref())?;
        self.check_names(&fields, verb.as_ref())?;
        self.names.extend(name.clone());
        if let Some(Verb::Split { part, .. }) = &verb {
            self.names.insert(part.clone());
        }
        let gauges = Gauge::EVERY.iter().filter_map(|(word, gauge)| {
            let number = fields.optional(word, total).transpose()?;
            Some(number.map(|number| (*gauge, number)))
        });
        Ok(Step {
            place: fields.place,
            at: self.now,
            key,
            verb,
            name,
            expect,
            gauges: gauges.collect::<Read<_>>()?,
            saturation: fields.optional("saturation", fraction)?,
            settled: fields
                .optional("settled", |node| self.settled(node))?
                .unwrap_or_default(),
            events: fields.optional("events", |node| self.events(node))?,
        })
    }

    /// Reads the words of the expected events.
    fn events(&self, node: &Node) -> Read<Vec<&'static str>> {
        let kind = &self.limiter.spec.kind;
        if kind.is_by_key() || matches!(kind.word(), "all" | "memory" | "cpu") {
            let message = format!("the limiter `{}` has no events of its own", kind.word());
            return Err(Problem::new(node.place, message));
        }
        if matches!(&node.value, Value::Scalar { text, .. } if text == "none") {
            return Ok(Vec::new());
        }
        each(
            node,
            "`none`, or a list of events such as [enqueued, dequeued]",
            |node| word(node, &EVENTS.map(|event| (event, event))),
        )
    }

    /// Checks that a step has a key exactly if the limiter has keys.
    fn check_key(&self, fields: &Fields<'_>, verb: Option<&Verb>) -> Read<()> {
        let given = fields.get("key").is_some();
        if given && !self.limiter.spec.common.keyed {
            return Err(fields.problem("key", "only a limiter with `keyed: true` has keys"));
        }
        let asks = matches!(
            verb,
            Some(
                Verb::Try(_)
                    | Verb::Acquire(_)
                    | Verb::Reserve(_)
                    | Verb::Estimate(_)
                    | Verb::TakeUpTo(_)
            )
        );
        if asks && self.limiter.spec.common.keyed && !given {
            return Err(Problem::new(
                fields.place,
                "the limiter is `keyed: true`, so the field `key` is needed here",
            ));
        }
        Ok(())
    }

    fn check_names(&self, fields: &Fields<'_>, verb: Option<&Verb>) -> Read<()> {
        let (word, names) = match verb {
            Some(Verb::Release(name)) => ("release", vec![name]),
            Some(Verb::ForgetPermit(name)) => ("forget_permit", vec![name]),
            Some(Verb::Cancel(name)) => ("cancel", vec![name]),
            Some(Verb::Split { name, .. }) => ("split", vec![name]),
            Some(Verb::Merge { name, other }) => ("merge", vec![name, other]),
            _ => return Ok(()),
        };
        match names.into_iter().find(|name| !self.names.contains(*name)) {
            Some(name) => Err(fields.problem(word, self.unknown_name(name))),
            None => Ok(()),
        }
    }

    fn unknown_name(&self, name: &str) -> String {
        let hint = nearest(name, self.names.iter().map(String::as_str));
        format!("no step up to here has `as: {}`{hint}", quote(name))
    }

    fn settled(&self, node: &Node) -> Read<Vec<(String, Settled)>> {
        let fields = Fields::any(node, "a map from names to what became of them")?;
        let one = |Entry { key, place, value }: &Entry| {
            if !self.names.contains(key) {
                return Err(Problem::new(*place, self.unknown_name(key)).under_key(&label(key)));
            }
            let settled =
                expect::settled(value).map_err(|problem| problem.under_key(&label(key)))?;
            Ok((key.clone(), settled))
        };
        fields.iter().map(one).collect()
    }
}
