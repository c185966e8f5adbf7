//! Layers before a service that does nothing, and before a server.

mod by_hand;
mod generic;
mod serving;
mod targets;
mod web;
pub(crate) mod wrk;

use std::time::Duration;

use self::serving::{Cost, Served, added, allocations};
use crate::contender::{Contender, Rounds};
use crate::report::{Series, Table, marked, quantile};

/// What all names of cases here begin with.
pub(crate) const TOWER: &str = "tower";

/// How often, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: Rounds,
    pub(crate) span: Duration,
    /// Of the server under load.
    pub(crate) wrk_rounds: Rounds,
    pub(crate) wrk_seconds: u32,
}

/// One case: all who ran side by side in it, around the same service.
pub(crate) struct Case {
    title: &'static str,
    series: Vec<Series<Cost>>,
    /// The service alone.
    bare: &'static str,
    pairs: &'static [targets::Pair],
    /// What is wanted of these, at most.
    wanted: f64,
    free: &'static [&'static str],
}

/// What came of the cases that ran.
pub(crate) struct Results {
    cases: Vec<Case>,
    wrk: Option<wrk::Loaded>,
}

struct Kind {
    id: &'static str,
    title: &'static str,
    bare: &'static str,
    contenders: fn() -> Vec<Contender<Served, Cost>>,
    pairs: &'static [targets::Pair],
    wanted: f64,
    /// Those of ours that allocate nothing.
    free: &'static [&'static str],
}

const KINDS: [Kind; 5] = [
    Kind {
        id: "tower-rate",
        title: "A rate before any service",
        bare: generic::BARE,
        contenders: generic::rates,
        pairs: targets::RATES,
        wanted: 0.7,
        free: &[generic::RATE, generic::RATE_PRECISE],
    },
    Kind {
        id: "tower-concurrency",
        title: "A concurrency limit before any service",
        bare: generic::BARE,
        contenders: generic::slots,
        pairs: targets::SLOTS,
        wanted: 0.9,
        free: &[generic::SLOTS, generic::SLOTS_QUEUE],
    },
    Kind {
        id: "tower-adaptive",
        title: "An adaptive limit before any service",
        bare: generic::BARE,
        contenders: generic::adaptive,
        pairs: targets::ADAPTIVE,
        wanted: 0.7,
        free: &[generic::VERDICT, generic::AIMD, generic::VEGAS],
    },
    Kind {
        id: "tower-http",
        title: "A rate before a service that speaks HTTP",
        bare: web::BARE,
        contenders: web::without_fields,
        pairs: targets::HTTP,
        wanted: 0.9,
        free: &[web::GLOBAL, web::PEER],
    },
    Kind {
        id: "tower-fields",
        title: "… that tells callers what is left",
        bare: web::BARE,
        contenders: web::with_fields,
        pairs: targets::FIELDS,
        wanted: 0.8,
        free: &[],
    },
];

/// Runs the cases whose name `wanted` accepts.
pub(crate) fn run(plan: &Plan, wanted: impl Fn(&str) -> bool) -> Results {
    let kinds = KINDS.iter().filter(|kind| wanted(kind.id));
    let cases = kinds.map(|kind| Case {
        title: kind.title,
        series: Contender::in_turns(
            (kind.contenders)(),
            &plan.rounds,
            Served { span: plan.span },
        ),
        bare: kind.bare,
        pairs: kind.pairs,
        wanted: kind.wanted,
        free: kind.free,
    });
    Results {
        cases: cases.collect(),
        wrk: wanted("tower-wrk")
            .then(|| wrk::run(&plan.wrk_rounds, plan.wrk_seconds))
            .flatten(),
    }
}

impl Results {
    pub(crate) fn markdown(&self) -> Vec<String> {
        let cases = self.cases.iter().map(Case::markdown);
        let wrk = self.wrk.iter().map(wrk::Loaded::markdown);
        cases.chain(wrk).collect()
    }
}

impl Case {
    fn find(&self, name: &str) -> Option<&Series<Cost>> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Ours first, then the others from fast to slow.
    fn markdown(&self) -> String {
        let time = |series: &Series<Cost>| series.each(|cost| cost.nanos).median();
        let mut rows: Vec<&Series<Cost>> = self.series.iter().collect();
        rows.sort_by(|a, b| a.role.cmp(&b.role).then(time(a).total_cmp(&time(b))));
        let mut table = Table::new(&["", "ns", "added", "p10 – p90", "allocations added"]);
        for series in rows {
            let mut row = vec![marked(series), format!("{:.1}", time(series))];
            match self.find(bare_of(series.name, self.bare)) {
                Some(bare) if bare.name != series.name => {
                    let added = added(series, bare);
                    let [low, high] = [0.1, 0.9].map(|share| quantile(&added.samples, share));
                    row.push(format!("{:.1}", added.median()));
                    row.push(format!("{low:.1} – {high:.1}"));
                    row.push(format!("{:.2}", allocations(series, bare)));
                }
                _ => row.extend(["", "", ""].map(str::to_owned)),
            }
            table.rows.push(row);
        }
        format!("### {}\n\n{}", self.title, table.markdown())
    }
}

/// What a contender stands around: requests that say where they come from cost more by themselves.
fn bare_of(name: &str, bare: &'static str) -> &'static str {
    if web::knows_peer(name) {
        web::BARE_PEER
    } else {
        bare
    }
}
