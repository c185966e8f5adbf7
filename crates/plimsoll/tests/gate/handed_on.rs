//! A returned permit is handed on to the head of the queue by a short way through the lock, which a gate with a subscriber
//! does not take. Both have to answer the same.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use plimsoll::{
    Acquire, All, Concurrency, Counts, Demand, Events, Full, Gate, Limiter, ManualClock, Permit,
    Priority, Queue, Reason,
};
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

/// A waiter that asks for nothing was handed a grant by a returned permit although the limit was still used up.
#[test]
fn who_waits_for_nothing_waits_until_something_is_available() {
    let mut side = Side::new();
    for _ in 0..3 {
        assert_eq!(side.take(Step::Ask(1, 0)), Some(Ok(1)));
    }
    assert_eq!(side.take(Step::Ask(0, 0)), None);
    assert_eq!(side.take(Step::Ask(1, 0)), None);
    side.take(Step::Resize(2));
    side.take(Step::Return(0));
    assert_eq!((side.take(Step::Read(0)), side.woken()), (None, vec![0, 0]));
    side.take(Step::Return(0));
    assert_eq!(side.take(Step::Read(0)), Some(Ok(0)));
    assert_eq!(side.take(Step::Read(0)), Some(Ok(1)));
}

/// What else may happen in between.
#[derive(Clone, Copy, Debug)]
enum Also {
    Step(Step),
    /// Waits for so many milliseconds at most.
    Within(u64, usize, u64),
    /// Asks for nothing.
    Nothing(usize),
    Try(u64, usize),
    UpTo(u64),
    Reserve(u64),
    /// Asks this gate and another one for both.
    Both(u64),
    /// Takes from the other gate alone, or returns that.
    Other(bool),
    /// Returns a part of a permit.
    Split(usize),
    Undo(usize),
    Occupy(u64),
    Queue(usize),
    Bound(u64),
    Pass(u64),
    Subscribe(bool),
}

fn also() -> impl Strategy<Value = Vec<Also>> {
    let step = prop_oneof![
        7 => (1..4_u64, 0..3_usize).prop_map(|(cost, class)| Also::Step(Step::Ask(cost, class))),
        8 => any::<usize>().prop_map(|place| Also::Step(Step::Return(place))),
        2 => any::<usize>().prop_map(|place| Also::Step(Step::Leave(place))),
        6 => any::<usize>().prop_map(|place| Also::Step(Step::Read(place))),
        1 => (1..6_u64).prop_map(|limit| Also::Step(Step::Resize(limit))),
        1 => any::<bool>().prop_map(|begins| Also::Step(Step::Pause(begins))),
        1 => (1..4_u64, 0..3_usize, 0..5_u64)
            .prop_map(|(cost, class, left)| Also::Within(cost, class, left)),
        1 => (0..3_usize).prop_map(Also::Nothing),
        1 => (1..4_u64, 0..3_usize).prop_map(|(cost, class)| Also::Try(cost, class)),
        1 => (1..4_u64).prop_map(Also::UpTo),
        1 => (1..4_u64).prop_map(Also::Reserve),
        1 => (1..4_u64).prop_map(Also::Both),
        1 => any::<bool>().prop_map(Also::Other),
        2 => any::<usize>().prop_map(Also::Split),
        1 => any::<usize>().prop_map(Also::Undo),
        1 => (1..3_u64).prop_map(Also::Occupy),
        1 => (0..8_usize).prop_map(Also::Queue),
        1 => (0..10_u64).prop_map(Also::Bound),
        1 => (0..5_u64).prop_map(Also::Pass),
        1 => any::<bool>().prop_map(Also::Subscribe),
    ];
    proptest::collection::vec(step, 1..150)
}

/// A queue that is not random: in which place of one a waiter joins depends on which places are free.
fn queue(which: usize) -> Option<Queue> {
    let fifo = Queue::fifo(6);
    match which {
        0 => None,
        1 => Some(Queue::lifo(6)),
        2 => Some(Queue::lifo(9).full(Full::Newest)),
        3 => Some(fifo.timeout(Duration::from_millis(2))),
        4 => Some(fifo.full(Full::Oldest)),
        5 => Some(fifo.counts(Counts::Waiting)),
        _ => Some(Queue::fifo(8)),
    }
}

