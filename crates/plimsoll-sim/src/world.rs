//! The event loop: requests arrive, are admitted or refused, are served, and their outcomes change the limit.

mod leaving;
mod turns;

use plimsoll::adaptive::Insight;
use plimsoll::{Demand, ManualClock, Moment, Outcome, Permit};

use crate::Simulation;
use crate::class::CLASSES;
use crate::closed_loop::{ClosedLoop, Turn};
use crate::events::Events;
use crate::job::{Event, Job, Part, Request};
use crate::record::{Gauges, Recorder};
use crate::retrying::{Retrying, Why};
use crate::room::Room;
use crate::simulation::WaitingRoom;
use crate::station::{Begun, Station};
use crate::subject::{Answer, Subject};
use crate::traffic::{Arrivals, RequestKind};

pub(crate) struct World<'s> {
    simulation: &'s Simulation,
    clock: ManualClock,
    now: u64,
    events: Events<Event<'s>>,
    arrivals: Arrivals<'s>,
    closed_loop: Option<ClosedLoop<'s>>,
    /// The gate of each process, and its waiters.
    gates: Vec<(&'s Subject, Room<'s, Request>)>,
    stations: Vec<Part<'s>>,
    retries: Retrying,
    in_flight: u32,
    retrying: u64,
    recorder: Recorder<'s>,
    /// Called with the state of a gate whenever it may have changed.
    listener: Option<&'s mut dyn FnMut(u64, usize, Insight)>,
}

impl<'s> World<'s> {
    pub(crate) fn new(
        simulation: &'s Simulation,
        outer: &'s [Subject],
        inner: &'s [Option<Subject>],
        clock: ManualClock,
        seed: u64,
    ) -> Self {
        let stations = simulation.stations.iter().zip(inner).enumerate();
        let part =
            |(index, (stop, gate)): (usize, (&'s crate::simulation::Stop, &'s Option<_>))| Part {
                station: Station::new(&stop.model, seed, index),
                gate: gate.as_ref().map(|gate| (gate, Room::new())),
            };
        Self {
            simulation,
            clock,
            now: 0,
            events: Events::new(),
            arrivals: Arrivals::new(simulation, seed),
            closed_loop: ClosedLoop::new(simulation, seed),
            gates: outer.iter().map(|gate| (gate, Room::new())).collect(),
            stations: stations.map(part).collect(),
            retries: Retrying::new(simulation.traffic.retries, seed),
            in_flight: 0,
            retrying: 0,
            recorder: Recorder::new(simulation),
            listener: None,
        }
    }

    /// Sets the listener to decisions of the gates: the time, the process and the state.
    pub(crate) fn listener(mut self, listener: &'s mut dyn FnMut(u64, usize, Insight)) -> Self {
        self.listener = Some(listener);
        self
    }

    fn listen(&mut self) {
        if let Some(listener) = &mut self.listener {
            for (process, (gate, _)) in self.gates.iter().enumerate() {
                listener(self.now, process, gate.insight());
            }
        }
    }

    /// Runs the simulation to its end. Calls `watch` after every virtual second with the number of seconds that have passed.
    pub(crate) fn go(&mut self, watch: &mut dyn FnMut(usize)) {
        let end = self.simulation.duration;
        self.begin(end);
        let mut seen = 0;
        let mut arrival = self.arrivals.next();
        loop {
            let next = self.events.next_at();
            // At the same moment, an arrival comes before other events.
            let comes = arrival.filter(|(at, _)| next.is_none_or(|next| *at <= next));
            let Some(at) = comes.map(|(at, _)| at).or(next).filter(|at| *at < end) else {
                break;
            };
            let passed = self.pass(at);
            if passed > seen {
                seen = passed;
                watch(passed);
            }
            if let Some((arrived, kind)) = comes {
                self.arrive(arrived, kind, None);
                arrival = self.arrivals.next();
            } else if let Some(event) = self.events.pop() {
                self.happen(event);
            }
            self.serve_rooms();
            self.listen();
        }
        // No more events, not even at the gates: requests that are inside stay there.
        watch(self.record_until(end));
    }

