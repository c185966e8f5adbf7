//! The course of a run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use plimsoll::Moment;

use crate::demand::Usage;
use crate::division::{Division, Push};
use crate::member::Member;
use crate::share::NANO;
use crate::simulation::chance::Chance;
use crate::simulation::fleet::ProxyFleet;
use crate::simulation::proxy::{Proxy, ProxyDecision};
use crate::simulation::result::{FleetResult, Watch};

/// The interval at which requests arrive at a proxy, those of one interval together.
const TRAFFIC: u64 = NANO / 20;
/// The time after which the server notices a dead stream that was not closed.
const NOTICED: u64 = 20 * NANO;

#[derive(Debug)]
pub(super) struct World<'a> {
    fleet: &'a ProxyFleet,
    chance: Chance,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    /// The number of streams opened so far.
    opened: u64,
    now: u64,
    proxies: Vec<Site>,
    server: Server,
    watch: Watch,
    result: FleetResult,
}

/// A proxy and its end of a stream.
#[derive(Debug)]
struct Site {
    proxy: Proxy,
    /// Its open stream.
    stream: Option<u64>,
    cut_off: bool,
    /// The fraction of a request that is carried over.
    carry: f64,
    /// The arrival of the last message in each direction: streams keep the order.
    last: [u64; 2],
    /// The start of the server that made its assignment.
    epoch: u64,
    subscribed: bool,
    /// The stream and the version of the last push to it.
    last_push: (u64, u32),
}

#[derive(Debug)]
struct Server {
    division: Division,
    /// Members by stream, and streams by member.
    streams: BTreeMap<u64, Member>,
    members: BTreeMap<Member, Stream>,
    epoch: u64,
    /// The time at which its first division after a restart has arrived at all proxies.
    divided: u64,
    /// The time of the next `Wake`.
    alarm: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Traffic(usize),
    Report(usize),
    /// A report arrives: its stream, the admitted and the refused requests, and the seconds it covers.
    ReportArrives(Stream, u64, u64, u64),
    /// An assignment arrives: its stream, and the start of the server that made it.
    PushArrives(Stream, u64, PushInFlight),
    Wake,
    Cut(usize),
    Restart(usize),
    RestartServer,
    Part(usize, bool),
    Noticed(u64),
}

/// A stream, and the proxy at its end.
type Stream = (u64, usize);

/// An assignment on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PushInFlight(Push);

impl PartialOrd for PushInFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PushInFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.member, self.0.version).cmp(&(other.0.member, other.0.version))
    }
}

impl<'a> World<'a> {
    pub(super) fn new(fleet: &'a ProxyFleet, seed: u64) -> Self {
        let site = |_| Site {
            proxy: Proxy::new(fleet.without),
            stream: None,
            cut_off: false,
            carry: 0.0,
            last: [0; 2],
            epoch: 0,
            subscribed: false,
            last_push: (0, 0),
        };
        let division = Division::new(fleet.quota, fleet.burst, fleet.timing, Moment::ORIGIN);
        let rate = division.view().rate;
        let none = vec![0; fleet.proxies];
        Self {
            fleet,
            chance: Chance::new(seed),
            events: BinaryHeap::new(),
            number: 0,
            opened: 0,
            now: 0,
            proxies: (0..fleet.proxies).map(site).collect(),
            server: Server {
                division,
                streams: BTreeMap::new(),
                members: BTreeMap::new(),
                epoch: 0,
                divided: 0,
                alarm: 0,
            },
            watch: Watch::new(rate),
            result: FleetResult {
                demanded: none.clone(),
                admitted: none,
                admitted_by_second: vec![0; usize::try_from(fleet.seconds).unwrap_or(0)],
                ..FleetResult::default()
            },
        }
    }

