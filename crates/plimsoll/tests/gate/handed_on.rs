//! A returned permit is handed on to the head of the queue by a short way through the lock, which a gate with a subscriber
//! does not take. Both have to answer the same.

use std::task::Poll;

use plimsoll::{Concurrency, Demand, Gate, ManualClock, Permit, Priority, Queue, Reason};
use proptest::prelude::*;

use crate::waiter::Waiter;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u64, usize),
    /// Returns the permit at this place, of those that are held.
    Return(usize),
    /// Leaves the queue, or gives up a permit that has not been read.
    Leave(usize),
    /// Reads the answer of one that waits, if there is one.
    Read(usize),
    Resize(u64),
    Pause(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (1..4_u64, 0..3_usize).prop_map(|(cost, class)| Step::Ask(cost, class)),
        5 => any::<usize>().prop_map(Step::Return),
        1 => any::<usize>().prop_map(Step::Leave),
        4 => any::<usize>().prop_map(Step::Read),
        1 => (1..6_u64).prop_map(Step::Resize),
        1 => any::<bool>().prop_map(Step::Pause),
    ];
    proptest::collection::vec(step, 1..80)
}

/// A gate and those who use it.
struct Side {
    gate: Gate<Concurrency>,
    waiting: Vec<Waiter<'static>>,
    held: Vec<Permit<'static>>,
}

impl Side {
    fn new() -> Self {
        let gate = Gate::builder(Concurrency::new(3))
            .queue(Queue::fifo(8))
            .clock(ManualClock::new().clock())
            .build();
        Self {
            gate,
            waiting: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Reads the answer of this one, and says what it is.
    fn read(&mut self, place: usize) -> Option<Result<u64, Reason>> {
        let Poll::Ready(answer) = self.waiting.get_mut(place)?.look() else {
            return None;
        };
        drop(self.waiting.remove(place));
        Some(answer.map(|permit| {
            let cost = permit.cost();
            self.held.push(permit);
            cost
        }))
    }

    /// How often each of those who wait was woken.
    fn woken(&self) -> Vec<u64> {
        self.waiting.iter().map(Waiter::woken).collect()
    }

    fn take(&mut self, step: Step) -> Option<Result<u64, Reason>> {
        let of = |place: usize, len: usize| place.checked_rem(len);
        match step {
            Step::Ask(cost, class) => {
                let demand = Demand::of(cost).priority(Priority::ALL[class]);
                let future = self.gate.acquire_owned(demand);
                self.waiting.push(Waiter::unpolled(future));
                return self.read(self.waiting.len() - 1);
            }
            Step::Return(place) => {
                let place = of(place, self.held.len())?;
                drop(self.held.remove(place));
            }
            Step::Leave(place) => {
                let place = of(place, self.waiting.len())?;
                drop(self.waiting.remove(place));
            }
            Step::Read(place) => return self.read(of(place, self.waiting.len())?),
            Step::Resize(limit) => self.gate.resize(limit).expect("a limit"),
            Step::Pause(true) => self.gate.pause(),
            Step::Pause(false) => self.gate.resume(),
        }
        None
    }
}

proptest! {
    #[test]
    fn the_short_way_answers_what_the_long_way_does(steps in steps()) {
        let (mut short, mut long) = (Side::new(), Side::new());
        let _events = long.gate.subscribe(1);
        for step in steps {
            prop_assert_eq!(short.take(step), long.take(step));
            prop_assert_eq!(short.woken(), long.woken());
            prop_assert_eq!(short.gate.snapshot(), long.gate.snapshot());
        }
    }
}
