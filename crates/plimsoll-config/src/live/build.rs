//! Builds limiters of kinds without a rule, and everything that consists of limiters: `all`, providers and routes.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::{All, Clock, InvalidLimit, Limiter, Moment};
use plimsoll_ambient::{
    Amount, CpuLimiter, CpuLimiterBuilder, MemoryLimiter, MemoryLimiterBuilder, Sampler,
};
use plimsoll_kinds::{AnyLimiter, LimiterKind as Class, Provider, Rate, Weight};
use plimsoll_spec::{Kind, Memory, Place, Positive, Problem, label};

use super::gates::{Build, Built, Live};
use super::handle::Handle;
use super::stores::Stores;
use super::version::Inner;
use super::{Part, Route};
use crate::check::{BASIC, Definition};
use crate::route::RouteSpec;
use crate::{Config, ConfigError};

/// Running limiters, by id.
pub(super) type Running = HashMap<String, Arc<Live>>;

/// Builds the limiter of a definition whose members run already.
pub(super) fn build(
    config: &Config,
    definition: &Definition,
    running: &Running,
    stores: &Stores,
    (clock, sampler): (&Clock, &Sampler),
    began: Option<Moment>,
) -> Result<Built, ConfigError> {
    let name = definition.name();
    let queue = definition.limiter.common.queue.as_ref();
    let queue = queue.map(plimsoll_spec::Queue::build);
    let built = match &definition.limiter.kind {
        _ if definition.limiter.common.store.is_some() => stores.build(definition),
        Kind::All { .. } => all(definition, running).map_err(|invalid| invalid.to_string()),
        Kind::Memory {
            hard_limit,
            spike,
            check_interval,
        } => {
            let memory = MemoryLimiter::builder(amount(hard_limit)).name(name);
            let memory = memory.check_interval((*check_interval).into());
            let memory = spike
                .iter()
                .fold(memory, |memory, spike| memory.spike(amount(spike)));
            let memory = queue.into_iter().fold(memory, MemoryLimiterBuilder::queue);
            let memory = memory.build(sampler).map_err(|error| error.to_string());
            memory.map(|memory| Built::fixed(Inner::One(Arc::new(memory))))
        }
        Kind::Cpu {
            threshold,
            smoothing,
            check_interval,
        } => {
            let percent = u8::try_from(threshold.0).unwrap_or(100);
            let cpu = CpuLimiter::builder(percent).name(name);
            let cpu = cpu.smoothing((*smoothing).into());
            let cpu = cpu.check_interval((*check_interval).into());
            let cpu = queue.into_iter().fold(cpu, CpuLimiterBuilder::queue);
            let cpu = cpu.build(sampler).map_err(|error| error.to_string());
            cpu.map(|cpu| Built::fixed(Inner::One(Arc::new(cpu))))
        }
        Kind::Partitions(spec) => {
            let built = Build {
                definition,
                clock,
                began,
            }
            .partitions(spec);
            built.map_err(|invalid| invalid.to_string())
        }
        Kind::Policies(spec) => {
            let built = Build {
                definition,
                clock,
                began,
            }
            .policies(spec);
            built.map_err(|invalid| invalid.to_string())
        }
        kind => {
            let build = Build {
                definition,
                clock,
                began,
            };
            let built = kind.with_rule(build);
            let built = built.map_err(|spec| spec.invalid().to_string());
            built.and_then(|live| live.ok_or_else(|| "there is no such limiter".to_owned()))
        }
    };
    built.map_err(|message| wrong(config, definition, message))
}

/// The definition for a limiter that replaces `live`: an adaptive algorithm starts from the limit that was found. Algorithms of
/// keys start as the file describes.
pub(super) fn starting(live: &Live, to: &Definition) -> Definition {
    match live.definition.limiter.kind {
        Kind::Adaptive(_) if !live.definition.is_keyed() => {
            from_limit(to, live.binding.latest().one.snapshot().limit())
        }
        _ => to.clone(),
    }
}

