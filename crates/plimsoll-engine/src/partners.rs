//! Partners: services that the program calls, with the limits that the file describes.

use std::collections::HashMap;

use plimsoll::{Carry, Clock, Gate, Pausable, TokenBucket};
use plimsoll_config::{Config, PartnerSpec};
use plimsoll_tower::partner::{LearnRate, PartnerLayer};

/// The layer for calls to a partner.
pub(crate) type Layer = PartnerLayer<Gate<Pausable<TokenBucket>>>;

/// The partners of a file, by name. A reload keeps learned rates.
#[derive(Default)]
pub(crate) struct Partners(HashMap<String, (PartnerSpec, Layer)>);

impl Partners {
    /// Replaces the partners by those of another configuration.
    pub(crate) fn replace(&mut self, config: &Config, clock: &Clock) {
        let mut before = std::mem::take(&mut self.0);
        for (name, spec) in config.partners() {
            let layer = match before.remove(name) {
                Some((known, layer)) => change(layer, &known, spec),
                None => build(name, spec, clock),
            };
            let layer = match spec.max_pause {
                Some(max) => layer.max_pause(max.into()),
                None => layer,
            };
            self.0.insert(name.to_owned(), (spec.clone(), layer));
        }
    }

    pub(crate) fn layer(&self, name: &str) -> Option<Layer> {
        self.0.get(name).map(|(_, layer)| layer.clone())
    }
}

/// The bucket of a partner with a fixed rate. A learned rate replaces it at once.
fn bucket(spec: &PartnerSpec) -> Pausable<TokenBucket> {
    let rate = spec.rate.as_ref().or(spec.learn.as_ref());
    let rate = rate.map_or_else(|| plimsoll::Quota::per_second(1), |rate| rate.quota());
    Pausable::new(TokenBucket::greedy(rate))
}

fn learn(spec: &PartnerSpec) -> Option<LearnRate> {
    let mut learn = LearnRate::from(spec.learn.as_ref()?.quota());
    if let Some(min) = &spec.min {
        learn = learn.min(min.quota());
    }
    if let Some(max) = &spec.max {
        learn = learn.max(max.quota());
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

/// Changes the layer of a partner. The gate stays the same, so that waiters and pauses are kept.
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
