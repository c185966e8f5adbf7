//! All buckets and streams.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use plimsoll::{Clock, Moment};
use plimsoll_config::LimitSet;
use plimsoll_engine::{Ask, Descriptors, Limits};
use plimsoll_quota::{Timing, Usage};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tonic::Status;

use super::bucket::{Bucket, Outgoing};
use super::proto::{Action, BucketId, BucketUsage, Response};

/// How many buckets there are at most, of all limits together.
const MOST_BUCKETS: usize = 100_000;
/// How many buckets a stream has at most.
const MOST_OF_A_STREAM: usize = 10_000;
/// How many shares there are at most, of all streams together.
const MOST_SHARES: usize = 1_000_000;
/// How long the entries of a bucket are together, at most.
const LONGEST: usize = 4096;
/// How often is looked at what time has changed.
const TICK: Duration = Duration::from_millis(250);

/// A limit, and a key of it.
pub(super) type Place = (String, String);
/// Where messages to a stream go.
pub(super) type Sender = mpsc::Sender<Result<Response, Status>>;

/// All buckets and streams.
#[derive(Debug)]
pub(crate) struct Quotas {
    limits: Limits,
    clock: Clock,
    started: Moment,
    /// Until when proxies may spend shares of a server before this one.
    before: Option<Moment>,
    table: Mutex<Table>,
    /// Buckets that were reported and have no limit, or one too many.
    pub(super) unknown: AtomicU64,
    pub(super) pushes: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) buckets: HashMap<Place, Bucket>,
    pub(super) streams: HashMap<u64, Stream>,
    /// What was reported of each limit: let through and refused.
    pub(super) totals: HashMap<String, (u64, u64)>,
    opened: u64,
    /// How many buckets all streams have together.
    shares: usize,
    /// Of which file the buckets are.
    file: Weak<LimitSet>,
}

/// A stream: a proxy.
#[derive(Debug)]
pub(super) struct Stream {
    sender: Sender,
    buckets: HashMap<BucketId, Place>,
}

impl Quotas {
    /// `restarted`: whether proxies may have shares of a server before this one.
    pub(crate) fn new(limits: Limits, clock: Clock, restarted: bool) -> Arc<Self> {
        let started = clock.now();
        Arc::new(Self {
            limits,
            clock,
            started,
            before: restarted.then(|| lasts(started)),
            table: Mutex::default(),
            unknown: AtomicU64::new(0),
            pushes: AtomicU64::new(0),
        })
    }