/// A definition whose adaptive algorithm, if it has one, starts from this limit, within its bounds.
pub(super) fn from_limit(to: &Definition, limit: u64) -> Definition {
    let mut definition = to.clone();
    let algorithm = match &mut definition.limiter.kind {
        Kind::Adaptive(algorithm) if !to.is_keyed() => Some(algorithm),
        Kind::Partitions(shares) => shares.adaptive.as_mut(),
        _ => None,
    };
    if let Some(algorithm) = algorithm {
        let [min, initial, max] = algorithm.bounds();
        if let (Some(min), Some(max)) = (min, max) {
            let limit = limit.max(min.0).min(max.0);
            *initial = Some(Positive(limit));
        }
    }
    definition
}

/// The error of a definition that cannot be built.
pub(super) fn wrong(config: &Config, definition: &Definition, message: String) -> ConfigError {
    let problem = Problem::new(definition.place, message);
    let problem = problem
        .under_key(&label(&definition.id))
        .under_key(definition.section);
    config.error(problem)
}

fn amount(memory: &Memory) -> Amount {
    match memory.percent() {
        Some(percent) => Amount::Percent(percent),
        None => Amount::Bytes(memory.bytes().unwrap_or(u64::MAX)),
    }
}

/// Builds an `all`. Its members are handles, which follow their names.
fn all(definition: &Definition, running: &Running) -> Result<Built, InvalidLimit> {
    let name = definition.name();
    let members = definition.members.iter().filter_map(|id| running.get(id));
    let members = members.map(|live| Handle(Arc::clone(&live.binding)));
    let limiter: Arc<dyn Limiter> = match definition.class {
        Class::Rate => {
            let all = Rate::all(members.map(Rate::from))?;
            Arc::clone(AnyLimiter::from(all).shared())
        }
        // Any limiter can be a member of an `All`.
        _ => {
            let members = members.map(|member| Arc::new(member) as Arc<dyn Limiter>);
            Arc::new(All::try_new(members)?.with_name(name))
        }
    };
    Ok(Built::fixed(Inner::All(limiter)))
}

/// The providers of a configuration.
pub(super) fn providers(
    config: &Config,
    running: &Running,
) -> Result<HashMap<String, Provider>, ConfigError> {
    let limiter = |name: &str| {
        let live = running.get(name)?;
        match &live.part {
            Part::Limiter(limiter) => Some(limiter.clone()),
            _ => None,
        }
    };
    let provider = |(name, spec): (&str, &crate::spec::Provider)| {
        let mut builder = Provider::builder();
        for (weight, words) in spec.0.iter() {
            for limiter in words.as_slice().iter().filter_map(|word| limiter(&word.0)) {
                builder = match limiter {
                    AnyLimiter::Basic(basic) if weight == BASIC => builder.basic(basic),
                    limiter => builder.limit(Weight::new(weight), limiter),
                };
            }
        }
        let built = builder.build().map_err(|invalid| {
            let problem = Problem::new(Place::START, invalid.to_string());
            let problem = problem.under_key(&label(name)).under_key("providers");
            config.error(problem)
        });
        Ok((name.to_owned(), built?))
    };
    config.spec.providers.iter().map(provider).collect()
}

/// The routes of a configuration that match by path alone, with their limiters and providers.
pub(super) fn routes(config: &Config, part: impl Fn(&str) -> Option<Part>) -> Vec<Arc<Route>> {
    let by_path = config.plan.routes.iter().filter(|spec| spec.is_by_path());
    let route = |spec: &RouteSpec| {
        let bytes = spec.bytes.as_ref().and_then(|name| part(name));
        let bytes = match bytes {
            Some(Part::Limiter(limiter)) => Rate::try_from(limiter).ok(),
            _ => None,
        };
        Arc::new(Route {
            patterns: spec.patterns.clone(),
            parts: spec.limits.iter().filter_map(|name| part(name)).collect(),
            bytes,
            holds: spec.holds,
        })
    };
    by_path.map(route).collect()
}
