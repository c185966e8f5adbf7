//! Those who wait, and what is said of their answers.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use plimsoll::together::{self, Ask, Key};
use plimsoll::{Acquire, Denied, Permit, Reason};
use plimsoll_config::KeyedLimiter;
use plimsoll_kinds::AnyLimiter;
use proptest::prelude::*;

use super::{Out, Who, World};
use crate::files::poll;

pub(super) struct Waiting {
    pub(super) who: Who,
    pub(super) cost: u64,
    pub(super) wait: Wait,
    /// How often the file had been read before, and how many had begun to wait.
    pub(super) since: (usize, usize),
    /// Of one who waits for several, the bounds of the queues that it may come to, as they were then.
    pub(super) bounds: Vec<(&'static str, Option<u64>)>,
}

pub(super) enum Wait {
    One(Acquire<'static>),
    List(Box<together::Waiting>),
}

impl Wait {
    /// What each of those that are asked has granted.
    fn poll(&mut self, (keys, a): (&KeyedLimiter, &AnyLimiter), who: Who, cost: u64) -> Answer {
        match (self, who) {
            (Self::One(wait), _) => poll(Pin::new(wait)).map_ok(|permit| vec![(who, permit)]),
            (Self::List(wait), Who::List(number)) => {
                let name = format!("k{number}");
                let key = Key::new(keys, name.as_str());
                let asks = [Ask::key(&key, cost), Ask::limiter(&**a.shared(), cost)];
                let answer = wait.poll(&asks, &mut Context::from_waker(Waker::noop()));
                let parts = [Who::Key(number), Who::A];
                answer.map_err(|refused| refused.denied).map_ok(|permits| {
                    let permits = permits.into_iter().map(|it| it.expect("one for each"));
                    parts.into_iter().zip(permits).collect()
                })
            }
            _ => unreachable!("only lists wait so"),
        }
    }
}

type Answer = Poll<Result<Vec<(Who, Permit<'static>)>, Denied>>;

impl World {
    /// How much waits at the limiter of this name, by which `who` was refused.
    fn queued(&self, who: Who, name: Option<&str>) -> u64 {
        let of = match (name, who) {
            (Some("a"), _) => Who::A,
            (Some("b"), _) => Who::B,
            (_, Who::List(key)) => Who::Key(key),
            _ => return 0,
        };
        self.snapshot(of).queued()
    }

    pub(super) fn not_closed(who: Who, denied: &Denied) -> Result<(), TestCaseError> {
        prop_assert!(denied.reason() != Reason::Closed, "{who:?}: {denied}");
        Ok(())
    }

    /// Reads the answers of those who wait. `moved` says that only the file has changed since they were asked last.
    pub(super) fn answers(&mut self, moved: bool) -> Result<(), TestCaseError> {
        let asked = (self.keys.clone(), self.a.clone());
        let reloads = self.reloads;
        let mut served = Vec::new();
        loop {
            let mut answered = Vec::new();
            self.waiting.retain_mut(|it| {
                match it.wait.poll((&asked.0, &asked.1), it.who, it.cost) {
                    Poll::Pending => true,
                    Poll::Ready(answer) => {
                        let bounds = std::mem::take(&mut it.bounds);
                        answered.push((it.who, it.cost, it.since, answer, bounds));
                        false
                    }
                }
            });
            if answered.is_empty() {
                break;
            }
            for (who, cost, since, answer, bounds) in answered {
                match answer {
                    Ok(permits) => {
                        served.push((who, cost, since));
                        for (of, permit) in permits {
                            // It may have been granted by the members that there were before.
                            if matches!(who, Who::Both | Who::Outer) && since.0 < reloads {
                                self.out.push(Out {
                                    who,
                                    permit,
                                    slots: Vec::new(),
                                    cost,
                                });
                            } else {
                                self.hold(of, cost, permit)?;
                            }
                        }
                    }
                    Err(denied) => {
                        Self::not_closed(who, &denied)?;
                        // What is too large for the new limit could never be served.
                        let reason = denied.reason();
                        let bound = bounds.iter().find(|it| Some(it.0) == denied.limiter());
                        let queued = || self.queued(who, denied.limiter());
                        let fair = match bound {
                            _ if reason == Reason::TooLarge => true,
                            // It lets nobody wait, and did not when the wait began.
                            Some((_, None)) => true,
                            Some((_, Some(bound))) => {
                                reason == Reason::QueueFull && queued() + cost > *bound
                            }
                            None => false,
                        };
                        prop_assert!(!moved || fair, "{who:?} was lost: {denied}");
                    }
                }
            }
        }
        for (who, cost, since) in served {
            // One who waits for several waits for those that there were when it began.
            let several = matches!(who, Who::Both | Who::Outer);
            let mut before = self.waiting.iter();
            let passed = before.any(|it| {
                let same = it.who == who && !(several && it.since.0 < since.0);
                same && it.since < since && it.cost <= cost
            });
            prop_assert!(!passed, "{who:?}: one who came later was served before");
        }
        Ok(())
    }
}