    /// Tells proxies what time has changed, for ever.
    pub(crate) async fn tick(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look();
        }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when proxies may spend shares of this server, or of the one before it, if it stops now.
    pub(crate) fn until(&self) -> Moment {
        let own = match self.table().opened {
            0 => Moment::ORIGIN,
            _ => lasts(self.now()),
        };
        self.before.map_or(own, |before| own.max(before))
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(super) fn open(&self, sender: Sender) -> u64 {
        let mut table = self.table();
        table.opened += 1;
        let number = table.opened;
        let stream = Stream {
            sender,
            buckets: HashMap::new(),
        };
        table.streams.insert(number, stream);
        number
    }

    pub(super) fn close(&self, stream: u64) {
        let mut table = self.table();
        table.close(stream);
    }

    /// What a proxy has reported. False if its stream has ended.
    pub(super) fn report(&self, stream: u64, usages: Vec<BucketUsage>) -> bool {
        let now = self.now();
        let mut table = self.table();
        let mut outgoing = Vec::new();
        let mut unknown = 0;
        for report in usages {
            let Some(id) = report.bucket else {
                unknown += 1;
                continue;
            };
            let elapsed = report.elapsed.map(super::proto::Span::whole);
            let usage = Usage::new(report.allowed, report.denied, elapsed.unwrap_or_default());
            match self.enter(&mut table, stream, &id, now) {
                Some(place) => {
                    outgoing.extend(self.record(&mut table, stream, &place, &id, usage, now))
                }
                None => unknown += 1,
            }
        }
        self.unknown.fetch_add(unknown, Ordering::Relaxed);
        self.send(&mut table, outgoing);
        table.streams.contains_key(&stream)
    }

    /// The bucket of a stream; made, if there is a limit for it and room.
    fn enter(&self, table: &mut Table, stream: u64, id: &BucketId, now: Moment) -> Option<Place> {
        let open = table.streams.get_mut(&stream)?;
        if let Some(place) = open.buckets.get(id) {
            return Some(place.clone());
        }
        let length = |(key, value): (&String, &String)| key.len() + value.len();
        if id.entries.iter().map(length).sum::<usize>() > LONGEST {
            return None;
        }
        let entries = Descriptors(id.entries.clone().into_iter().collect());
        let found = self.limits.bucket(&entries)?;
        let place = (found.limit, found.key);
        if open.buckets.len() >= MOST_OF_A_STREAM
            || table.shares >= MOST_SHARES
            || (table.buckets.len() >= MOST_BUCKETS && !table.buckets.contains_key(&place))
        {
            return None;
        }
        open.buckets.insert(id.clone(), place.clone());
        table.shares += 1;
        let restarted = self.before.is_some_and(|until| now < until);
        let started = restarted.then_some(self.started);
        table
            .buckets
            .entry(place.clone())
            .or_insert_with(|| Bucket::new(entries, found.allowance, found.cost, started, now));
        Some(place)
    }

    fn record(
        &self,
        table: &mut Table,
        stream: u64,
        place: &Place,
        id: &BucketId,
        usage: Usage,
        now: Moment,
    ) -> Vec<Outgoing> {
        let total = table.totals.entry(place.0.clone()).or_default();
        total.0 = total.0.saturating_add(usage.allowed);
        total.1 = total.1.saturating_add(usage.denied);
        let Some(bucket) = table.buckets.get_mut(place) else {
            return Vec::new();
        };
        if usage.allowed > 0 {
            // So that requests on other ports see what proxies have used.
            let cost = usage.allowed.saturating_mul(bucket.cost);
            let ask = Ask::new(&place.0).key(&place.1).cost(cost);
            self.limits.charge(&[ask]);
        }
        bucket.report(stream, id, usage, now);
        bucket.outgoing(Some((stream, id)), now)
    }

    /// What time has changed, and the file.
    fn look(&self) {
        let now = self.now();
        let mut table = self.table();
        let file = self.limits.limiters().current();
        if !std::ptr::eq(table.file.as_ptr(), Arc::as_ptr(&file)) {
            table.file = Arc::downgrade(&file);
            self.read_again(&mut table, now);
        }
        let mut outgoing = Vec::new();
        table.buckets.retain(|_, bucket| {
            if bucket.is_due(now) || bucket.streams() == 0 {
                outgoing.extend(bucket.outgoing(None, now));
            }
            !bucket.is_fresh()
        });
        self.send(&mut table, outgoing);
    }

    /// The file has changed: limits too, perhaps. Buckets that have none any more are dropped.
    fn read_again(&self, table: &mut Table, now: Moment) {
        let mut gone = HashSet::new();
        table.buckets.retain(|place, bucket| {
            let found = self.limits.bucket(&bucket.entries);
            let found = found.filter(|found| (&found.limit, &found.key) == (&place.0, &place.1));
            let stays = found.is_some_and(|found| bucket.change(found.allowance, found.cost, now));
            if !stays {
                gone.insert(place.clone());
            }
            stays
        });
        // Their streams report again, and get what there is by then.
        for stream in table.streams.values_mut() {
            stream.buckets.retain(|_, place| !gone.contains(place));
        }
        table.shares = table.streams.values().map(|it| it.buckets.len()).sum();
        let file = self.limits.limiters().current();
        let config = file.config();
        table
            .totals
            .retain(|limit, _| config.use_of(limit).is_some());
    }

    /// Sends all that is for one stream in one message. A stream that does not take it is ended: what was sent must arrive.
    fn send(&self, table: &mut Table, outgoing: Vec<Outgoing>) {
        let mut by_stream: HashMap<u64, Vec<Action>> = HashMap::new();
        self.pushes
            .fetch_add(outgoing.len() as u64, Ordering::Relaxed);
        for (stream, action) in outgoing {
            by_stream.entry(stream).or_default().push(action);
        }
        for (number, actions) in by_stream {
            let sent = table
                .streams
                .get(&number)
                .is_some_and(|stream| stream.sender.try_send(Ok(Response { actions })).is_ok());
            if !sent {
                table.close(number);
            }
        }
    }
}

/// Until when a share lasts that is assigned now.
fn lasts(now: Moment) -> Moment {
    now.plus(Timing::ENVOY.ttl()).plus(Timing::ENVOY.settle())
}

impl Table {
    fn close(&mut self, number: u64) {
        let Some(stream) = self.streams.remove(&number) else {
            return;
        };
        self.shares -= stream.buckets.len();
        for place in stream.buckets.values() {
            if let Some(bucket) = self.buckets.get_mut(place) {
                bucket.leave(number);
            }
        }
    }
}
