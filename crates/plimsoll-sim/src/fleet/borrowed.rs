//! A store, and processes that borrow from it: the bucket and the decisions are those of `plimsoll-redis`.

use std::time::Duration;

use plimsoll::{Gate, ManualClock, Moment, Quota, TokenBucket};
use plimsoll_redis::simulation::{Batch, Borrower, Step};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use super::model::{Fleet, Network, Outage, Sharing};
use super::outcome::{Tally, Watch, second_of};
use super::process::{Event, Message, Process, Reply, What};
use crate::events::Events;
use crate::num::{NANOS, index, whole};

/// A request waits for this many batches, then asks the store on its own.
const ROUNDS: u32 = 2;
/// The time for which a process sends no requests to a store that does not answer.
const LEFT_ALONE: u64 = NANOS / 2;
/// The interval at which a process without demand checks for demand.
const IDLE: u64 = NANOS / 10;

pub(super) struct World<'f> {
    fleet: &'f Fleet,
    network: &'f Network,
    outage: Outage,
    timeout: u64,
    count: u32,
    rng: Pcg64Mcg,
    now: u64,
    clock: ManualClock,
    store: Gate<TokenBucket>,
    processes: Vec<Process>,
    events: Events<Event>,
    numbers: u64,
    watch: Watch,
    tally: Tally,
}

pub(super) fn run(fleet: &Fleet, count: u32, seed: u64) -> Tally {
    let Sharing::Borrowed {
        borrow,
        outage,
        timeout,
    } = fleet.sharing
    else {
        return Tally::default();
    };
    let clock = ManualClock::new();
    let bucket = TokenBucket::greedy(Quota::per_second(fleet.rate)).burst(fleet.burst);
    let store = Gate::builder(bucket).clock(clock.clock()).build();
    let most = Borrower::new(borrow, fleet.burst, Moment::ORIGIN).most();
    let restarts = fleet.network.server_restarts.len() as f64;
    let each = u64::from(count);
    let mut world = World {
        fleet,
        network: &fleet.network,
        outage,
        timeout: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
        count,
        rng: Pcg64Mcg::seed_from_u64(seed),
        now: 0,
        clock,
        store,
        processes: Vec::new(),
        events: Events::new(),
        numbers: 0,
        watch: Watch::new(fleet.rate),
        tally: Tally {
            demanded: vec![0; index(each)],
            admitted: vec![0; index(each)],
            by_second: vec![0; index(fleet.seconds)],
            bound: fleet.burst as f64 * (1.0 + restarts) + (each * most) as f64,
            ..Tally::default()
        },
    };
    world.begin();
    world.go();
    world.tally.above = world.watch.worst();
    world.tally
}