    /// Schedules the events that are known from the start.
    fn begin(&mut self, end: u64) {
        for (index, stop) in self.simulation.stations.iter().enumerate() {
            for at in stop.model.workers.iter().flat_map(|it| it.changes(end)) {
                self.events.push(at, Event::Change(index));
            }
        }
        let first = self.closed_loop.iter_mut().flat_map(ClosedLoop::first);
        for (client, at) in first {
            self.events.push(at, Event::Send(client));
        }
    }

    /// Moves time on, and returns the number of seconds that have ended.
    fn pass(&mut self, now: u64) -> usize {
        let passed = self.record_until(now);
        self.now = now;
        self.clock.advance_to(Moment::from_nanos(now));
        self.serve_rooms();
        passed
    }

    fn record_until(&mut self, now: u64) -> usize {
        let limits = self.gates.iter().map(|(gate, _)| gate.limit());
        let gauges = Gauges {
            limit: limits.fold(0, u64::saturating_add),
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
                    self.recorder.rejected(request.kind.class);
                }
            }
            Event::Send(client) => self.send(client),
            Event::GiveUp(turn) => self.next_turn(turn),
            Event::Done(job, failed) => self.done(job, failed),
            Event::Change(index) => {
                self.stations[index].station.change(self.now);
                while let Some(begun) = self.stations[index].station.begin(self.now) {
                    self.begun(begun);
                }
            }
            Event::Leave => self.leave(),
            Event::Due => {}
        }
    }

    fn arrive(&mut self, arrived: u64, kind: RequestKind, turn: Option<Turn>) {
        self.recorder.offered(kind, turn.is_some());
        self.retries.came();
        self.ask(Request {
            arrived,
            tries: 0,
            kind,
            turn,
        });
    }

    fn demand(&self, request: &Request) -> Demand {
        let until = request.arrived.saturating_add(self.simulation.deadline);
        Demand::ONE
            .priority(CLASSES[request.kind.class].1)
            .until(Moment::from_nanos(until))
    }

    /// Schedules the time-out of a waiter in this queue.
    fn waits(&mut self, request: &Request, queue: Option<WaitingRoom>) {
        let until = request.arrived.saturating_add(self.simulation.deadline);
        let timeout = queue.and_then(|room| room.timeout);
        let due = timeout.map_or(until, |span| until.min(self.now.saturating_add(span)));
        // A request that ends exactly at its deadline still meets it.
        self.events.push(due.saturating_add(1), Event::Due);
    }

    fn ask(&mut self, request: Request) {
        let demand = self.demand(&request);
        let (gate, room) = &mut self.gates[request.kind.process];
        match room.ask(gate, demand, request) {
            Some((answer, request)) => self.answer(answer, request),
            None => self.waits(&request, self.simulation.queue),
        }
    }

    /// Continues the requests that no longer wait at a gate.
    fn serve_rooms(&mut self) {
        let mut again = true;
        while again {
            again = false;
            for process in 0..self.gates.len() {
                let (gate, room) = &mut self.gates[process];
                if let Some((answer, request)) = room.next_settled(gate) {
                    again = true;
                    self.answer(answer, request);
                }
            }
            for index in 0..self.stations.len() {
                if let Some((gate, room)) = &mut self.stations[index].gate
                    && let Some((answer, job)) = room.next_settled(gate)
                {
                    again = true;
                    self.inner_answer(answer, job);
                }
            }
        }
    }

    fn answer(&mut self, answer: Answer<'s>, request: Request) {
        match answer {
            Answer::Granted(permit) => {
                self.in_flight += 1;
                self.may_leave(&request);
                self.enter(Job::new(request, self.now, permit));
            }
            Answer::Waiting(_) | Answer::Refused => {
                self.unserved(request, Why::Refused);
            }
        }
    }

    /// Moves a job to the next station that it needs. After the last one, the job is answered.
    fn enter(&mut self, mut job: Job<'s>) {
        let kind = job.request.kind;
        while job.at < self.stations.len() && !kind.needs(job.at) {
            job.at += 1;
        }
        let (request, index) = (job.request, job.at);
        let demand = self.demand(&request);
        match self.stations.get_mut(index).map(|part| &mut part.gate) {
            None => self.end(job, None),
            Some(None) => self.work(job),
            Some(Some((gate, room))) => match room.ask(gate, demand, job) {
                Some((answer, job)) => self.inner_answer(answer, job),
                None => {
                    let queue = self.simulation.stations[index].gate.as_ref();
                    self.waits(&request, queue.and_then(|gate| gate.queue));
                }
            },
        }
    }

    fn inner_answer(&mut self, answer: Answer<'s>, mut job: Job<'s>) {
        match answer {
            Answer::Granted(permit) => {
                job.inner = Some(permit);
                self.work(job);
            }
            Answer::Waiting(_) | Answer::Refused => self.end(job, Some(Outcome::Overload)),
        }
    }

    fn work(&mut self, job: Job<'s>) {
        let (now, class) = (self.now, job.request.kind.class);
        if let Some(begun) = self.stations[job.at].station.admit(now, class, job) {
            self.begun(begun);
        }
    }

    fn begun(&mut self, begun: Begun<Job<'s>>) {
        let end = self.last_moment(&begun.job, begun.end);
        self.events.push(end, Event::Done(begun.job, begun.failed));
    }

    /// Ends the work of a job at its station.
    fn done(&mut self, mut job: Job<'s>, failed: Option<Outcome>) {
        if self.has_left(&job) {
            self.free(job.at, job.inner.take(), Outcome::Ignore);
            self.left(job);
            return;
        }
        let inner = job.inner.take();
        if failed.is_none() && self.simulation.stations[job.at].holds {
            job.held.push((job.at, inner));
        } else {
            self.free(job.at, inner, self.outcome(&job, failed));
        }
        job.at += 1;
        match failed {
            Some(_) => self.end(job, failed),
            None => self.enter(job),
        }
    }

    /// Frees a worker, and the permit of the gate before its station.
    fn free(&mut self, station: usize, permit: Option<Permit<'s>>, outcome: Outcome) {
        if let Some(begun) = self.stations[station].station.done(self.now) {
            self.begun(begun);
        }
        if let Some(permit) = permit {
            permit.finish(outcome);
        }
    }

    /// The outcome of a job for its limit.
    fn outcome(&self, job: &Job<'s>, failed: Option<Outcome>) -> Outcome {
        let late = self.now - job.begun > self.simulation.deadline;
        match failed {
            Some(outcome) => outcome,
            None if late => self.simulation.late_outcome,
            None => Outcome::Success,
        }
    }

    /// Ends a job with its answer, which may be an error.
    fn end(&mut self, mut job: Job<'s>, failed: Option<Outcome>) {
        let outcome = self.outcome(&job, failed);
        for (station, permit) in std::mem::take(&mut job.held) {
            self.free(station, permit, outcome);
        }
        self.in_flight -= 1;
        job.permit.finish(outcome);
        let request = job.request;
        if failed.is_some() {
            self.unserved(request, Why::Failed);
            return;
        }
        let latency = self.now - request.arrived;
        self.recorder.answered(request.kind, latency);
        if let Some(turn) = request.turn {
            self.next_turn(turn);
        }
    }

    /// Retries a request that was refused or failed, or gives it up.
    fn unserved(&mut self, mut request: Request, why: Why) {
        if self.cares(request)
            && let Some(delay) = self.retries.again(why, request.tries)
        {
            request.tries += 1;
            self.retrying += 1;
            let at = self.now.saturating_add(delay);
            self.events.push(at, Event::Retry(request));
            return;
        }
        match why {
            Why::Refused => self.recorder.rejected(request.kind.class),
            Why::Failed => self.recorder.failed(request.kind.class),
        }
        if let Some(turn) = request.turn {
            self.next_turn(turn);
        }
    }

    fn waiting(&self) -> u32 {
        let waiting = self.gates.iter().map(|(_, room)| room.waiting());
        u32::try_from(waiting.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// The records, and the number of unfinished requests.
    pub(crate) fn end_of(self) -> (Recorder<'s>, u64) {
        let inside = self.inside();
        (self.recorder, inside)
    }

    fn inside(&self) -> u64 {
        u64::from(self.in_flight) + u64::from(self.waiting()) + self.retrying
    }
}
