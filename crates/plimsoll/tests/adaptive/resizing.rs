//! What the answers of an algorithm do.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use plimsoll::adaptive::{
    Adaptive, Aimd, Gradient2, LatencyGradient, Limit, Settings, Vegas, Verdict, Windowed,
};
use plimsoll::{
    All, Clock, Demand, Gate, Limiter, ManualClock, Outcome, Priority, Queue, Reason, TokenBucket,
};

use crate::MS;
use crate::poll::poll;
use crate::scripted::{Scripted, locked, take};
use crate::waiter::Waiter;

#[test]
fn growing_wakes_who_waits() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(2);
    let gate = algorithm.gate(&time);
    let mut held = take(&gate, 2);
    let waiters: Vec<_> = (0..4).map(|_| Waiter::new(gate.acquire(1))).collect();
    algorithm.say(4);
    held.remove(0).finish(Outcome::Success);
    // One for the permit that came back and two for the growth.
    let woken: Vec<_> = waiters.iter().map(Waiter::woken).collect();
    assert_eq!(woken, [1, 1, 1, 0]);
    let seen = gate.snapshot();
    assert_eq!((seen.limit(), seen.in_use(), seen.waiters()), (4, 4, 1));
}

#[test]
fn a_shrink_takes_effect_as_permits_come_back() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(10);
    let gate = algorithm.gate(&time);
    let mut held = take(&gate, 10);
    algorithm.say(3);
    held.remove(0).finish(Outcome::Overload);
    assert_eq!((gate.snapshot().limit(), gate.snapshot().in_use()), (3, 9));
    while held.len() > 3 {
        assert!(gate.try_acquire(1).is_err());
        drop(held.remove(0));
    }
    assert!(gate.try_acquire(1).is_err());
    drop(held.remove(0));
    assert!(gate.try_acquire(1).is_ok());
}

/// How much may wait, by trying.
fn room<L: Limit>(gate: &Gate<Adaptive<L>>) -> usize {
    let _held = gate.take_up_to(u64::MAX);
    let waiters = (0..100).map_while(|_| {
        let mut waiter = gate.acquire(1);
        poll(&mut waiter).is_pending().then_some(waiter)
    });
    waiters.collect::<Vec<_>>().len()
}

#[test]
fn the_bound_of_the_queue_follows_the_limit() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(5);
    let at = |gate: &Gate<Adaptive<Scripted>>, limit: u64| {
        algorithm.say(limit);
        gate.try_acquire(1).unwrap().finish(Outcome::Success);
        assert_eq!(gate.insight().queue, u64::try_from(room(gate)).ok());
        room(gate)
    };
    let gate = algorithm.builder(&time).queue(Queue::fifo(3)).build();
    // The root, rounded up, and never less than what it began with.
    assert_eq!(
        [5, 17, 16, 100, 1].map(|limit| at(&gate, limit)),
        [3, 5, 4, 10, 3]
    );
    // Set by hand, until the next decision.
    gate.set_queue_bound(50);
    assert_eq!([1, 64].map(|limit| at(&gate, limit)), [50, 8]);
    // The algorithm's own idea.
    *locked(&algorithm.0.bound) = Some(2);
    assert_eq!([64, 9].map(|limit| at(&gate, limit)), [2, 2]);
    assert_eq!(room(&algorithm.gate(&time)), 2, "from the start");
    *locked(&algorithm.0.bound) = None;
    // A function of the user's.
    let builder = algorithm.builder(&time).queue_size(|now| 2 * now.limit);
    let gate = builder.build();
    assert_eq!(room(&gate), 20);
    assert_eq!([7, 30].map(|limit| at(&gate, limit)), [14, 60]);
    // It counts whatever the algorithm says.
    *locked(&algorithm.0.bound) = Some(2);
    assert_eq!([8, 9].map(|limit| at(&gate, limit)), [16, 18]);
    *locked(&algorithm.0.bound) = None;
    let queueless = Gate::builder(Adaptive::new(algorithm.clone())).build();
    assert_eq!((queueless.insight().queue, room(&queueless)), (None, 0));
}

#[test]
fn the_function_of_the_queue_sees_what_goes_on() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (time, algorithm, notes) = (ManualClock::new(), Scripted::new(3), Arc::clone(&seen));
    let builder = algorithm.builder(&time).queue_size(move |now| {
        notes.lock().unwrap().push(*now);
        now.limit + now.queued + u64::from(now.latency == Some(7 * MS))
    });
    let gate = builder.build();
    let mut held = take(&gate, 3);
    let _waiters: Vec<_> = (0..2).map(|_| Waiter::new(gate.acquire(1))).collect();
    time.advance(7 * MS);
    held.remove(0).finish(Outcome::Success);
    let now = *seen.lock().unwrap().last().unwrap();
    assert_eq!((now.limit, now.in_flight, now.queued), (3, 3, 2));
    assert_eq!(now.latency, Some(7 * MS));
    assert_eq!(gate.snapshot().queue_bound(), 6);
}

#[test]
fn every_algorithm_heeds_the_function_of_the_queue() {
    let algorithms: [Box<dyn Limit>; 6] = [
        Box::new(Aimd::builder().build().unwrap()),
        Box::new(Vegas::builder().build().unwrap()),
        Box::new(Gradient2::builder().build().unwrap()),
        Box::new(LatencyGradient::default()),
        Box::new(Verdict::new()),
        Box::new(Windowed::new(LatencyGradient::default())),
    ];
    for algorithm in algorithms {
        let time = ManualClock::new();
        let name = format!("{algorithm:?}");
        let gate = Gate::builder(Adaptive::new(algorithm))
            .queue(Queue::fifo(4))
            .queue_size(|now| now.limit * 3)
            .clock(time.clock())
            .build();
        assert_eq!(gate.snapshot().queue_bound(), 4, "{name}: as set, at first");
        for _ in 0..200 {
            let permits = take(&gate, 3);
            time.advance(20 * MS);
            permits
                .into_iter()
                .for_each(|it| it.finish(Outcome::Success));
            let seen = gate.snapshot();
            assert_eq!(seen.queue_bound(), seen.limit() * 3, "{name}");
        }
    }
}

