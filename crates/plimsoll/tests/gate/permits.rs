//! A permit gives back exactly what it took, once, whatever is done with it on the way.

use std::sync::{Arc, Mutex};

use plimsoll::{Concurrency, Demand, Gate, Grant, ManualClock, Outcome, Permit, Shareable, Source};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn slots(limit: u64) -> Gate<Concurrency> {
    let time = ManualClock::new();
    Gate::builder(Concurrency::new(limit))
        .clock(time.clock())
        .build()
}

/// Where permits go back to, writing down what does.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Entry {
    GaveBack(u64, Outcome),
    Undone(u64),
}

impl Source for Ledger {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        let cost = grant.cost;
        self.write(Entry::GaveBack(cost, outcome));
    }

    fn undo(&self, grant: Grant, _whole: bool) {
        let cost = grant.cost;
        self.write(Entry::Undone(cost));
    }
}

impl Shareable for Ledger {
    fn to_shared(&self) -> Arc<dyn Source> {
        Arc::new(self.clone())
    }
}

impl Ledger {
    fn permit(&self, cost: u64) -> Permit<'_> {
        Permit::new(self, Grant::of(Demand::of(cost)).timed(true), true)
    }

    fn write(&self, entry: Entry) {
        self.0.lock().expect("nobody panics here").push(entry);
    }

    fn read(&self) -> Vec<Entry> {
        self.0.lock().expect("nobody panics here").clone()
    }
}

#[test]
fn each_end_of_a_permit_gives_back_once() {
    use Entry::{GaveBack, Undone};
    use Outcome::{Ignore, Overload, Success};
    type Case = (&'static str, fn(Permit<'_>), &'static [Entry]);
    let cases: [Case; 8] = [
        ("drop", |permit| drop(permit), &[GaveBack(5, Ignore)]),
        (
            "finish",
            |permit| permit.finish(Success),
            &[GaveBack(5, Success)],
        ),
        (
            "overload",
            |permit| permit.finish(Overload),
            &[GaveBack(5, Overload)],
        ),
        ("forget", |permit| permit.forget(), &[]),
        ("undo", |permit| permit.undo(), &[Undone(5)]),
        (
            "own",
            |permit| drop(permit.into_owned()),
            &[GaveBack(5, Ignore)],
        ),
        (
            "split",
            |mut permit| drop(permit.split(2)),
            &[GaveBack(2, Ignore), GaveBack(3, Ignore)],
        ),
        (
            "split all",
            |mut permit| drop(permit.split(5)),
            &[GaveBack(5, Ignore)],
        ),
    ];
    for (name, end, expected) in cases {
        let ledger = Ledger::default();
        end(ledger.permit(5));
        assert_eq!(ledger.read(), expected, "{name}");
    }
}

#[test]
fn a_panic_gives_back_and_says_nothing_about_the_load() {
    let ledger = Ledger::default();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _permit = ledger.permit(1);
        std::panic::resume_unwind(Box::new("the work failed"));
    }));
    assert!(panicked.is_err());
    assert_eq!(ledger.read(), [Entry::GaveBack(1, Outcome::Ignore)]);
}

#[test]
fn a_part_is_never_larger_than_the_whole() {
    let gate = slots(10);
    //            of 5 split off, what is left of both
    let cases = [
        (0, Some((5, 0))),
        (2, Some((3, 2))),
        (5, Some((0, 5))),
        (6, None),
    ];
    for (cost, expected) in cases {
        let mut whole = gate.try_acquire(5).unwrap();
        let part = whole.split(cost);
        let costs = part.as_ref().map(|part| (whole.cost(), part.cost()));
        assert_eq!(costs, expected);
        drop(part);
        assert_eq!(gate.snapshot().in_use(), whole.cost());
        drop(whole);
        assert_eq!(gate.snapshot().in_use(), 0);
    }
}

