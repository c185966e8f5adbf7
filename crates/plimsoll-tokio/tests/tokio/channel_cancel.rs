//! Whatever is dropped whenever: a channel loses no permit and no item.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{All, Concurrency, Gate, Limiter, ManualClock, Queue, TokenBucket};
use plimsoll_kinds::Resource;
use plimsoll_tokio::channel::{SendError, Slot};
use plimsoll_tokio::{WithPermit, channel_with_cost};
use proptest::prelude::*;

/// An item: its cost, and its number.
type Item = (u64, usize);
type Sending = Pin<Box<dyn Future<Output = Result<(), SendError<Item>>>>>;
type Reserving = Pin<Box<dyn Future<Output = Result<Slot<Item>, SendError<()>>>>>;

#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Reserve(u64),
    /// Polls one of those who wait.
    Look(usize),
    /// Drops one of those who wait.
    GiveUp(usize),
    /// Uses one of the slots.
    Fill(usize),
    DropSlot(usize),
    Receive,
    Hold,
    DropHeld(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..4_u64).prop_map(Step::Send),
        2 => (1..4_u64).prop_map(Step::Reserve),
        4 => any::<usize>().prop_map(Step::Look),
        2 => any::<usize>().prop_map(Step::GiveUp),
        1 => any::<usize>().prop_map(Step::Fill),
        1 => any::<usize>().prop_map(Step::DropSlot),
        2 => Just(Step::Receive),
        2 => Just(Step::Hold),
        2 => any::<usize>().prop_map(Step::DropHeld),
        2 => (0..700_u64).prop_map(Step::Advance),
    ]
}

fn pick<T>(from: &mut Vec<T>, index: usize) -> Option<T> {
    let len = from.len();
    (len > 0).then(|| from.swap_remove(index % len))
}

fn run(steps: Vec<Step>, time: &ManualClock, limiter: &Arc<dyn Limiter>) {
    let (sender, mut receiver) =
        channel_with_cost(Resource::shared(Arc::clone(limiter)), |item: &Item| item.0);
    let mut sending: Vec<(usize, Sending)> = Vec::new();
    let mut reserving: Vec<Reserving> = Vec::new();
    let mut slots = Vec::new();
    let mut held: Vec<WithPermit<Item>> = Vec::new();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut number = 0;
    for step in steps {
        match step {
            Step::Send(cost) => {
                number += 1;
                let (sender, item) = (sender.clone(), (cost, number));
                let mut send: Sending = Box::pin(async move { sender.send(item).await });
                match poll(&mut send) {
                    Poll::Ready(answer) => sent.extend(answer.is_ok().then_some(number)),
                    Poll::Pending => sending.push((number, send)),
                }
            }
            Step::Reserve(cost) => {
                let sender = sender.clone();
                reserving.push(Box::pin(async move { sender.reserve(cost).await }));
            }
            Step::Look(index) => {
                if let Some((number, mut send)) = pick(&mut sending, index) {
                    match poll(&mut send) {
                        Poll::Ready(answer) => sent.extend(answer.is_ok().then_some(number)),
                        Poll::Pending => sending.push((number, send)),
                    }
                }
                if let Some(mut reserve) = pick(&mut reserving, index) {
                    match poll(&mut reserve) {
                        Poll::Ready(answer) => slots.extend(answer.ok()),
                        Poll::Pending => reserving.push(reserve),
                    }
                }
            }
            Step::GiveUp(index) => {
                drop(pick(&mut sending, index));
                drop(pick(&mut reserving, index));
            }
            Step::Fill(index) => {
                if let Some(slot) = pick(&mut slots, index) {
                    number += 1;
                    slot.send((1, number)).unwrap();
                    sent.push(number);
                }
            }
            Step::DropSlot(index) => drop(pick(&mut slots, index)),
            Step::Receive => received.extend(receiver.try_recv().ok().map(|item| item.1)),
            Step::Hold => {
                let next = receiver.try_recv_with_permit().ok();
                received.extend(next.as_ref().map(|item| item.1));
                held.extend(next);
            }
            Step::DropHeld(index) => drop(pick(&mut held, index)),
            Step::Advance(millis) => time.advance(Duration::from_millis(millis)),
        }
    }
    drop((sending, reserving, slots, held, sender));
    while let Ok(item) = receiver.try_recv() {
        received.push(item.1);
    }
    assert_eq!(sent, received, "nothing is lost, doubled or reordered");
}

fn gate<R: plimsoll::Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    Gate::builder(rule)
        .queue(Queue::fifo(8))
        .clock(time.clock())
        .build()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_left_behind(steps in prop::collection::vec(step(), 1..80)) {
        let time = ManualClock::new();
        let slots = gate(Concurrency::new(5), &time);
        run(steps.clone(), &time, &(Arc::new(slots.clone()) as Arc<dyn Limiter>));
        prop_assert_eq!((slots.snapshot().in_use(), slots.snapshot().waiters()), (0, 0));

        let rate = gate(TokenBucket::per_second(5), &time);
        let members: Vec<Arc<dyn Limiter>> = vec![Arc::new(slots.clone()), Arc::new(rate.clone())];
        let all: Arc<dyn Limiter> = Arc::new(All::try_new(members).unwrap());
        run(steps, &time, &all);
        prop_assert_eq!((slots.snapshot().in_use(), slots.snapshot().waiters()), (0, 0));
        prop_assert_eq!(rate.snapshot().waiters(), 0);
    }
}
