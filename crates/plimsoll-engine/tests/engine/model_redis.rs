//! Random files and random decisions as in [`model`](crate::model), with limits in Redis beside limits in memory: the same
//! answers.

use std::time::Duration;

use plimsoll::{ManualClock, Moment};
use plimsoll_engine::Ask;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::model::{Held, Kind, Limit, Model, START, Step, limit, step};
use crate::redis::Server;

/// What is in flight of all slots in the store.
const IN_FLIGHT: &str = "local sum = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TYPE', key).ok == 'zset' then sum = sum - (redis.call('ZSCORE', key, 'total') or 0) end
end
return sum";

type Asks = Vec<(usize, usize, u64)>;

/// So that a subject in a store is there once: what is asked of it twice is decided there for the sum.
fn once(model: &Model, asks: Asks) -> Asks {
    let mut kept = Asks::new();
    for ask in asks {
        let same = |it: &(usize, usize, u64)| model.subject(*it) == model.subject(ask);
        if !model.limits[ask.0].stored || !kept.iter().any(same) {
            kept.push(ask);
        }
    }
    kept
}

/// Slots come back in the background: waits until the store has as many in flight as the model.
async fn returned(server: &Server, model: &Model) {
    let stored = |((limit, _), state): (&(usize, usize), &crate::model::State)| {
        let limit = &model.limits[*limit];
        let is = limit.stored && matches!(limit.kind, Kind::Slots { .. });
        is.then_some(state.in_flight)
    };
    let expected: u64 = model.states.iter().filter_map(stored).sum();
    let expected = format!(":{expected}\r\n");
    for _ in 0..10_000 {
        if server
            .command(&["EVAL", IN_FLIGHT, "0"])
            .starts_with(&expected)
        {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("what was returned does not come back");
}

async fn run(server: &Server, of: Vec<Limit>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    server.command(&["FLUSHALL"]);
    let time = ManualClock::starting_at(Moment::from_nanos(START * 1_000_000));
    let text: String = of
        .iter()
        .enumerate()
        .map(|(name, limit)| limit.text(name))
        .collect();
    let limits = server.limits_on(&format!("limits:\n{text}"), &time.clock());
    let mut model = Model::new(of);
    let mut held: Vec<Held> = Vec::new();
    for step in steps {
        match step {
            Step::Advance(by) => {
                model.now += by;
                time.advance(Duration::from_millis(by));
            }
            Step::Decide(asks) => {
                let asks = once(&model, asks);
                let names: Vec<String> = asks.iter().map(|ask| format!("l{}", ask.0)).collect();
                let each = asks.iter().zip(&names);
                let real: Vec<Ask<'_>> = each.map(|(ask, name)| model.ask(*ask, name)).collect();
                let lacking = model.lacking(&asks);
                let (said, taken) = model.decide(&asks, true);
                // What is known here asks no store, and then a store says nothing.
                let known_here = asks.iter().zip(&lacking).any(|(ask, lacks)| {
                    let limit = &model.limits[ask.0];
                    *lacks && !limit.shadow && (!limit.stored || ask.2 > limit.most())
                });
                let answers = |all: Vec<bool>| {
                    let all = all.into_iter().zip(&asks);
                    let known = |(_, ask): &(bool, &(usize, usize, u64))| {
                        !known_here || !model.limits[ask.0].stored
                    };
                    all.filter(known)
                        .map(|(answer, _)| answer)
                        .collect::<Vec<_>>()
                };
                match limits.decide(&real, 1).await {
                    Ok(hold) => {
                        prop_assert_eq!(said.0, None);
                        let would = hold.answers().map(|it| !it.is_granted()).collect();
                        prop_assert_eq!(answers(would), answers(said.1));
                        held.push((hold, asks, taken));
                    }
                    Err(refusal) => {
                        prop_assert_eq!(said.0, Some(()), "{:?}", refusal);
                        let would = refusal.answers().map(|it| !it.is_granted()).collect();
                        prop_assert_eq!(answers(would), answers(said.1));
                    }
                }
            }
            Step::Finish(index) => {
                if index < held.len() {
                    let (hold, asks, taken) = held.swap_remove(index);
                    drop(hold);
                    model.finish(&asks, &taken);
                    returned(server, &model).await;
                }
            }
            Step::Peek(_) | Step::Undo => {}
        }
    }
    // What is held goes back before the next case begins.
    for (hold, asks, taken) in held {
        drop(hold);
        model.finish(&asks, &taken);
    }
    returned(server, &model).await;
    Ok(())
}

/// `PLIMSOLL_CASES=10` checks ten times as many, `PLIMSOLL_SEED=7` others.
#[test]
fn decisions_in_redis_are_those_of_the_model() {
    let Some(server) = Server::start() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let variable = |name| std::env::var(name).ok()?.parse().ok();
    let factor: u32 = variable("PLIMSOLL_CASES").unwrap_or(1);
    let seed: u32 = variable("PLIMSOLL_SEED").unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let config = ProptestConfig {
        cases: 40 * factor,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let limit =
        (limit(), prop::bool::weighted(0.7)).prop_map(|(limit, stored)| Limit { stored, ..limit });
    let cases = (
        prop::collection::vec(limit, 4),
        prop::collection::vec(step(), 1..40),
    );
    let test = |(of, steps)| runtime.block_on(run(&server, of, steps));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(&cases, test) {
        panic!("PLIMSOLL_SEED={seed} PLIMSOLL_CASES={factor}: {error}");
    }
}