/// The same, with another gate beside it.
struct Wide {
    side: Side,
    time: ManualClock,
    other: Gate<Concurrency>,
    of_other: Vec<Permit<'static>>,
    both: All,
    events: Vec<Events>,
}

impl Wide {
    fn new() -> Self {
        let time = ManualClock::new();
        let gate = |limit| {
            let gate = Gate::builder(Concurrency::new(limit)).queue(Queue::fifo(8));
            gate.clock(time.clock()).build()
        };
        let (gate, other) = (gate(3), gate(2));
        let members: [Arc<dyn Limiter>; 2] = [Arc::new(gate.clone()), Arc::new(other.clone())];
        Self {
            side: Side {
                gate,
                waiting: Vec::new(),
                held: Vec::new(),
            },
            time,
            other,
            of_other: Vec::new(),
            both: All::new(members),
            events: Vec::new(),
        }
    }

    fn ask(&mut self, future: Acquire<'static>) -> Option<Result<u64, Reason>> {
        self.side.waiting.push(Waiter::unpolled(future));
        self.side.read(self.side.waiting.len() - 1)
    }

    fn hold(&mut self, permit: Permit<'static>) -> Result<u64, Reason> {
        let cost = permit.cost();
        self.side.held.push(permit);
        Ok(cost)
    }

    fn take(&mut self, also: Also) -> Option<Result<u64, Reason>> {
        let gate = self.side.gate.clone();
        let held = self.side.held.len();
        let of = |cost, class: usize| Demand::of(cost).priority(Priority::ALL[class]);
        match also {
            Also::Step(step) => return self.side.take(step),
            Also::Within(cost, class, left) => {
                let demand = of(cost, class).within(Duration::from_millis(left));
                return self.ask(gate.acquire_owned(demand));
            }
            Also::Nothing(class) => return self.ask(gate.acquire_owned(of(0, class))),
            Also::Try(cost, class) => {
                return Some(match gate.try_acquire(of(cost, class)) {
                    Ok(permit) => self.hold(permit.into_owned()),
                    Err(denied) => Err(denied.reason()),
                });
            }
            Also::UpTo(most) => return Some(self.hold(gate.take_up_to(most).into_owned())),
            Also::Occupy(cost) => return Some(self.hold(gate.occupy(cost).into_owned())),
            Also::Reserve(cost) => {
                return match gate.reserve_owned(cost) {
                    Ok(reserved) => self.ask(Acquire::from_future(reserved)),
                    Err(denied) => Some(Err(denied.reason())),
                };
            }
            Also::Both(cost) => {
                let future = self.both.acquire_owned(cost.into());
                return self.ask(future);
            }
            Also::Other(true) => {
                let permit = self.other.try_acquire(1).ok()?;
                self.of_other.push(permit.into_owned());
            }
            Also::Other(false) => drop(self.of_other.pop()),
            Also::Split(place) => drop(self.side.held[place.checked_rem(held)?].split(1)),
            Also::Undo(place) => self.side.held.remove(place.checked_rem(held)?).undo(),
            Also::Queue(which) => gate.set_queue(queue(which)),
            Also::Bound(bound) => gate.set_queue_bound(bound),
            Also::Pass(millis) => self.time.advance(Duration::from_millis(millis)),
            Also::Subscribe(true) => self.events.push(gate.subscribe(2)),
            Also::Subscribe(false) => drop(self.events.pop()),
        }
        None
    }
}

proptest! {
    #[test]
    fn the_short_way_answers_what_the_long_way_does_whatever_else_happens(steps in also()) {
        let (mut short, mut long) = (Wide::new(), Wide::new());
        let _events = long.side.gate.subscribe(1);
        for step in steps {
            prop_assert_eq!(short.take(step), long.take(step));
            prop_assert_eq!(short.side.woken(), long.side.woken());
            prop_assert_eq!(short.side.gate.snapshot(), long.side.gate.snapshot());
            prop_assert_eq!(short.other.snapshot(), long.other.snapshot());
        }
        for Wide { side, other, of_other, .. } in [short, long] {
            let Side { gate, waiting, held } = side;
            drop((waiting, held, of_other));
            let seen = gate.snapshot();
            prop_assert_eq!((seen.in_use(), seen.waiters(), other.snapshot().in_use()), (0, 0, 0));
        }
    }
}
