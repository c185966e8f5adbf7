//! Every sequence of up to three operations on permits of every kind of limiter: nothing is lost, nothing is made.

use std::time::Duration;

use crate::subjects::{LIMIT, Subject, subjects};
use plimsoll::{ManualClock, Moment, Outcome, Permit};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    /// Takes another one.
    Take,
    Split,
    SplitAll,
    /// Merges the newest into the oldest.
    Merge,
    Own,
    GiveBack,
    Finish,
    Undo,
    Forget,
    Drop,
    /// What was given back, merged with what is out.
    MergeEnded,
}

const OPS: [Op; 11] = [
    Op::Take,
    Op::Split,
    Op::SplitAll,
    Op::Merge,
    Op::Own,
    Op::GiveBack,
    Op::Finish,
    Op::Undo,
    Op::Forget,
    Op::Drop,
    Op::MergeEnded,
];

/// What should be out, by hand.
#[derive(Default)]
struct Ledger {
    /// Of limits that are given back to.
    out: u64,
    /// Of limits that are not.
    used: u64,
    /// How much of that may be lost by undoing what was granted at several moments.
    lost: u64,
}

/// A permit, and what it should be.
struct Kept<'a> {
    permit: Permit<'a>,
    cost: u64,
    alive: bool,
    taken: Moment,
    /// Whether it was granted at several moments: undoing it may then give back less.
    mixed: bool,
}

struct Run<'a> {
    subject: &'a dyn Subject,
    ledger: Ledger,
    kept: Vec<Kept<'a>>,
}

impl<'a> Run<'a> {
    fn new(subject: &'a dyn Subject) -> Self {
        let mut run = Self {
            subject,
            ledger: Ledger::default(),
            kept: Vec::new(),
        };
        run.take(4);
        run
    }

    fn take(&mut self, cost: u64) {
        let permit = self.subject.take(cost).expect("there is room");
        self.ledger.out += cost;
        self.ledger.used += cost;
        let taken = permit.granted_at();
        self.kept.push(Kept {
            permit,
            cost,
            alive: true,
            taken,
            mixed: false,
        });
    }

    /// The permit is given back, in one way or another.
    fn gave_back(&mut self, cost: u64) {
        self.ledger.out -= cost;
    }

    fn apply(&mut self, op: Op) {
        if op == Op::Take {
            return self.take(2);
        }
        let Some(mut last) = self.kept.pop() else {
            return;
        };
        match op {
            Op::Take => {}
            Op::Split | Op::SplitAll => {
                let cost = if op == Op::Split { 1 } else { last.cost };
                let part = last.permit.split(cost);
                assert_eq!(part.is_some(), cost <= last.cost);
                last.cost -= if part.is_some() { cost } else { 0 };
                let (alive, taken, mixed) = (last.alive, last.taken, last.mixed);
                self.kept.push(last);
                self.kept.extend(part.map(|permit| Kept {
                    permit,
                    cost,
                    alive,
                    taken,
                    mixed,
                }));
            }
            Op::Merge => match self.kept.pop() {
                None => self.kept.push(last),
                Some(mut first) => {
                    let fits = first.alive && last.alive && self.subject.is_known();
                    match first.permit.merge(last.permit) {
                        Ok(()) => {
                            assert!(fits);
                            let differ =
                                first.cost > 0 && last.cost > 0 && first.taken != last.taken;
                            first.mixed |= last.mixed || differ;
                            first.cost += last.cost;
                            first.taken = first.permit.granted_at();
                        }
                        Err(permit) => {
                            assert!(!fits);
                            self.kept.push(Kept { permit, ..last });
                        }
                    }
                    self.kept.push(first);
                }
            },
            Op::Own => {
                let permit = last.permit.into_owned();
                self.kept.push(Kept { permit, ..last });
            }
            Op::GiveBack => {
                last.permit.give_back(Outcome::Success);
                self.gave_back(last.cost);
                (last.cost, last.alive) = (0, false);
                self.kept.push(last);
            }
            Op::MergeEnded => {
                let mut ended = self.subject.take(1).expect("there is room");
                ended.give_back(Outcome::Ignore);
                self.ledger.used += 1;
                let permit = ended.merge(last.permit).expect_err("it was given back");
                let mut last = Kept { permit, ..last };
                let ended = last.permit.merge(ended).expect_err("it was given back");
                self.subject.undo(ended);
                self.kept.push(last);
            }
            Op::Finish => {
                last.permit.finish(Outcome::Success);
                self.gave_back(last.cost);
            }
            Op::Undo => {
                self.subject.undo(last.permit);
                self.ledger.out -= last.cost;
                self.ledger.used -= last.cost;
                if last.mixed {
                    self.ledger.lost += last.cost;
                }
            }
            Op::Forget => last.permit.forget(),
            Op::Drop => {
                drop(last.permit);
                self.gave_back(last.cost);
            }
        }
    }

    fn check(&self, moved: bool) {
        for kept in &self.kept {
            assert_eq!(kept.permit.cost(), kept.cost);
        }
        for part in self.subject.parts() {
            let expected = if part.gives_back {
                self.ledger.out
            } else {
                self.ledger.used
            };
            let lost = if part.gives_back {
                0
            } else {
                u64::from(moved && self.subject.may_lose()) + self.ledger.lost
            };
            assert!(
                part.in_use >= expected,
                "{} of {expected}: made",
                part.in_use
            );
            assert!(
                part.in_use <= expected + lost,
                "{} of {expected}: lost",
                part.in_use
            );
        }
    }

    /// Ends whatever is out, and takes whatever there is.
    fn end(mut self, moved: bool) {
        while let Some(last) = self.kept.pop() {
            self.ledger.out -= last.cost;
            drop(last.permit);
        }
        self.check(moved);
        let in_use = self
            .subject
            .parts()
            .into_iter()
            .map(|part| part.in_use)
            .max();
        let left = LIMIT - in_use.expect("it has a limit");
        let burst: Vec<_> = std::iter::from_fn(|| self.subject.take(1)).collect();
        assert_eq!(burst.len() as u64, left, "what a fresh burst can take");
    }
}

fn run(ops: &[Op], step: Duration) {
    let time = ManualClock::new();
    for subject in subjects(&time) {
        let told = std::panic::AssertUnwindSafe(|| {
            let mut run = Run::new(&*subject);
            for op in ops {
                time.advance(step);
                run.apply(*op);
                run.check(!step.is_zero());
            }
            run.end(!step.is_zero());
        });
        if let Err(panic) = std::panic::catch_unwind(told) {
            eprintln!("{}: {ops:?} with {step:?} between", subject.name());
            std::panic::resume_unwind(panic);
        }
    }
}

const STEPS: [Duration; 2] = [Duration::ZERO, Duration::from_nanos(1_000_003)];

/// Giving back and undoing made a slot, and merging with what was given back lost one.
#[test]
fn no_pair_of_operations_loses_or_makes_anything() {
    for step in STEPS {
        for first in OPS {
            run(&[first], step);
            for second in OPS {
                run(&[first, second], step);
            }
        }
    }
}

#[test]
fn no_triple_of_operations_loses_or_makes_anything() {
    for step in STEPS {
        for first in OPS {
            for second in OPS {
                for third in OPS {
                    run(&[first, second, third], step);
                }
            }
        }
    }
}
