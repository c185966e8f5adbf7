//! Who takes part, and taking turns.
//!
//! Whatever disturbs a machine for a while disturbs everybody who runs in that while. In each round every
//! contender runs once, and the order rotates, so that nobody always runs after the same neighbour.
//! Ratios are taken within a round.

use crate::report::Series;

/// How often everybody runs.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    pub(crate) count: usize,
    /// What the name of a contender must contain.
    pub(crate) who: String,
}

impl Rounds {
    /// So many rounds, with everybody.
    pub(crate) fn of(count: usize) -> Self {
        let who = String::new();
        Self { count, who }
    }
}

/// What a contender is to us.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    Ours,
    Peer,
    /// What nobody can do without.
    Floor,
}

/// One who can be run under conditions `C` and gives a sample `S`.
pub(crate) struct Contender<C, S = f64> {
    name: &'static str,
    role: Role,
    run: Box<dyn Fn(C) -> S>,
}

impl<C: Copy, S> Contender<C, S> {
    pub(crate) fn new(role: Role, name: &'static str, run: impl Fn(C) -> S + 'static) -> Self {
        Self {
            name,
            role,
            run: Box::new(run),
        }
    }

    /// Runs every contender once in each round.
    pub(crate) fn in_turns(mut all: Vec<Self>, rounds: &Rounds, conditions: C) -> Vec<Series<S>> {
        all.retain(|contender| contender.name.contains(&rounds.who));
        let contenders = &all;
        let mut series: Vec<Series<S>> = contenders
            .iter()
            .map(|contender| Series::new(contender.role, contender.name))
            .collect();
        for round in 0..rounds.count {
            for turn in 0..contenders.len() {
                let place = (turn + round * 5) % contenders.len();
                let sample = (contenders[place].run)(conditions);
                series[place].samples.push(sample);
            }
        }
        series
    }
}
