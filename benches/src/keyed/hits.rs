//! Keys that are known already, with plenty left for each or with nothing.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use super::Plan;
use super::asked::{Asked, Case, Walk, in_turns, together};
use super::contenders::{self, LASTING, Limit, Limiter};
use super::keys::{Key, Spread, sequence};
use crate::asking::{Answer, Count, now, undisturbed};
use crate::contender::Role;

/// Runs everybody on one order of keys.
pub(super) fn run<K: Key>(plan: &Plan, spread: Spread, answer: Answer) -> Case {
    let keys = Rc::new(sequence::<K>(spread, plan.keys, K::SEQUENCE));
    let (count, span) = (plan.keys, plan.span);
    let (limit, first) = match answer {
        Answer::Granted => (Limit::generous(count), LASTING),
        Answer::Denied => (Limit::scarce(count), 2),
    };
    let rows = in_turns(contenders::all::<K>(), &plan.rounds, |entrant| {
        let (name, role, make) = (entrant.name, entrant.role, entrant.make);
        let (keys, filled) = (Rc::clone(&keys), OnceCell::new());
        move || {
            let limiter = &**filled.get_or_init(|| {
                let mut limiter = make(&limit);
                for id in 0..count {
                    limiter.fill(&K::of(id as u64), first);
                }
                limiter
            });
            let trial = |threads| {
                undisturbed(4, threads, || {
                    let count = together(limiter, &keys, threads, span, ask);
                    is_as_expected(name, role, answer, count).then(|| count.nanos())
                })
            };
            Asked {
                one: trial(1),
                two: trial(2),
                reset: 0,
                looked_at: 0,
            }
        }
    });
    let order = match spread {
        Spread::Uniform => "uniform",
        Spread::Zipf => "zipfian",
    };
    let answers = match answer {
        Answer::Granted => "granted",
        Answer::Denied => "denied",
    };
    let kind = K::KIND;
    let title = format!("Keyed, {kind}, {order}, {count} keys, {answers}");
    let wanted = match answer {
        Answer::Denied => [0.4; 2],
        Answer::Granted if kind == u64::KIND => [0.42, 0.45],
        Answer::Granted => [0.6; 2],
    };
    Case {
        title,
        wanted,
        rows,
    }
}

fn ask<K>(limiter: &dyn Limiter<K>, keys: &mut Walk<'_, K>, span: Duration) -> Count {
    let start = now();
    let (mut asked, mut granted) = (0, 0);
    loop {
        let batch = keys.batch();
        granted += limiter.ask_all(batch);
        asked += batch.len() as u64;
        let end = now();
        if end - start >= span {
            return Count {
                asked,
                granted,
                start,
                end,
            };
        }
    }
}

/// A wrong answer spoils a trial, and is a mistake of ours if it is ours.
fn is_as_expected(name: &str, role: Role, answer: Answer, count: Count) -> bool {
    let expected = match answer {
        Answer::Granted => count.asked,
        Answer::Denied => 0,
    };
    let right = count.granted == expected;
    let granted = format!("{} of {} granted", count.granted, count.asked);
    assert!(right || role != Role::Ours, "{name}: {granted}");
    if !right {
        eprintln!("{name}: {granted}, a trial that does not count");
    }
    right
}
