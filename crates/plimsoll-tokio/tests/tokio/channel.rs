//! The limited channel: what bounds it, what comes back, and who is woken.

use std::sync::Arc;
use std::time::Duration;

use crate::queued::queued;
use crate::settle::settle;
use futures_util::StreamExt;
use plimsoll::adaptive::{Adaptive, Aimd};
use plimsoll::{
    All, Concurrency, Demand, Gate, Limiter, ManualClock, Outcome, Priority, Queue, Reason,
    TokenBucket,
};
use plimsoll_kinds::Resource;
use plimsoll_tokio::channel::SendError;
use plimsoll_tokio::{channel, channel_with_cost};

#[tokio::test]
async fn an_item_counts_until_it_is_received() {
    let gate = Gate::new(Concurrency::new(2));
    let (sender, mut receiver) = channel(gate.clone());
    sender.try_send(1).unwrap();
    sender.clone().try_send(2).unwrap();
    let full = sender.try_send(3).unwrap_err();
    assert_eq!(full.denied().unwrap().reason(), Reason::Exhausted);
    assert_eq!(full.to_string(), "not sent: the limit is used up");
    assert_eq!(full.into_inner(), 3);
    assert_eq!((gate.snapshot().in_use(), receiver.len()), (2, 2));
    assert_eq!(receiver.recv().await, Some(1));
    assert_eq!(gate.snapshot().in_use(), 1);
    sender.send(3).await.unwrap();
    // Nobody may wait here.
    assert_eq!(sender.send(4).await.unwrap_err().into_inner(), 4);
    drop(sender);
    assert_eq!(receiver.try_recv().unwrap(), 2);
    assert_eq!(receiver.recv().await, Some(3));
    assert_eq!(receiver.recv().await, None);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[tokio::test]
async fn senders_wait_in_the_queue_of_the_limiter() {
    let gate = queued(Concurrency::new(1), &ManualClock::new());
    let (sender, mut receiver) = channel_with_cost(gate.clone(), |item: &(u64, Priority)| {
        Demand::ONE.priority(item.1)
    });
    sender.try_send((0, Priority::Normal)).unwrap();
    let tasks: Vec<_> = [Priority::NonCritical, Priority::Normal, Priority::Critical]
        .into_iter()
        .zip(1..)
        .map(|(class, number)| {
            let sender = sender.clone();
            tokio::spawn(async move { sender.send((number, class)).await })
        })
        .collect();
    settle().await;
    assert_eq!(gate.snapshot().waiters(), 3);
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(receiver.recv().await.unwrap().0);
    }
    assert_eq!(order, [0, 3, 2, 1]);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_rate_paces_what_is_sent() {
    let time = ManualClock::new();
    let gate = queued(TokenBucket::per_second(2), &time);
    let (sender, mut receiver) = channel(gate.clone());
    let sends = tokio::spawn(async move {
        for number in 0..10 {
            sender.send(number).await.unwrap();
        }
    });
    for second in 0..5 {
        for _ in 0..2 {
            settle().await;
            if second > 0 {
                time.advance(Duration::from_millis(500));
                settle().await;
            }
        }
        assert_eq!(receiver.len(), 2 * (second + 1), "second {second}");
    }
    sends.await.unwrap();
    assert_eq!(
        receiver.by_ref().collect::<Vec<_>>().await,
        (0..10).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn what_is_held_counts_until_the_work_is_done() {
    let gate = queued(Concurrency::new(1), &ManualClock::new());
    let (sender, mut receiver) = channel(gate.clone());
    sender.try_send("a").unwrap();
    let held = receiver.recv_with_permit().await.unwrap();
    assert_eq!((*held, held.permit().cost()), ("a", 1));
    assert!(sender.try_send("b").is_err());
    let held = held.map(str::len);
    assert!(sender.try_send("b").is_err());
    assert_eq!(held.finish(Outcome::Success), 1);
    sender.try_send("b").unwrap();
    let (item, permit) = receiver.try_recv_with_permit().unwrap().into_parts();
    assert_eq!((item, gate.snapshot().in_use()), ("b", 1));
    drop(permit);
    let mut receiver = receiver.into_permit_receiver();
    sender.try_send("c").unwrap();
    let held = receiver.next().await.unwrap();
    assert_eq!(gate.snapshot().in_use(), 1);
    drop((sender, held));
    assert!(receiver.into_inner().recv().await.is_none());
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[tokio::test]
async fn an_adaptive_limit_learns_from_what_becomes_of_items() {
    let time = ManualClock::new();
    let limit = Aimd::builder().min(1).initial(10).build().unwrap();
    let gate = queued(Adaptive::new(limit), &time);
    let (sender, mut receiver) = channel(gate.clone());
    for number in 0..10 {
        sender.try_send(number).unwrap();
    }
    assert!(sender.try_send(10).is_err());
    time.advance(Duration::from_millis(10));
    receiver
        .recv_with_permit()
        .await
        .unwrap()
        .finish(Outcome::Overload);
    assert_eq!(gate.snapshot().limit(), 9);
    receiver
        .recv_with_permit()
        .await
        .unwrap()
        .finish(Outcome::Success);
    assert_eq!(gate.snapshot().limit(), 10);
    assert_eq!(receiver.recv().await, Some(2), "says nothing");
    assert_eq!(gate.snapshot().limit(), 10);
}

#[tokio::test]
async fn several_limits_bound_one_channel() {
    let time = ManualClock::new();
    let slots = queued(Concurrency::new(2), &time);
    let rate = queued(TokenBucket::per_second(3), &time);
    let members: Vec<Arc<dyn Limiter>> = vec![Arc::new(slots.clone()), Arc::new(rate.clone())];
    let (sender, mut receiver) = channel(All::try_new(members).unwrap());
    sender.try_send(0).unwrap();
    sender.try_send(1).unwrap();
    assert!(sender.try_send(2).is_err(), "no slot");
    let waits = tokio::spawn({
        let sender = sender.clone();
        async move {
            sender.send(2).await.unwrap();
            sender.send(3).await.unwrap();
        }
    });
    settle().await;
    assert_eq!(receiver.recv().await, Some(0));
    assert_eq!(receiver.recv().await, Some(1));
    assert_eq!(receiver.recv().await, Some(2));
    settle().await;
    assert!(receiver.try_recv().is_err(), "no token");
    assert_eq!(slots.snapshot().in_use(), 0);
    time.advance(Duration::from_secs(1));
    waits.await.unwrap();
    assert_eq!(receiver.recv().await, Some(3));
}

#[tokio::test]
async fn closing_the_limiter_wakes_senders_and_keeps_what_was_sent() {
    let gate = queued(Concurrency::new(1), &ManualClock::new());
    let (sender, mut receiver) = channel(gate.clone());
    sender.try_send(1).unwrap();
    let waits = tokio::spawn({
        let sender = sender.clone();
        async move { sender.send(2).await }
    });
    settle().await;
    gate.close();
    assert!(matches!(waits.await.unwrap(), Err(SendError::Closed(2))));
    assert!(matches!(sender.try_send(3), Err(SendError::Closed(3))));
    assert!(matches!(
        sender.reserve(1).await,
        Err(SendError::Closed(()))
    ));
    assert_eq!(receiver.recv().await, Some(1));
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[tokio::test]
async fn dropping_the_receiver_wakes_senders_and_gives_everything_back() {
    let slots = queued(Concurrency::new(1), &ManualClock::new());
    // Nothing in the channel is ever going to give a token back.
    let rate = queued(TokenBucket::per_second(1), &ManualClock::new());
    for limiter in [
        Arc::new(slots.clone()) as Arc<dyn Limiter>,
        Arc::new(rate.clone()),
    ] {
        let (sender, receiver) = channel(Resource::shared(Arc::clone(&limiter)));
        sender.try_send(1).unwrap();
        let tasks = [2, 3].map(|item| {
            let sender = sender.clone();
            tokio::spawn(async move { sender.send(item).await })
        });
        settle().await;
        assert_eq!(limiter.snapshot().waiters(), 2);
        drop(receiver);
        for (task, item) in tasks.into_iter().zip(2..) {
            assert_eq!(task.await.unwrap(), Err(SendError::Closed(item)));
        }
        sender.closed().await;
        assert!(sender.is_closed());
        assert_eq!(sender.try_send(4), Err(SendError::Closed(4)));
        assert!(sender.try_reserve(1).is_err());
        assert_eq!(limiter.snapshot().waiters(), 0);
    }
    assert_eq!(slots.snapshot().in_use(), 0);
    assert_eq!(rate.snapshot().in_use(), 1, "one was sent");
}

#[tokio::test]
async fn a_closed_channel_can_be_emptied() {
    let (sender, mut receiver) = channel(Gate::new(Concurrency::new(5)));
    let slot = sender.try_reserve(1).unwrap();
    sender.try_send(1).unwrap();
    receiver.close();
    assert_eq!(slot.send(2), Err(SendError::Closed(2)));
    assert_eq!(receiver.recv().await, Some(1));
    assert_eq!(receiver.recv().await, None);
    assert_eq!(sender.limiter().snapshot().in_use(), 0);
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn a_slot_is_room_for_an_item_to_come() {
    let time = ManualClock::new();
    let rate = queued(TokenBucket::per_second(10), &time);
    let size = |item: &&str| u64::try_from(item.len()).unwrap();
    let (sender, mut receiver) = channel_with_cost(rate.clone(), size);
    let left = || rate.snapshot().available();

    let slot = sender.reserve(8).await.unwrap();
    assert_eq!((slot.room(), left()), (8, 2));
    drop(slot);
    assert_eq!(left(), 10, "as if it had never been");

    let slot = sender.try_reserve(8).unwrap();
    slot.send("short").unwrap();
    assert_eq!(left(), 5);
    let slot = sender.try_reserve(4).unwrap();
    let too_large = slot.send("longer").unwrap_err();
    assert_eq!(too_large.denied().unwrap().reason(), Reason::TooLarge);
    assert_eq!((too_large.into_inner(), left()), ("longer", 5));
    assert!(sender.try_reserve(6).is_err());

    let waits = tokio::spawn({
        let sender = sender.clone();
        async move { sender.reserve(6).await.map(|slot| slot.send("longer")) }
    });
    settle().await;
    time.advance(Duration::from_millis(100));
    waits.await.unwrap().unwrap().unwrap();
    assert_eq!(receiver.recv().await, Some("short"));
    assert_eq!(receiver.recv().await, Some("longer"));
    assert_eq!(left(), 0);
}

#[tokio::test]
async fn a_deadline_and_a_full_queue_give_the_item_back() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(1));
    let gate = gate.clock(time.clock()).build();
    let patience = |item: &u64| Demand::ONE.within(Duration::from_millis(*item));
    let (sender, _receiver) = channel_with_cost(gate.clone(), patience);
    sender.send(1).await.unwrap();
    let waits = tokio::spawn({
        let sender = sender.clone();
        async move { sender.send(20).await }
    });
    settle().await;
    let full = sender.send(3).await.unwrap_err();
    assert_eq!(full.denied().unwrap().reason(), Reason::QueueFull);
    time.advance(Duration::from_millis(21));
    let late = waits.await.unwrap().unwrap_err();
    assert_eq!(late.denied().unwrap().reason(), Reason::TimedOut);
    assert_eq!(late.into_inner(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_reordered_between_threads() {
    const EACH: u64 = 2000;
    let gate = Gate::builder(Concurrency::new(7))
        .queue(Queue::fifo(100))
        .build();
    let (sender, mut receiver) = channel(gate.clone());
    for name in 0..4_usize {
        let sender = sender.clone();
        tokio::spawn(async move {
            for number in 0..EACH {
                if number % 3 == 0 {
                    sender
                        .reserve(1)
                        .await
                        .unwrap()
                        .send((name, number))
                        .unwrap();
                } else {
                    sender.send((name, number)).await.unwrap();
                }
            }
        });
    }
    drop(sender);
    let mut next = [0; 4];
    while let Some((name, number)) = receiver.recv().await {
        assert_eq!(number, next[name]);
        next[name] += 1;
    }
    assert_eq!(next, [EACH; 4]);
    assert_eq!(
        (gate.snapshot().in_use(), gate.snapshot().waiters()),
        (0, 0)
    );
}