#[test]
fn only_permits_of_one_limiter_become_one() {
    let (here, there) = (slots(10), slots(10));
    let mut one = here.try_acquire(1).unwrap();
    one.merge(here.try_acquire(2).unwrap()).unwrap();
    one.merge(here.clone().try_acquire(3).unwrap().into_owned())
        .unwrap();
    assert_eq!(one.cost(), 6);
    let stranger = one.merge(there.try_acquire(4).unwrap()).unwrap_err();
    assert_eq!((one.cost(), stranger.cost()), (6, 4));
    assert_eq!(
        (here.snapshot().in_use(), there.snapshot().in_use()),
        (6, 4)
    );
    drop((one, stranger));
    assert_eq!(
        (here.snapshot().in_use(), there.snapshot().in_use()),
        (0, 0)
    );
}

#[test]
fn a_sum_that_no_permit_can_hold_is_handed_back() {
    let ledger = Ledger::default();
    let mut most = ledger.permit(u64::MAX);
    let one = most.merge(ledger.permit(1)).unwrap_err();
    assert_eq!((most.cost(), one.cost()), (u64::MAX, 1));
    most.merge(ledger.permit(0)).unwrap();
    drop((most, one));
    let expected = [u64::MAX, 1].map(|cost| Entry::GaveBack(cost, Outcome::Ignore));
    assert_eq!(ledger.read(), expected);
}

#[derive(Clone, Debug)]
enum Op {
    Take(u64),
    Split(usize, u64),
    Merge(usize, usize),
    Own(usize),
    Drop(usize),
    Forget(usize),
    Finish(usize),
    Undo(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let which = || any::<usize>();
    prop_oneof![
        4 => (0u64..6).prop_map(Op::Take),
        2 => (which(), 0u64..6).prop_map(|(at, cost)| Op::Split(at, cost)),
        2 => (which(), which()).prop_map(|(to, from)| Op::Merge(to, from)),
        1 => which().prop_map(Op::Own),
        1 => which().prop_map(Op::Drop),
        1 => which().prop_map(Op::Forget),
        1 => which().prop_map(Op::Finish),
        1 => which().prop_map(Op::Undo),
    ]
}

fn pick<'a>(out: &mut Vec<Permit<'a>>, which: usize) -> Option<Permit<'a>> {
    (!out.is_empty()).then(|| out.swap_remove(which % out.len()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_in_use_is_what_is_out(ops in proptest::collection::vec(op(), 1..100)) {
        let gate = slots(50);
        let mut out: Vec<Permit<'_>> = Vec::new();
        let mut lost = 0;
        for op in ops {
            match op {
                Op::Take(cost) => out.extend(gate.try_acquire(cost)),
                Op::Split(at, cost) => {
                    let whole = pick(&mut out, at);
                    out.extend(whole.into_iter().flat_map(|mut whole| {
                        let part = whole.split(cost);
                        [Some(whole), part].into_iter().flatten()
                    }));
                }
                Op::Merge(to, from) => {
                    if let (Some(mut to), from) = (pick(&mut out, to), pick(&mut out, from)) {
                        from.map_or(Ok(()), |from| to.merge(from)).unwrap();
                        out.push(to);
                    }
                }
                Op::Own(at) => {
                    let permit = pick(&mut out, at);
                    out.extend(permit.map(Permit::into_owned));
                }
                Op::Drop(at) => drop(pick(&mut out, at)),
                Op::Forget(at) => {
                    if let Some(permit) = pick(&mut out, at) {
                        lost += permit.cost();
                        permit.forget();
                    }
                }
                Op::Finish(at) => {
                    pick(&mut out, at).into_iter().for_each(|permit| permit.finish(Outcome::Success));
                }
                Op::Undo(at) => pick(&mut out, at).into_iter().for_each(Permit::undo),
            }
            let sum = out.iter().map(Permit::cost).sum::<u64>() + lost;
            prop_assert_eq!(gate.snapshot().in_use(), sum);
            prop_assert_eq!(gate.snapshot().available(), 50 - sum);
        }
    }
}