#[test]
fn a_function_that_panics_leaves_the_bound_and_keeps_the_limit_going() {
    let (time, algorithm) = (ManualClock::new(), Scripted::new(3));
    let builder = algorithm.builder(&time).queue_size(|now| match now.limit {
        7 => panic!("not the limiter's fault"),
        limit => limit,
    });
    let gate = builder.build();
    for (limit, bound) in [(4, 4), (7, 4), (8, 8)] {
        algorithm.say(limit);
        gate.try_acquire(1).unwrap().finish(Outcome::Success);
        assert_eq!((gate.snapshot().limit(), room(&gate)), (limit, bound));
    }
}

#[test]
fn the_function_of_the_queue_never_goes_below_the_minimum() {
    let settings = Settings {
        min_queue: 6,
        initial_queue: 9,
        ..Settings::default()
    };
    let builder = settings.builder(|settings| Scripted::new(settings.initial));
    let gate = builder.unwrap().queue_size(|_| 0).build();
    assert_eq!(room(&gate), 9);
    gate.try_acquire(1).unwrap().finish(Outcome::Success);
    assert_eq!(room(&gate), 6);
}

#[test]
fn a_bound_that_falls_sends_nobody_away() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(2);
    let gate = algorithm.gate(&time);
    let mut held = take(&gate, 2);
    let mut waiters: Vec<_> = (0..20).map(|_| Waiter::new(gate.acquire(1))).collect();
    *locked(&algorithm.0.bound) = Some(1);
    held.remove(0).finish(Outcome::Success);
    assert!(waiters.remove(0).look().is_ready());
    assert_eq!(gate.snapshot().waiters(), 18, "and the next one was served");
    assert!(matches!(poll(&mut gate.acquire(1)), Poll::Ready(Err(_))));
}

#[test]
fn classes_and_timeouts_of_the_queue_hold() {
    let time = ManualClock::new();
    let settings = Settings {
        min_queue: 2,
        initial_queue: 2,
        queue_timeout: Some(10 * MS),
        ..Settings::default()
    };
    let builder = settings.builder(|settings| Scripted::new(settings.initial));
    let gate = builder.unwrap().clock(time.clock()).build();
    let mut held = take(&gate, 5);
    let [low, normal, high] = [Priority::NonCritical, Priority::Normal, Priority::Critical]
        .map(|class| Demand::ONE.priority(class));
    let mut first = Waiter::new(gate.acquire(low));
    let mut second = Waiter::new(gate.acquire(normal));
    // Full: the highest pushes the lowest out, the lowest is refused.
    let mut third = Waiter::new(gate.acquire(high));
    assert!(matches!(first.look(), Poll::Ready(Err(Reason::Evicted))));
    let Poll::Ready(Err(denied)) = poll(&mut gate.acquire(low)) else {
        panic!("there is no room");
    };
    assert_eq!(denied.reason(), Reason::QueueFull);
    held.remove(0).finish(Outcome::Success);
    assert!(second.look().is_pending());
    let Poll::Ready(Ok(granted)) = third.look() else {
        panic!("the highest is first");
    };
    time.advance(10 * MS);
    assert!(second.look().is_pending());
    time.advance(MS);
    assert!(matches!(second.look(), Poll::Ready(Err(Reason::TimedOut))));
    drop((granted, held));
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_panic_of_the_algorithm_harms_nobody() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(4);
    let gate = algorithm.gate(&time);
    let held = take(&gate, 4);
    algorithm.0.panics.store(2, Ordering::Relaxed);
    algorithm.say(9);
    held.into_iter().for_each(|permit| {
        let before = gate.insight().lost;
        permit.finish(Outcome::Success);
        let lost = gate.insight().lost - before;
        let limit = gate.snapshot().limit();
        assert!((lost, limit) == (1, 4) || (lost, limit) == (0, 9));
    });
    assert_eq!((gate.insight().lost, gate.snapshot().in_use()), (2, 0));
    assert_eq!(algorithm.heard().len(), 2);
    assert_eq!(gate.insight().decision, "as told");
}

#[test]
fn the_clock_is_precise_unless_told_otherwise() {
    let gate = Gate::new(Adaptive::new(Scripted::new(1)));
    assert_eq!(
        format!("{:?}", Limiter::clock(&gate)),
        format!("{:?}", Clock::precise())
    );
    assert!(format!("{gate:?}").contains("Scripted"));
}

#[test]
fn one_of_several_limits_may_be_adaptive() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(3);
    let rate = Gate::builder(TokenBucket::per_second(100)).clock(time.clock());
    let all = All::new([
        Arc::new(rate.build()) as Arc<dyn Limiter>,
        Arc::new(algorithm.gate(&time)),
    ]);
    let permit = all.try_acquire(1).unwrap();
    time.advance(4 * MS);
    permit.finish(Outcome::Overload);
    drop(all.try_acquire(1).unwrap());
    let heard = algorithm.heard();
    assert_eq!(heard.len(), 1);
    assert!((heard[0].latency(), heard[0].overload) == (4 * MS, true));
}
