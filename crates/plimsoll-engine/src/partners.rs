//! Others that the program calls, as the file says.

use std::collections::HashMap;

use plimsoll::{Carry, Clock, Gate, Pausable, TokenBucket};
use plimsoll_config::{Config, PartnerSpec};
use plimsoll_tower::partner::{LearnRate, PartnerLayer};

/// The layer before a partner.
pub(crate) type Layer = PartnerLayer<Gate<Pausable<TokenBucket>>>;

/// The partners of a file, by name. What was learned of them stays when the file changes.
#[derive(Default)]
pub(crate) struct Partners(HashMap<String, (PartnerSpec, Layer)>);

impl Partners {
    /// Puts those of another file in place.
    pub(crate) fn replace(&mut self, config: &Config, clock: &Clock) {
        let mut before = std::mem::take(&mut self.0);
        for (name, spec) in config.partners() {
            let layer = match before.remove(name) {
                Some((known, layer)) => change(layer, &known, spec),
                None => build(name, spec, clock),
            };
            let layer = match spec.longest_pause {
                Some(longest) => layer.longest_pause(longest.into()),
                None => layer,
            };
            self.0.insert(name.to_owned(), (spec.clone(), layer));
        }
    }

    pub(crate) fn layer(&self, name: &str) -> Option<Layer> {
        self.0.get(name).map(|(_, layer)| layer.clone())
    }
}

/// A rate that is known. One that is learned replaces it at once.
fn bucket(spec: &PartnerSpec) -> Pausable<TokenBucket> {
    let rate = spec.rate.as_ref().or(spec.learn.as_ref());
    let rate = rate.map_or_else(|| plimsoll::Quota::per_second(1), |rate| rate.quota());
    Pausable::new(TokenBucket::greedy(rate))
}

fn learn(spec: &PartnerSpec) -> Option<LearnRate> {
    let mut learn = LearnRate::from(spec.learn.as_ref()?.quota());
    if let Some(floor) = &spec.floor {
        learn = learn.floor(floor.quota());
    }
    if let Some(ceiling) = &spec.ceiling {
        learn = learn.ceiling(ceiling.quota());
    }
    Some(learn)
}

fn build(name: &str, spec: &PartnerSpec, clock: &Clock) -> Layer {
    let gate = Gate::builder(bucket(spec)).name(name).clock(clock.clone());
    let gate = match &spec.queue {
        Some(queue) => gate.queue(queue.build()),
        None => gate,
    };
    let layer = PartnerLayer::new(gate.build());
    match learn(spec) {
        Some(learn) => layer.learn_rate(learn),
        None => layer,
    }
}

/// The same gate, so that calls that wait go on waiting, and pauses last.
fn change(layer: Layer, known: &PartnerSpec, spec: &PartnerSpec) -> Layer {
    if known.queue != spec.queue {
        let queue = spec.queue.as_ref().map(plimsoll_config::QueueSpec::build);
        layer.limiter().set_queue(queue);
    }
    match (learn(spec), &known.learn) {
        (Some(learn), Some(_)) => {
            layer.change_rate(learn);
            layer
        }
        (Some(learn), None) => layer.learn_rate(learn),
        (None, Some(_)) => {
            let layer = layer.without_learning();
            layer.limiter().replace(bucket(spec), Carry::Used);
            layer
        }
        (None, None) => {
            if known.rate != spec.rate {
                layer.limiter().replace(bucket(spec), Carry::Used);
            }
            layer
        }
    }
}