    pub(super) fn run(mut self) -> FleetResult {
        self.begin();
        let end = self.fleet.seconds * NANO;
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at >= end {
                break;
            }
            self.now = at;
            self.handle(event);
        }
        self.result.worst = self.watch.worst();
        self.result
    }

    fn begin(&mut self) {
        let report = self.report_every();
        for proxy in 0..self.fleet.proxies {
            let first = self.chance.between(0, TRAFFIC);
            self.after(first, Event::Traffic(proxy));
            let first = self.chance.between(0, report);
            self.after(first, Event::Report(proxy));
            self.fault(self.fleet.cuts, Event::Cut(proxy));
            self.fault(self.fleet.proxy_restarts, Event::Restart(proxy));
        }
        for second in &self.fleet.server_restarts {
            self.after(second * NANO, Event::RestartServer);
        }
        for (index, partition) in self.fleet.partitions.iter().enumerate() {
            self.after(partition.from * NANO, Event::Part(index, true));
            self.after(partition.to * NANO, Event::Part(index, false));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Traffic(proxy) => self.traffic(proxy),
            Event::Report(proxy) => {
                self.after(self.report_every(), Event::Report(proxy));
                if self.proxies[proxy].subscribed {
                    self.send_report(proxy);
                }
            }
            Event::ReportArrives(stream, allowed, denied, seconds) => {
                self.report_arrives(
                    stream,
                    Usage::new(allowed, denied, std::time::Duration::from_secs(seconds)),
                );
            }
            Event::PushArrives(stream, epoch, PushInFlight(push)) => {
                self.push_arrives(stream, epoch, &push)
            }
            Event::Wake => self.push(),
            Event::Cut(proxy) => {
                self.fault(self.fleet.cuts, event);
                self.cut(proxy, 0);
            }
            Event::Restart(proxy) => {
                self.fault(self.fleet.proxy_restarts, event);
                self.cut(proxy, 0);
                let site = &mut self.proxies[proxy];
                site.proxy = Proxy::new(self.fleet.without);
                site.subscribed = false;
            }
            Event::RestartServer => self.restart_server(),
            Event::Part(index, begins) => {
                let count = self.fleet.partitions[index].proxies.min(self.fleet.proxies);
                for proxy in 0..count {
                    self.cut(proxy, NOTICED);
                    self.proxies[proxy].cut_off = begins;
                }
            }
            Event::Noticed(stream) => self.leave(stream),
        }
    }

    fn traffic(&mut self, proxy: usize) {
        self.after(TRAFFIC, Event::Traffic(proxy));
        let (now, local) = (self.moment(), self.local(proxy));
        let chance = 2.0 * self.chance.part();
        let site = &mut self.proxies[proxy];
        site.carry += (self.fleet.demand)(proxy, now) * chance / 20.0;
        while site.carry >= 1.0 {
            site.carry -= 1.0;
            self.result.demanded[proxy] += 1;
            match site.proxy.request(local) {
                ProxyDecision::Denied => {}
                ProxyDecision::Unassigned => self.result.unassigned += 1,
                ProxyDecision::Allowed
                    if site.epoch < self.server.epoch && self.now > self.server.divided =>
                {
                    self.result.stale += 1;
                }
                ProxyDecision::Allowed => {
                    self.result.admit(proxy, now);
                    self.watch.admitted(now);
                }
            }
            if !std::mem::replace(&mut site.subscribed, true) {
                self.send_report(proxy);
                return;
            }
        }
    }

    fn send_report(&mut self, proxy: usize) {
        let local = self.local(proxy);
        let usage = self.proxies[proxy].proxy.report(local);
        if self.proxies[proxy].cut_off {
            return;
        }
        let opened = &mut self.opened;
        let stream = *self.proxies[proxy].stream.get_or_insert_with(|| {
            *opened += 1;
            *opened
        });
        let seconds = usage.elapsed.as_secs();
        let report = Event::ReportArrives((stream, proxy), usage.allowed, usage.denied, seconds);
        self.send(proxy, 0, report);
    }

    fn report_arrives(&mut self, (stream, proxy): Stream, usage: Usage) {
        let now = self.moment();
        // Messages on a stream that was cut are lost.
        if self.proxies[proxy].stream != Some(stream) {
            return;
        }
        let Server {
            division,
            streams,
            members,
            ..
        } = &mut self.server;
        let member = *streams.entry(stream).or_insert_with(|| division.join(now));
        members.insert(member, (stream, proxy));
        division.report(member, usage, now);
        self.push();
    }

    fn push(&mut self) {
        let now = self.moment();
        for push in self.server.division.pushes(now) {
            let Some(&(stream, proxy)) = self.server.members.get(&push.member) else {
                continue;
            };
            self.result.pushes += 1;
            let last = &mut self.proxies[proxy].last_push;
            self.result.changes += u64::from(*last != (stream, push.version));
            *last = (stream, push.version);
            let arrival =
                Event::PushArrives((stream, proxy), self.server.epoch, PushInFlight(push));
            self.send(proxy, 1, arrival);
        }
        // One alarm at a time: the earliest.
        if let Some(next) = self.server.division.next() {
            let at = next.as_nanos().max(self.now + 1);
            if at < self.server.alarm || self.server.alarm <= self.now {
                self.server.alarm = at;
                self.after(at - self.now, Event::Wake);
            }
        }
        if self.number.is_multiple_of(64) {
            let view = self.server.division.view();
            self.result.overlent |=
                view.held_rate > view.rate || view.held_burst + view.tokens > view.burst;
        }
    }

    fn push_arrives(&mut self, (stream, proxy): Stream, epoch: u64, push: &Push) {
        let local = self.local(proxy);
        let site = &mut self.proxies[proxy];
        if site.stream == Some(stream) {
            site.proxy.receive(push, local);
            site.epoch = epoch;
        }
    }

    /// A stream breaks: the proxy knows at once, the server after a time.
    fn cut(&mut self, proxy: usize, noticed: u64) {
        if let Some(stream) = self.proxies[proxy].stream.take() {
            self.after(noticed, Event::Noticed(stream));
        }
    }

    fn leave(&mut self, stream: u64) {
        if let Some(member) = self.server.streams.remove(&stream) {
            self.server.members.remove(&member);
            self.server.division.leave(member);
            self.push();
        }
    }

    fn restart_server(&mut self) {
        let now = self.moment();
        let ProxyFleet {
            quota,
            burst,
            timing,
            ..
        } = *self.fleet;
        self.server.division = Division::restarted(quota, burst, timing, now);
        self.server.streams.clear();
        self.server.members.clear();
        self.server.epoch += 1;
        for site in &mut self.proxies {
            site.stream = None;
        }
        let settle = timing.settle();
        let divided = now.plus(timing.report()).plus(settle).plus(settle);
        self.server.divided = divided.as_nanos();
        self.server.alarm = 0;
        self.watch
            .allow(self.fleet.proxies as u64, settle.as_nanos());
        self.push();
    }

    fn send(&mut self, proxy: usize, way: usize, event: Event) {
        let delay = u64::try_from(self.fleet.delay.as_nanos()).unwrap_or(u64::MAX);
        let delay = self.chance.between(0, delay);
        let last = &mut self.proxies[proxy].last[way];
        // Delays stay within their maximum, and the order of messages is kept.
        let at = (self.now + delay).max(*last);
        *last = at;
        self.after(at - self.now, event);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.number += 1;
        self.events
            .push(Reverse((self.now + delay, self.number, event)));
    }

    /// Schedules an event of a Poisson process with `per_second` events a second.
    fn fault(&mut self, per_second: f64, event: Event) {
        if per_second > 0.0 {
            let seconds = -(1.0 - self.chance.part()).ln() / per_second;
            let delay = std::time::Duration::try_from_secs_f64(seconds)
                .map_or(u64::MAX / 4, |it| {
                    u64::try_from(it.as_nanos()).unwrap_or(u64::MAX / 4)
                });
            self.after(delay, event);
        }
    }

    const fn moment(&self) -> Moment {
        Moment::from_nanos(self.now)
    }

    /// The time by the clock of a proxy, which is ahead by a part of the skew.
    fn local(&self, proxy: usize) -> Moment {
        let part = u32::try_from(proxy * 37 % 101).unwrap_or(0);
        self.moment().plus(self.fleet.skew * part / 100)
    }

    fn report_every(&self) -> u64 {
        u64::try_from(self.fleet.timing.report().as_nanos()).unwrap_or(u64::MAX)
    }
}
