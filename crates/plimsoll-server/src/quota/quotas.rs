//! The table of buckets and streams.

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

/// Maximum number of buckets, of all limits together.
const MOST_BUCKETS: usize = 100_000;
/// Maximum number of buckets of one stream.
const MOST_OF_A_STREAM: usize = 10_000;
/// Maximum number of shares, of all streams together.
const MOST_SHARES: usize = 1_000_000;
/// Maximum total length of the entries of a bucket id.
const LONGEST: usize = 4096;
/// Interval at which expired shares and reloads are handled.
const TICK: Duration = Duration::from_millis(250);

/// The name of a limit, and a key.
pub(super) type BucketKey = (String, String);
/// The channel of responses to a stream.
pub(super) type Sender = mpsc::Sender<Result<Response, Status>>;

/// The table of buckets and streams.
#[derive(Debug)]
pub(crate) struct Quotas {
    limits: Limits,
    clock: Clock,
    started: Moment,
    /// The moment until which proxies may spend shares of an earlier server.
    before: Option<Moment>,
    table: Mutex<Table>,
    /// Number of reported buckets that match no limit or exceed a bound.
    pub(super) unknown: AtomicU64,
    pub(super) pushes: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) buckets: HashMap<BucketKey, Bucket>,
    pub(super) streams: HashMap<u64, Stream>,
    /// Reported requests by limit: admitted and refused.
    pub(super) totals: HashMap<String, (u64, u64)>,
    opened: u64,
    /// Number of shares of all streams.
    shares: usize,
    /// The loaded file for which the buckets were created.
    file: Weak<LimitSet>,
}

/// The stream of one proxy.
#[derive(Debug)]
pub(super) struct Stream {
    sender: Sender,
    buckets: HashMap<BucketId, BucketKey>,
}

impl Quotas {
    /// Creates an empty table. `restarted` is whether proxies may have shares of an earlier server.
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

    /// Handles expired shares and reloads at each tick, forever.
    pub(crate) async fn tick(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.on_tick();
        }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The moment until which proxies may spend shares of this or an earlier server, if this server stops now.
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

    /// Records the usage reports of a proxy and sends new assignments. Returns `false` if its stream has ended.
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
                Some(key) => {
                    outgoing.extend(self.record(&mut table, stream, &key, &id, usage, now))
                }
                None => unknown += 1,
            }
        }
        self.unknown.fetch_add(unknown, Ordering::Relaxed);
        self.send(&mut table, outgoing);
        table.streams.contains_key(&stream)
    }

    /// The bucket for an id of a stream. Creates it if a limit matches and no bound is exceeded.
    fn enter(
        &self,
        table: &mut Table,
        stream: u64,
        id: &BucketId,
        now: Moment,
    ) -> Option<BucketKey> {
        let open = table.streams.get_mut(&stream)?;
        if let Some(key) = open.buckets.get(id) {
            return Some(key.clone());
        }
        let length = |(key, value): (&String, &String)| key.len() + value.len();
        if id.entries.iter().map(length).sum::<usize>() > LONGEST {
            return None;
        }
        let entries = Descriptors(id.entries.clone().into_iter().collect());
        let found = self.limits.bucket(&entries)?;
        let key = (found.limit, found.key);
        if open.buckets.len() >= MOST_OF_A_STREAM
            || table.shares >= MOST_SHARES
            || (table.buckets.len() >= MOST_BUCKETS && !table.buckets.contains_key(&key))
        {
            return None;
        }
        open.buckets.insert(id.clone(), key.clone());
        table.shares += 1;
        let restarted = self.before.is_some_and(|until| now < until);
        let started = restarted.then_some(self.started);
        table
            .buckets
            .entry(key.clone())
            .or_insert_with(|| Bucket::new(entries, found.allowance, found.cost, started, now));
        Some(key)
    }

    fn record(
        &self,
        table: &mut Table,
        stream: u64,
        key: &BucketKey,
        id: &BucketId,
        usage: Usage,
        now: Moment,
    ) -> Vec<Outgoing> {
        let total = table.totals.entry(key.0.clone()).or_default();
        total.0 = total.0.saturating_add(usage.allowed);
        total.1 = total.1.saturating_add(usage.denied);
        let Some(bucket) = table.buckets.get_mut(key) else {
            return Vec::new();
        };
        if usage.allowed > 0 {
            // Requests on other ports see what proxies have used.
            let cost = usage.allowed.saturating_mul(bucket.cost);
            let ask = Ask::new(&key.0).key(&key.1).cost(cost);
            self.limits.charge(&[ask]);
        }
        bucket.report(stream, id, usage, now);
        bucket.outgoing(Some((stream, id)), now)
    }

    /// Handles a reload of the file and everything that is due.
    fn on_tick(&self) {
        let now = self.now();
        let mut table = self.table();
        let file = self.limits.limiters().current();
        if !std::ptr::eq(table.file.as_ptr(), Arc::as_ptr(&file)) {
            table.file = Arc::downgrade(&file);
            self.reload(&mut table, now);
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

    /// Looks up the limits of all buckets again after a reload. Removes buckets without a limit.
    fn reload(&self, table: &mut Table, now: Moment) {
        let mut gone = HashSet::new();
        table.buckets.retain(|key, bucket| {
            let found = self.limits.bucket(&bucket.entries);
            let found = found.filter(|found| (&found.limit, &found.key) == (&key.0, &key.1));
            let stays = found.is_some_and(|found| bucket.change(found.allowance, found.cost, now));
            if !stays {
                gone.insert(key.clone());
            }
            stays
        });
        // Their streams then report again and receive new assignments.
        for stream in table.streams.values_mut() {
            stream.buckets.retain(|_, key| !gone.contains(key));
        }
        table.shares = table.streams.values().map(|it| it.buckets.len()).sum();
        let file = self.limits.limiters().current();
        let config = file.config();
        table
            .totals
            .retain(|limit, _| config.use_of(limit).is_some());
    }

    /// Sends all actions for a stream in one message. Closes a stream whose channel is full, because no assignment may be lost.
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

/// The moment at which a share that is assigned now expires.
fn lasts(now: Moment) -> Moment {
    now.plus(Timing::ENVOY.ttl()).plus(Timing::ENVOY.settle())
}

impl Table {
    fn close(&mut self, number: u64) {
        let Some(stream) = self.streams.remove(&number) else {
            return;
        };
        self.shares -= stream.buckets.len();
        for key in stream.buckets.values() {
            if let Some(bucket) = self.buckets.get_mut(key) {
                bucket.leave(number);
            }
        }
    }
}
