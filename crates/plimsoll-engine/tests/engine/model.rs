//! Random files and random decisions, against a model that is written in the plainest way.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll_engine::{Ask, Hold};
use proptest::prelude::*;

use crate::limits;

/// A limit of the model. Times are milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Bucket { burst: u64, refill: u64, every: u64 },
    Window { limit: u64, window: u64 },
    Log { limit: u64, window: u64 },
    Slots { limit: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    pub(crate) keyed: bool,
    pub(crate) shadow: bool,
    /// Whether it is kept in the store `shared`.
    pub(crate) stored: bool,
}

impl Limit {
    /// The most that it ever has.
    pub(crate) fn most(&self) -> u64 {
        match self.kind {
            Kind::Bucket { burst, .. } => burst,
            Kind::Window { limit, .. } | Kind::Log { limit, .. } | Kind::Slots { limit } => limit,
        }
    }

    /// What it is, in the words of a file.
    pub(crate) fn terms(&self) -> String {
        match self.kind {
            Kind::Bucket {
                burst,
                refill,
                every,
            } => {
                format!("kind: token_bucket, burst: {burst}, refill: {refill}, every: {every}ms")
            }
            Kind::Window { limit, window } => {
                format!("kind: fixed_window, limit: {limit}, window: {window}ms")
            }
            Kind::Log { limit, window } => {
                format!("kind: sliding_log, limit: {limit}, window: {window}ms")
            }
            Kind::Slots { limit } => format!("kind: concurrency, limit: {limit}"),
        }
    }

    pub(crate) fn text(&self, name: usize) -> String {
        let kind = self.terms();
        let keyed = if self.keyed {
            ", key: header:x-user"
        } else {
            ""
        };
        let shadow = if self.shadow { ", mode: shadow" } else { "" };
        let stored = if self.stored { ", store: shared" } else { "" };
        format!("  l{name}: {{ {kind}{keyed}{shadow}{stored} }}\n")
    }
}

/// The state of one subject.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Of a bucket: what is missing, in tokens times `every`, and since when.
    missing: u64,
    seen: u64,
    /// Of windows: when each unit was taken.
    taken: Vec<u64>,
    pub(crate) in_flight: u64,
}

impl State {
    /// How much is left.
    fn left(&mut self, kind: &Kind, now: u64, epoch: u64) -> u64 {
        match *kind {
            Kind::Bucket {
                burst,
                refill,
                every,
            } => {
                self.missing = self.missing.saturating_sub((now - self.seen) * refill);
                self.seen = now;
                // More may be missing than there is room for: what was used by other terms.
                (burst * every).saturating_sub(self.missing) / every
            }
            Kind::Window { limit, window } => {
                // Windows are counted from the moment at which the limits were built, or from the epoch.
                let begun = (now + epoch) / window * window;
                self.taken.retain(|at| at + epoch >= begun);
                limit - u64::try_from(self.taken.len()).expect("it works")
            }
            Kind::Log { limit, window } => {
                self.taken.retain(|at| at + window > now);
                limit - u64::try_from(self.taken.len()).expect("it works")
            }
            Kind::Slots { limit } => limit - self.in_flight,
        }
    }

    fn take(&mut self, kind: &Kind, now: u64, cost: u64) {
        match *kind {
            Kind::Bucket { every, .. } => self.missing += cost * every,
            Kind::Window { .. } | Kind::Log { .. } => self.taken.extend((0..cost).map(|_| now)),
            Kind::Slots { .. } => self.in_flight += cost,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Advance(u64),
    Decide(Vec<(usize, usize, u64)>),
    Peek(Vec<(usize, usize, u64)>),
    Finish(usize),
    Undo,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (1_u64..6, 1_u64..4, 1_u64..50).prop_map(|(burst, refill, every)| Kind::Bucket {
            burst,
            refill,
            every
        }),
        (1_u64..6, 1_u64..50).prop_map(|(limit, window)| Kind::Log { limit, window }),
        (1_u64..6, 1_u64..50).prop_map(|(limit, window)| Kind::Window { limit, window }),
        (1_u64..4).prop_map(|limit| Kind::Slots { limit }),
    ]
}

pub(crate) fn limit() -> impl Strategy<Value = Limit> {
    (kind(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(kind, keyed, shadow)| Limit {
        kind,
        keyed,
        shadow,
        stored: false,
    })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let asks = || prop::collection::vec((0_usize..4, 0_usize..3, 1_u64..4), 1..5);
    prop_oneof![
        2 => (0_u64..30).prop_map(Step::Advance),
        5 => asks().prop_map(Step::Decide),
        1 => asks().prop_map(Step::Peek),
        2 => (0_usize..8).prop_map(Step::Finish),
        1 => Just(Step::Undo),
    ]
}

/// When limits are built that are in stores, in milliseconds.
pub(crate) const START: u64 = 1_789_000_000_000;

const KEYS: [&str; 3] = ["anna", "bert", "cleo"];

/// A decision that was admitted: its asks, and which of them took something.
pub(crate) type Held = (Hold, Vec<(usize, usize, u64)>, Vec<bool>);

/// What the model says: who refuses if anybody does, and who in shadow mode would.
pub(crate) type Said = (Option<()>, Vec<bool>);

pub(crate) struct Model {
    pub(crate) limits: Vec<Limit>,
    pub(crate) states: HashMap<(usize, usize), State>,
    pub(crate) now: u64,
}

impl Model {
    pub(crate) fn new(limits: Vec<Limit>) -> Self {
        let (states, now) = (HashMap::new(), 0);
        Self {
            limits,
            states,
            now,
        }
    }

    /// When the limits were built, as the windows of this one are counted: those in stores begin at the same moments everywhere.
    fn epoch(&self, limit: usize) -> u64 {
        if self.limits[limit].stored { START } else { 0 }
    }

    /// What is asked, as the engine is asked it.
    pub(crate) fn ask<'a>(&self, ask: (usize, usize, u64), name: &'a str) -> Ask<'a> {
        let real = Ask::new(name).cost(ask.2);
        if self.limits[ask.0].keyed {
            real.key(KEYS[ask.1])
        } else {
            real
        }
    }

