//! The cases in which nobody waits.

use std::time::Duration;

use crate::asking::{Answer, Trial};
use crate::contender::{Contender, Rounds};
use crate::report::Case;
use crate::{calls, floors, limiters, permits};

pub(crate) const GRANTED: &str = "granted";
pub(crate) const DENIED: &str = "denied";
pub(crate) const GRANTED_TWO: &str = "granted-two";
pub(crate) const DENIED_TWO: &str = "denied-two";
pub(crate) const PERMIT: &str = "permit";
pub(crate) const PERMIT_TWO: &str = "permit-two";
const CALL: &str = "call";

struct Plan {
    id: &'static str,
    title: &'static str,
    answer: Answer,
    threads: usize,
    contenders: fn() -> Vec<Contender<Trial>>,
    compared: &'static [&'static str],
}

const BUCKETS: &[&str] = &[limiters::BUCKET, limiters::PRECISE];
const PERMITS: &[&str] = &[permits::CONCURRENCY, permits::ADAPTIVE];

const PLANS: [Plan; 7] = [
    Plan {
        id: GRANTED,
        title: "Granted, alone",
        answer: Answer::Granted,
        threads: 1,
        contenders: || {
            limiters_and([
                floors::coarse_clock(),
                floors::clocks(),
                floors::words(),
                floors::buckets(),
                floors::stocks_and_locks(),
            ])
        },
        compared: BUCKETS,
    },
    Plan {
        id: DENIED,
        title: "Denied, alone",
        answer: Answer::Denied,
        threads: 1,
        contenders: || limiters_and([floors::coarse_clock(), floors::buckets()]),
        compared: BUCKETS,
    },
    Plan {
        id: GRANTED_TWO,
        title: "Granted, two threads on one limiter",
        answer: Answer::Granted,
        threads: 2,
        contenders: || limiters_and([floors::words(), floors::buckets()]),
        compared: BUCKETS,
    },
    Plan {
        id: DENIED_TWO,
        title: "Denied, two threads on one limiter",
        answer: Answer::Denied,
        threads: 2,
        contenders: || limiters_and([floors::buckets()]),
        compared: BUCKETS,
    },
    Plan {
        id: PERMIT,
        title: "Take and give back, alone",
        answer: Answer::Granted,
        threads: 1,
        contenders: permits::contenders,
        compared: PERMITS,
    },
    Plan {
        id: PERMIT_TWO,
        title: "Take and give back, two threads",
        answer: Answer::Granted,
        threads: 2,
        contenders: permits::contenders,
        compared: PERMITS,
    },
    Plan {
        id: CALL,
        title: "A limited call that does nothing, alone",
        answer: Answer::Granted,
        threads: 1,
        contenders: calls::contenders,
        compared: &[calls::RATE, calls::RESOURCE],
    },
];

fn limiters_and<const N: usize>(floors: [Vec<Contender<Trial>>; N]) -> Vec<Contender<Trial>> {
    let limiters = limiters::ours().into_iter().chain(limiters::peers());
    limiters.chain(floors.into_iter().flatten()).collect()
}

/// Runs the cases whose name `wanted` accepts.
pub(crate) fn run(rounds: &Rounds, span: Duration, wanted: impl Fn(&str) -> bool) -> Vec<Case> {
    let plans = PLANS.iter().filter(|plan| wanted(plan.id));
    plans.map(|plan| plan.run(rounds, span)).collect()
}

impl Plan {
    fn run(&self, rounds: &Rounds, span: Duration) -> Case {
        let trial = Trial {
            answer: self.answer,
            threads: self.threads,
            span,
        };
        let series = Contender::in_turns((self.contenders)(), rounds, trial);
        Case {
            id: self.id,
            title: self.title,
            unit: "ns",
            series,
            compared: self.compared,
        }
    }
}
