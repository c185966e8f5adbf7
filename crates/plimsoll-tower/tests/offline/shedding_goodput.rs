//! What load shedding with the usual settings is worth beside a server that becomes slow, on a clock moved by hand.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use plimsoll::{Acquire, Demand, ManualClock, Outcome, Permit};
use plimsoll_tower::LoadShed;
use plimsoll_tower::shedding::SheddingGate;

/// A server that has so many workers.
struct Server {
    gate: SheddingGate,
    time: ManualClock,
    workers: usize,
    /// Who waits at the limit, since when.
    waiting: Vec<(u64, Pin<Box<Acquire<'static>>>)>,
    /// Who was let in and waits for a worker.
    admitted: VecDeque<(u64, Permit<'static>)>,
    /// Who is worked on: since when it waits, until when it takes.
    working: Vec<(u64, u64, Permit<'static>)>,
    millis: u64,
}

/// How long callers wait, in milliseconds.
const DEADLINE: u64 = 1000;

impl Server {
    fn new(workers: usize) -> Self {
        let time = ManualClock::new();
        let (_layer, gate) = LoadShed::new().clock(time.clock()).build().unwrap();
        Self {
            gate,
            time,
            workers,
            waiting: Vec::new(),
            admitted: VecDeque::new(),
            working: Vec::new(),
            millis: 0,
        }
    }

    /// Lets so many seconds pass, with so many requests each. Returns how many were answered in time in each second.
    fn run(&mut self, seconds: u64, rate: u64, work: impl Fn(u64) -> u64) -> u64 {
        let (mut served, mut due) = (0, 0);
        for step in 0..seconds * 1000 {
            self.time.advance(Duration::from_millis(1));
            self.millis += 1;
            let now = self.millis;
            let (done, rest) = std::mem::take(&mut self.working)
                .into_iter()
                .partition(|(_, until, _)| *until <= now);
            self.working = rest;
            for (since, _, permit) in done {
                permit.finish(Outcome::Success);
                served += u64::from(now - since <= DEADLINE);
            }
            due += rate;
            while due >= 1000 {
                due -= 1000;
                let acquire = self.gate.acquire_owned(Demand::ONE);
                self.waiting.push((now, Box::pin(acquire)));
            }
            for (since, mut acquire) in std::mem::take(&mut self.waiting) {
                match acquire
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                {
                    std::task::Poll::Ready(Ok(permit)) => self.admitted.push_back((since, permit)),
                    std::task::Poll::Ready(Err(_)) => {}
                    std::task::Poll::Pending => self.waiting.push((since, acquire)),
                }
            }
            while self.working.len() < self.workers {
                let Some((since, permit)) = self.admitted.pop_front() else {
                    break;
                };
                self.working.push((since, now + work(step), permit));
            }
        }
        served / seconds
    }
}

/// With the usual settings of once, a server that had a fifth of its workers left worked for callers that had given up:
/// who waited did so without end, and the limit was the least that the algorithm knew.
#[test]
fn a_server_with_a_fifth_of_its_workers_still_serves_what_it_can_in_time() {
    for (workers, millis) in [(25, 200), (10, 100), (5, 100), (50, 100), (20, 40)] {
        let mut server = Server::new(workers);
        let work = move |step: u64| millis / 2 + step * 7919 % millis;
        let capacity = workers as u64 * 1000 / millis;
        let rate = capacity * 8 / 10;
        server.run(20, rate, work);
        let served = server.run(10, rate, work);
        assert!(served * 100 >= rate * 95, "{served} of {rate}");
        server.workers /= 5;
        // Time to find out.
        server.run(20, rate, work);
        let (served, possible) = (server.run(20, rate, work), capacity / 5);
        assert!(
            served * 100 >= possible * 85,
            "{served} of {possible} with {workers} workers of {millis} ms"
        );
    }
}