    /// What was taken of slots comes back.
    pub(crate) fn finish(&mut self, asks: &[(usize, usize, u64)], taken: &[bool]) {
        for (ask, _) in asks.iter().zip(taken).filter(|(_, taken)| **taken) {
            let subject = self.subject(*ask);
            if matches!(self.limits[ask.0].kind, Kind::Slots { .. }) {
                let state = self.states.get_mut(&subject);
                state.expect("it was taken from").in_flight -= ask.2;
            }
        }
    }

    /// How much is left of a subject now.
    pub(crate) fn left(&mut self, subject: (usize, usize)) -> u64 {
        let (kind, epoch) = (self.limits[subject.0].kind.clone(), self.epoch(subject.0));
        let state = self.states.entry(subject).or_default();
        state.left(&kind, self.now, epoch)
    }

    /// Takes from a subject whatever is left.
    pub(crate) fn charge(&mut self, subject: (usize, usize), cost: u64) {
        self.left(subject);
        let kind = self.limits[subject.0].kind.clone();
        let state = self.states.entry(subject).or_default();
        state.take(&kind, self.now, cost);
    }

    pub(crate) fn subject(&self, (limit, key, _): (usize, usize, u64)) -> (usize, usize) {
        (limit, if self.limits[limit].keyed { key } else { 0 })
    }

    /// Which asks do not fit, each with all that the decision asks of its subject.
    pub(crate) fn lacking(&mut self, asks: &[(usize, usize, u64)]) -> Vec<bool> {
        let lacking = asks.iter().map(|ask| {
            let subject = self.subject(*ask);
            let whole: u64 = asks
                .iter()
                .filter(|it| self.subject(**it) == subject)
                .map(|it| it.2)
                .sum();
            self.left(subject) < whole
        });
        lacking.collect()
    }

    pub(crate) fn decide(
        &mut self,
        asks: &[(usize, usize, u64)],
        takes: bool,
    ) -> (Said, Vec<bool>) {
        let lacking = self.lacking(asks);
        let shadow = |index: usize| self.limits[asks[index].0].shadow;
        let refused = (0..asks.len()).any(|index| lacking[index] && !shadow(index));
        let mut taken = vec![false; asks.len()];
        let mut would = lacking;
        if !refused && takes {
            for (index, ask) in asks.iter().enumerate() {
                let (subject, kind) = (self.subject(*ask), self.limits[ask.0].kind.clone());
                let epoch = self.epoch(ask.0);
                let state = self.states.entry(subject).or_default();
                // A limit in shadow mode is charged one ask after the other.
                let fits = state.left(&kind, self.now, epoch) >= ask.2;
                would[index] = !fits;
                if fits {
                    state.take(&kind, self.now, ask.2);
                    taken[index] = true;
                }
            }
        }
        ((refused.then_some(()), would), taken)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decisions_are_those_of_the_model(
        of in prop::collection::vec(limit(), 4),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let text: String = of.iter().enumerate().map(|(name, limit)| limit.text(name)).collect();
        let (limits, time) = limits(&format!("limits:\n{text}"));
        let mut model = Model::new(of);
        let mut held: Vec<Held> = Vec::new();
        for step in steps {
            match step {
                Step::Advance(by) => {
                    model.now += by;
                    time.advance(Duration::from_millis(by));
                }
                Step::Decide(asks) | Step::Peek(asks) if asks.is_empty() => {}
                Step::Decide(ref asks) | Step::Peek(ref asks) => {
                    let takes = matches!(step, Step::Decide(_));
                    let names: Vec<String> = asks.iter().map(|ask| format!("l{}", ask.0)).collect();
                    let real: Vec<Ask<'_>> = asks.iter().zip(&names).map(|(ask, name)| model.ask(*ask, name)).collect();
                    let (said, taken) = model.decide(asks, takes);
                    let answer = if takes { limits.try_decide(&real) } else { limits.peek(&real) };
                    match answer {
                        Ok(hold) => {
                            prop_assert_eq!(said.0, None);
                            let would: Vec<bool> = hold.answers().map(|it| !it.is_granted()).collect();
                            prop_assert_eq!(would, said.1);
                            if takes { held.push((hold, asks.clone(), taken)); }
                        }
                        Err(refusal) => {
                            prop_assert_eq!(said.0, Some(()));
                            let would: Vec<bool> = refusal.answers().map(|it| !it.is_granted()).collect();
                            prop_assert_eq!(would, said.1);
                        }
                    }
                }
                Step::Finish(index) => {
                    if index < held.len() {
                        let (hold, asks, taken) = held.swap_remove(index);
                        drop(hold);
                        model.finish(&asks, &taken);
                    }
                }
                Step::Undo => {
                    // The last decision of this instant, as if it had not been made.
                    let Some((hold, asks, taken)) = held.pop() else { continue };
                    let rates = asks.iter().any(|ask| !matches!(model.limits[ask.0].kind, Kind::Slots { .. }));
                    if rates {
                        held.push((hold, asks, taken));
                        continue;
                    }
                    hold.undo();
                    model.finish(&asks, &taken);
                }
            }
        }
    }
}
