//! What we set out to reach with layers.

use super::serving::{added, allocations};
use super::{Case, Results, bare_of};
use super::{generic as g, web as w};
use crate::targets::{Target, at_most};

/// One of ours, and those who promise the same.
pub(super) type Pair = (&'static str, &'static [&'static str]);

pub(super) const RATES: &[Pair] = &[(
    g::RATE,
    &[g::TOWER_RATE, g::RESILIENCE_RATE, g::THROTTLE_NET],
)];
pub(super) const SLOTS: &[Pair] = &[
    (g::SLOTS, &[g::TOWER_SHED, g::BULKHEAD]),
    (g::SLOTS_QUEUE, &[g::TOWER_SLOTS]),
];
pub(super) const ADAPTIVE: &[Pair] = &[
    (
        g::VERDICT,
        &[
            g::ACC_AIMD,
            g::ACC_VEGAS,
            g::RESILIENCE_AIMD,
            g::RESILIENCE_VEGAS,
        ],
    ),
    (g::AIMD, &[g::ACC_AIMD, g::RESILIENCE_AIMD]),
    (g::VEGAS, &[g::ACC_VEGAS, g::RESILIENCE_VEGAS]),
];
pub(super) const HTTP: &[Pair] = &[
    (w::GLOBAL, &[w::GOVERNOR_GLOBAL]),
    (w::PEER, &[w::GOVERNOR_PEER, w::RATE_NET]),
];
pub(super) const FIELDS: &[Pair] = &[
    (w::GLOBAL_FIELDS, &[w::GOVERNOR_GLOBAL_FIELDS]),
    (
        w::ALL_FIELDS,
        &[w::GOVERNOR_FIELDS, w::RATE_NET_3, w::RATE_NET_5],
    ),
    (w::X_FIELDS, &[w::GOVERNOR_FIELDS, w::RATE_NET_3]),
];

impl Results {
    /// The targets that the cases which ran can tell about.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for case in &self.cases {
            targets.extend(against_peers(case));
            targets.extend(free(case));
        }
        targets.extend(self.wrk.iter().flat_map(super::wrk::Loaded::targets));
        targets
    }
}

fn against_peers(case: &Case) -> Vec<Target> {
    let pairs = case.pairs.iter();
    let pairs = pairs.flat_map(|(ours, peers)| peers.iter().map(move |peer| (*ours, *peer)));
    let ratios = pairs.filter_map(|(ours, peer)| {
        let [this, other] = [ours, peer].map(|name| {
            let bare = case.find(bare_of(name, case.bare))?;
            Some(added(case.find(name)?, bare))
        });
        let what = format!("added by {ours} ÷ {peer}");
        Some(at_most(&what, this?.over(&other?), case.wanted, " ×"))
    });
    ratios.collect()
}

fn free(case: &Case) -> Vec<Target> {
    let ours = case.free.iter().filter_map(|name| {
        let bare = case.find(bare_of(name, case.bare))?;
        let times = allocations(case.find(name)?, bare);
        Some(at_most(&format!("{name}: allocations"), times, 0.0, ""))
    });
    ours.collect()
}
