//! The loop itself: requests come, pass the gate or not, are worked on, and what becomes of them changes the limit.

use plimsoll::{Demand, ManualClock, Moment, Permit};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::chance::{Chance, generator};
use crate::class::{CLASSES, Class};
use crate::closed_loop::{ClosedLoop, Turn};
use crate::events::Events;
use crate::num::whole;
use crate::record::{Gauges, Recorder, Run};
use crate::room::Room;
use crate::server::{Begun, Server};
use crate::subject::{Answer, Subject};
use crate::traffic::Arrivals;
use crate::{Contender, Simulation};

/// One request of a client, through all its tries.
#[derive(Clone, Copy)]
struct Request {
    arrived: u64,
    tries: u32,
    class: Class,
    /// Whose it is in the closed loop.
    turn: Option<Turn>,
}

struct Job<'s> {
    request: Request,
    begun: u64,
    permit: Permit<'s>,
}

enum Event<'s> {
    /// Somebody tries again.
    Retry(Request),
    /// A client of the closed loop has thought enough.
    Send(u32),
    /// A client of the closed loop has waited enough.
    GiveUp(Turn),
    Done(Job<'s>),
    /// There may be another number of workers.
    Change,
    /// Somebody at the gate has waited enough. The clock must stop here; the gate does the rest.
    Due,
}

/// Runs a simulation with a limit. The same seed gives the same run, on any machine.
///
/// The traffic depends on the seed alone, so that limits can be compared: arrivals, their classes and the times of
/// service are drawn from generators of their own.
#[must_use]
pub fn run(simulation: &Simulation, contender: &Contender, seed: u64) -> Run {
    run_watched(simulation, contender, seed, &mut |_| {})
}

/// As [`run`], and says after every virtual second how many have passed.
#[must_use]
pub fn run_watched(
    simulation: &Simulation,
    contender: &Contender,
    seed: u64,
    watch: &mut dyn FnMut(usize),
) -> Run {
    let clock = ManualClock::new();
    let limit = contender.make(&simulation.server.workers);
    let subject = Subject::new(
        limit,
        simulation.queue.map(|room| (room.queue, room.bound)),
        clock.clock(),
    );
    let mut world = World::new(simulation, &subject, clock, seed);
    world.go(watch);
    let inside = world.inside();
    world.recorder.finish(contender.name(), seed, inside)
}

struct World<'s> {
    simulation: &'s Simulation,
    subject: &'s Subject,
    clock: ManualClock,
    now: u64,
    events: Events<Event<'s>>,
    arrivals: Arrivals<'s>,
    closed_loop: Option<ClosedLoop>,
    server: Server<'s, Job<'s>>,
    room: Room<'s, Request>,
    /// How long before the next try.
    delays: Pcg64Mcg,
    in_flight: u32,
    retrying: u64,
    recorder: Recorder<'s>,
}

impl<'s> World<'s> {
    fn new(
        simulation: &'s Simulation,
        subject: &'s Subject,
        clock: ManualClock,
        seed: u64,
    ) -> Self {
        Self {
            simulation,
            subject,
            clock,
            now: 0,
            events: Events::new(),
            arrivals: Arrivals::new(simulation, seed),
            closed_loop: ClosedLoop::new(simulation, seed),
            server: Server::new(&simulation.server, seed),
            room: Room::new(),
            delays: generator(seed, Chance::Retries),
            in_flight: 0,
            retrying: 0,
            recorder: Recorder::new(simulation),
        }
    }

    fn go(&mut self, watch: &mut dyn FnMut(usize)) {
        let end = self.simulation.duration;
        self.begin(end);
        let mut seen = 0;
        let mut arrival = self.arrivals.next();
        loop {
            let next = self.events.next_at();
            // At the same moment the newcomer is first.
            let comes = arrival.filter(|(at, _)| next.is_none_or(|next| *at <= next));
            let Some(at) = comes.map(|(at, _)| at).or(next).filter(|at| *at < end) else {
                break;
            };
            let passed = self.pass(at);
            if passed > seen {
                seen = passed;
                watch(passed);
            }
            if let Some((arrived, class)) = comes {
                self.arrive(arrived, class, None);
                arrival = self.arrivals.next();
            } else if let Some(event) = self.events.pop() {
                self.happen(event);
            }
            self.serve_room();
        }
        // Nothing more happens, not even at the gate: who is still inside stays there.
        watch(self.record_until(end));
    }

    /// What is known from the start.
    fn begin(&mut self, end: u64) {
        for at in self.simulation.server.workers.changes(end) {
            self.events.push(at, Event::Change);
        }
        let first = self.closed_loop.iter_mut().flat_map(ClosedLoop::first);
        for (client, at) in first {
            self.events.push(at, Event::Send(client));
        }
    }

    /// Moves time on. Says how many seconds have passed.
    fn pass(&mut self, now: u64) -> usize {
        let passed = self.record_until(now);
        self.now = now;
        self.clock.advance_to(Moment::from_nanos(now));
        self.serve_room();
        passed
    }