impl World<'_> {
    fn begin(&mut self) {
        for process in 0..index(u64::from(self.count)) {
            let made = self.process(process, 0);
            let keep = made.borrower.keep();
            self.processes.push(made);
            self.arrive_next(process);
            let sweep = self.between(nanos(keep) / 2);
            self.events.push(sweep, Event::Sweep(process));
            self.fault(self.network.cuts, Event::Cut, process);
            self.fault(self.network.restarts, Event::Restart, process);
        }
        for second in &self.network.server_restarts {
            self.events.push(second * NANOS, Event::RestartStore);
        }
    }

    fn process(&self, process: usize, stream: u64) -> Process {
        Process::new(self.fleet, self.count, self.local(process), stream)
    }

    fn go(&mut self) {
        let end = self.fleet.seconds * NANOS;
        while let Some(at) = self.events.next_at().filter(|at| *at < end) {
            self.now = at;
            self.clock.advance_to(Moment::from_nanos(at));
            if let Some(event) = self.events.pop() {
                self.happen(event);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(process) => {
                self.arrive_next(process);
                let demand = self.fleet.demand_of(process, self.count, self.now);
                if demand > 0.0 {
                    self.tally.demanded[process] += 1;
                    self.step(process, 0);
                }
            }
            Event::Asked(message) => self.asked(message),
            Event::Answered(message, reply) => self.answered(message, reply),
            Event::TimedOut(message) => self.timed_out(message),
            Event::Sweep(process) => {
                let local = self.local(process);
                let borrower = &mut self.processes[process].borrower;
                let (old, keep) = (borrower.sweep(local), nanos(borrower.keep()));
                self.give_back(process, old);
                self.events.push(self.now + keep / 2, Event::Sweep(process));
            }
            Event::Cut(process) => {
                self.fault(self.network.cuts, Event::Cut, process);
                self.numbers += 1;
                self.processes[process].stream = self.numbers;
            }
            Event::Restart(process) => {
                self.fault(self.network.restarts, Event::Restart, process);
                self.numbers += 1;
                self.processes[process] = self.process(process, self.numbers);
            }
            // The restarted store has lost its state, and its bucket is full.
            Event::RestartStore => self.store.reset(),
        }
    }

    fn arrive_next(&mut self, process: usize) {
        let rate = self.fleet.demand_of(process, self.count, self.now);
        let gap: f64 = Exp1.sample(&mut self.rng);
        let gap = if rate > 0.0 {
            whole(gap / rate * NANOS as f64)
        } else {
            IDLE
        };
        self.events
            .push(self.now.saturating_add(gap), Event::Arrive(process));
    }

    /// Continues a request that has waited for `rounds` batches.
    fn step(&mut self, process: usize, rounds: u32) {
        let local = self.local(process);
        let own = &mut self.processes[process];
        if rounds >= ROUNDS {
            match own.borrower.attempt(local) {
                Some(true) => self.admit(process),
                Some(false) => {}
                None => self.ask_alone(process),
            }
            return;
        }
        if self.now < own.left_alone_until {
            match own.borrower.attempt(local) {
                Some(true) => self.admit(process),
                Some(false) => {}
                None => self.without_store(process),
            }
            return;
        }
        match own.borrower.step(local) {
            Step::Granted => {
                self.admit(process);
                if let Some(batch) = self.processes[process].borrower.early(local) {
                    self.fetch(process, batch, false);
                }
            }
            Step::Wait => own.waiting.push(rounds + 1),
            Step::Fetch(batch) => self.fetch(process, batch, true),
            // The store has refused the request.
            _ => {}
        }
    }

    fn fetch(&mut self, process: usize, batch: Batch, leader: bool) {
        let number = self.send(process, What::Batch(batch));
        self.processes[process].fetch = Some((number, leader));
    }

    fn ask_alone(&mut self, process: usize) {
        let number = self.send(process, What::One);
        self.processes[process].alone.push(number);
    }

    fn give_back(&mut self, process: usize, amount: u64) {
        if amount > 0 {
            self.send(process, What::GiveBack(amount));
        }
    }

    fn send(&mut self, process: usize, what: What) -> u64 {
        self.numbers += 1;
        let message = Message {
            process,
            stream: self.processes[process].stream,
            number: self.numbers,
            asked: self.local(process),
            what,
        };
        if !matches!(what, What::GiveBack(_)) {
            self.events
                .push(self.now + self.timeout, Event::TimedOut(message));
        }
        if let Some(at) = self.travels(&message) {
            self.events.push(at, Event::Asked(message));
        }
        message.number
    }

    /// The arrival time of a message. `None` if it is lost.
    fn travels(&mut self, message: &Message) -> Option<u64> {
        self.tally.messages += 1;
        let delay = self.between(nanos(self.network.delay));
        let lost = self.rng.random::<f64>() < self.network.loss;
        (!lost && !self.is_cut(message)).then(|| self.now + delay)
    }

    fn is_cut(&self, message: &Message) -> bool {
        let mut partitions = self.network.partitions.iter();
        partitions.any(|part| part.cuts(message.process, self.count, self.now))
            || self.processes[message.process].stream != message.stream
    }

    fn asked(&mut self, message: Message) {
        let reply = match message.what {
            What::GiveBack(amount) => {
                self.store.add(amount);
                return;
            }
            What::Batch(batch) => {
                let half = self.store.snapshot().available() / 2;
                let wanted = batch.most.min(half).max(batch.least);
                self.take(wanted)
            }
            What::One => self.take(1),
        };
        if let Some(at) = self.travels(&message) {
            self.events.push(at, Event::Answered(message, reply));
        }
    }

    fn take(&self, amount: u64) -> Reply {
        match self.store.try_acquire(amount) {
            Ok(permit) => {
                permit.forget();
                Reply::Granted(amount, self.store.standing())
            }
            Err(denied) => Reply::Refused(denied.retry_after().unwrap_or_default()),
        }
    }

    /// Whether the process still waits for the answer to this message.
    fn expects(&mut self, message: &Message) -> Option<bool> {
        let own = &mut self.processes[message.process];
        if let Some((number, leader)) = own.fetch
            && number == message.number
        {
            own.fetch = None;
            return Some(leader);
        }
        let alone = own
            .alone
            .iter()
            .position(|number| *number == message.number);
        alone.map(|at| {
            own.alone.swap_remove(at);
            true
        })
    }

    fn answered(&mut self, message: Message, reply: Reply) {
        let process = message.process;
        // A message that arrives too late, or on a closed connection, is lost.
        if self.is_cut(&message) {
            return;
        }
        let Some(leader) = self.expects(&message) else {
            return;
        };
        let local = self.local(process);
        let alone = matches!(message.what, What::One);
        let borrower = &mut self.processes[process].borrower;
        match reply {
            Reply::Granted(amount, standing) if !alone => {
                let used = u64::from(leader);
                let over = borrower.received(message.asked, local, amount, standing, used);
                self.give_back(process, over);
            }
            Reply::Refused(after) if !alone => borrower.refused(message.asked, after),
            _ => {}
        }
        if leader && matches!(reply, Reply::Granted(..)) {
            self.admit(process);
        }
        if !alone {
            let waiting = std::mem::take(&mut self.processes[process].waiting);
            for rounds in waiting {
                self.step(process, rounds);
            }
        }
    }

    fn timed_out(&mut self, message: Message) {
        let process = message.process;
        let Some(leader) = self.expects(&message) else {
            return;
        };
        let own = &mut self.processes[process];
        own.left_alone_until = self.now + LEFT_ALONE;
        let mut unserved = usize::from(leader);
        if matches!(message.what, What::Batch(_)) {
            own.borrower.failed();
            unserved += std::mem::take(&mut own.waiting).len();
        }
        for _ in 0..unserved {
            self.without_store(process);
        }
    }

    fn without_store(&mut self, process: usize) {
        let granted = match (self.outage, &self.processes[process].local) {
            (Outage::Admit, _) => true,
            (Outage::Local, Some((clock, gate))) => {
                clock.advance_to(Moment::from_nanos(self.now));
                let answer = gate.try_acquire(1);
                answer.map(plimsoll::Permit::forget).is_ok()
            }
            _ => false,
        };
        self.tally.unlimited += u64::from(granted);
    }

    fn admit(&mut self, process: usize) {
        self.tally.admitted[process] += 1;
        self.tally.by_second[second_of(self.now)] += 1;
        self.watch.admitted(self.now);
    }

    /// The time by the clock of a process, which is ahead by a part of the skew.
    fn local(&self, process: usize) -> Moment {
        let part = u32::try_from(process * 37 % 101).unwrap_or(0);
        Moment::from_nanos(self.now).plus(self.network.skew * part / 100)
    }

    fn between(&mut self, most: u64) -> u64 {
        self.rng.random_range(0..=most)
    }

    /// Schedules an event of a Poisson process with a mean interval of `every`.
    fn fault(&mut self, every: Option<Duration>, event: fn(usize) -> Event, process: usize) {
        if let Some(every) = every {
            let gap: f64 = Exp1.sample(&mut self.rng);
            let at = self.now.saturating_add(whole(gap * nanos(every) as f64));
            self.events.push(at, event(process));
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