    fn record_until(&mut self, now: u64) -> usize {
        let gauges = Gauges {
            limit: self.subject.limit(),
            in_flight: self.in_flight,
            waiting: self.waiting(),
        };
        self.recorder.pass(now, gauges)
    }

    fn happen(&mut self, event: Event<'s>) {
        match event {
            Event::Retry(request) => {
                self.retrying -= 1;
                if self.cares(request) {
                    self.ask(request);
                } else {
                    self.recorder.rejected(request.class);
                }
            }
            Event::Send(client) => self.send(client),
            Event::GiveUp(turn) => self.next_turn(turn),
            Event::Done(job) => self.done(job),
            Event::Change => {
                self.server.change(self.now);
                while let Some(begun) = self.server.begin(self.now, self.in_flight) {
                    self.begun(begun);
                }
            }
            Event::Due => {}
        }
    }

    fn arrive(&mut self, arrived: u64, class: Class, turn: Option<Turn>) {
        self.recorder.offered(class, turn.is_some());
        self.ask(Request {
            arrived,
            tries: 0,
            class,
            turn,
        });
    }

    fn send(&mut self, client: u32) {
        if let Some(closed_loop) = &mut self.closed_loop {
            let (turn, class) = closed_loop.send(client);
            let gives_up = self.now.saturating_add(self.simulation.deadline);
            self.events.push(gives_up, Event::GiveUp(turn));
            self.arrive(self.now, class, Some(turn));
        }
    }

    /// A client has its answer, or no longer cares: it thinks, and asks again.
    fn next_turn(&mut self, turn: Turn) {
        let thinks = self.closed_loop.as_mut().and_then(|them| them.ended(turn));
        if let Some(span) = thinks {
            let at = self.now.saturating_add(span);
            self.events.push(at, Event::Send(turn.client));
        }
    }

    fn ask(&mut self, request: Request) {
        let until = request.arrived.saturating_add(self.simulation.deadline);
        let demand = Demand::ONE
            .priority(CLASSES[request.class].1)
            .until(Moment::from_nanos(until));
        match self.room.ask(self.subject, demand, request) {
            Some((answer, request)) => self.answer(answer, request),
            None => {
                let timeout = self.simulation.queue.and_then(|room| room.timeout);
                let due = timeout.map_or(until, |span| until.min(self.now.saturating_add(span)));
                // A deadline is met until it has passed.
                self.events.push(due.saturating_add(1), Event::Due);
            }
        }
    }

    /// Deals with everybody who no longer waits at the gate.
    fn serve_room(&mut self) {
        while let Some((answer, request)) = self.room.next_settled(self.subject) {
            self.answer(answer, request);
        }
    }

    fn answer(&mut self, answer: Answer<'s>, request: Request) {
        match answer {
            Answer::Granted(permit) => self.admit(permit, request),
            Answer::Waiting(_) | Answer::Refused => self.reject(request),
        }
    }

    fn admit(&mut self, permit: Permit<'s>, request: Request) {
        self.in_flight += 1;
        let job = Job {
            request,
            begun: self.now,
            permit,
        };
        if let Some(begun) = self.server.admit(self.now, self.in_flight, job) {
            self.begun(begun);
        }
    }

    fn begun(&mut self, begun: Begun<Job<'s>>) {
        self.events.push(begun.end, Event::Done(begun.job));
    }

    fn reject(&mut self, mut request: Request) {
        if let Some(retries) = self.simulation.traffic.retries
            && request.tries < retries.times
            && self.cares(request)
        {
            request.tries += 1;
            self.retrying += 1;
            let delay = retries.delay as f64 * (0.5 + self.delays.random::<f64>());
            let at = self.now.saturating_add(whole(delay));
            self.events.push(at, Event::Retry(request));
            return;
        }
        self.recorder.rejected(request.class);
        if let Some(turn) = request.turn {
            self.next_turn(turn);
        }
    }

    /// Whether anybody still waits for the answer. In the open loop that is nobody's business.
    fn cares(&self, request: Request) -> bool {
        match (request.turn, &self.closed_loop) {
            (Some(turn), Some(closed_loop)) => closed_loop.cares(turn),
            _ => true,
        }
    }

    fn done(&mut self, job: Job<'s>) {
        if let Some(begun) = self.server.done(self.now, self.in_flight) {
            self.begun(begun);
        }
        let overload = self.now - job.begun > self.simulation.deadline;
        self.in_flight -= 1;
        Subject::finish(job.permit, overload);
        let request = job.request;
        self.recorder
            .answered(request.class, self.now - request.arrived);
        if let Some(turn) = request.turn {
            self.next_turn(turn);
        }
    }

    fn waiting(&self) -> u32 {
        u32::try_from(self.room.waiting()).unwrap_or(u32::MAX)
    }

    /// How many are still on their way.
    fn inside(&self) -> u64 {
        u64::from(self.in_flight) + self.room.waiting() as u64 + self.retrying
    }
}
