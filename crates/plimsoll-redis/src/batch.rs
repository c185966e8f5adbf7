//! One script for all callers that wait.
//!
//! A demand that comes while few round trips of its limiter are under way is sent at once, by its caller. Demands that
//! come while the limiter's connection is busy are collected, and when a round trip ends one script decides for all of
//! them, in order, as if each had been sent by itself at that moment. Nobody waits for company: a demand waits only for a
//! round trip that is under way, and where round trips are long more of them may be.
//!
//! A script must not touch keys of several hash slots, so in a cluster demands are collected by slot.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::Moment;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::answer::{Answer, Decided};
use crate::lease::Lease;
use crate::rule::{self, RedisRule};
use crate::script::Script;
use crate::store::Store;
use crate::{StoreError, StoreErrorKind};

/// So many demands are decided by one script at most: a server does nothing else while a script runs.
const LARGEST: usize = 128;

/// So many round trips are under way at once where each takes less than a millisecond. A second one lets the server
/// decide while this process reads the answers to the first.
const DEPTH: u32 = 2;

/// What one caller wants.
pub(crate) struct Demand {
    pub(crate) key: Vec<u8>,
    pub(crate) cost: u64,
    /// The id of its lease, if the limit has leases.
    pub(crate) id: String,
    /// The lease that is asked for. It is dropped, and so released, where nobody waits for the answer any more.
    pub(crate) lease: Option<Lease>,
}

/// The answer to a demand, with its lease.
pub(crate) type Reply = Result<(Decided, Option<Lease>), StoreError>;

struct Waiter {
    demand: Demand,
    reply: oneshot::Sender<Reply>,
}

/// The demands on one limiter.
pub(crate) struct Batcher {
    store: Store,
    script: Script,
    words: Vec<String>,
    limit: u64,
    leases: bool,
    lanes: Mutex<HashMap<u16, Lane>>,
    /// How long the last round trip took, in microseconds.
    trip: AtomicU64,
}

/// The demands that one script may decide: all, or in a cluster those of one slot.
struct Lane {
    /// How many round trips are under way.
    trips: u32,
    /// When one last ended, or the first began.
    heard: Moment,
    waiting: VecDeque<Waiter>,
}

/// What a caller does.
enum Turn {
    Send(Demand, Trip),
    Wait(oneshot::Receiver<Reply>),
}

impl Batcher {
    pub(crate) fn new(store: Store, rule: &RedisRule, words: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            script: Script::batch(rule),
            words,
            limit: rule.limit(),
            leases: rule.lease_length().is_some(),
            lanes: Mutex::default(),
            trip: AtomicU64::new(0),
            store,
        })
    }

    /// Decides a demand, within the deadline.
    pub(crate) async fn decide(self: &Arc<Self>, demand: Demand) -> Reply {
        let slot = self.store.slot(&demand.key);
        let breaker = self.store.breaker(Some(&demand.key));
        let decide = async {
            match self.turn(slot, demand) {
                Turn::Send(demand, trip) => {
                    let mut demands = [demand];
                    let mut replies = self.send(&demands, &trip).await?;
                    drop(trip);
                    let [demand] = &mut demands;
                    replies.next().map(|decided| (decided, demand.lease.take()))
                }
                Turn::Wait(reply) => match reply.await {
                    Ok(reply) => reply,
                    // The task that would have sent it is gone, with its runtime.
                    Err(_) => Err(StoreError::new(StoreErrorKind::Unreachable)),
                },
            }
        };
        self.store.within_deadline(breaker, decide).await
    }

    fn turn(self: &Arc<Self>, slot: u16, demand: Demand) -> Turn {
        let mut lanes = self.lanes();
        let lane = lanes.entry(slot).or_insert_with(|| Lane {
            trips: 0,
            heard: self.store.time(),
            waiting: VecDeque::new(),
        });
        let free = self.has_room(lane);
        if free {
            lane.trips += 1;
        }
        if free && lane.waiting.is_empty() {
            drop(lanes);
            return Turn::Send(demand, Trip::new(self, slot));
        }
        let (reply, answer) = oneshot::channel();
        lane.waiting.push_back(Waiter { demand, reply });
        drop(lanes);
        if free {
            // It sends all who wait when it is dropped.
            drop(Trip::new(self, slot));
        }
        Turn::Wait(answer)
    }

    /// Whether another round trip may begin. A store that is far away, or does not answer, is sent more.
    fn has_room(&self, lane: &Lane) -> bool {
        if lane.trips < DEPTH {
            return true;
        }
        let last = Duration::from_micros(self.trip.load(Ordering::Relaxed));
        let silent = self.store.time().since(lane.heard);
        let millis = last.max(silent).as_millis();
        u128::from(lane.trips - DEPTH) < millis
    }

    /// Sends a script for demands that are in the order of their keys.
    async fn send(&self, demands: &[Demand], trip: &Trip) -> Result<Replies, StoreError> {
        let groups = || demands.chunk_by(|one, other| one.key == other.key);
        let keys: Vec<&[u8]> = groups().map(|group| group[0].key.as_slice()).collect();
        let now = self.store.now();
        let first = (4 + self.words.len() + usize::from(self.leases)).to_string();
        let lists = Lists {
            demands,
            ids: self.leases,
        };
        let answer = self
            .store
            .evaluate(&self.script, &keys, |command| {
                command.arg("batch").arg(&now).arg(&first).arg(&self.words);
                if self.leases {
                    command.arg("");
                }
                lists.write(command);
            })
            .await?;
        let micros = u64::try_from(self.store.time().since(trip.began).as_micros());
        self.trip
            .store(micros.unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(Replies {
            answer: Answer::new(answer)?,
            limit: self.limit,
            last: Moment::ORIGIN,
        })
    }

    /// Sends a script for those who wait, and hands out its answers.
    async fn send_waiting(&self, mut batch: Vec<Waiter>, trip: &Trip) {
        // In order for each key: the order among keys makes no difference.
        batch.sort_by(|one, other| one.demand.key.cmp(&other.demand.key));
        let (mut demands, replies): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|waiter| (waiter.demand, waiter.reply))
            .unzip();
        let sent = self.send(&demands, trip);
        // Nobody waits longer than that, so nobody is left.
        let Ok(answers) = tokio::time::timeout(self.store.deadline(), sent).await else {
            return;
        };
        match answers {
            Ok(mut answers) => {
                for (demand, reply) in demands.iter_mut().zip(replies) {
                    let decided = answers.next();
                    // One who does not wait any more drops the answer, and its lease with it.
                    let _ = reply.send(decided.map(|decided| (decided, demand.lease.take())));
                }
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Those who wait, as many as one script decides; `None` if there are none, and then the round trip has ended.
    fn waiting(&self, slot: u16) -> Option<Vec<Waiter>> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(&slot)?;
        let count = lane.waiting.len().min(LARGEST);
        if count == 0 {
            end_trip(&mut lanes, slot, self.store.time());
            return None;
        }
        Some(lane.waiting.drain(..count).collect())
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<u16, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end_trip(lanes: &mut HashMap<u16, Lane>, slot: u16, now: Moment) {
    if let Entry::Occupied(mut lane) = lanes.entry(slot) {
        lane.get_mut().trips -= 1;
        lane.get_mut().heard = now;
        if lane.get().trips == 0 && lane.get().waiting.is_empty() {
            lane.remove();
        }
    }
}

/// The demands as arguments: see `lua/list.lua`.
struct Lists<'a> {
    demands: &'a [Demand],
    ids: bool,
}

impl Lists<'_> {
    fn write(&self, command: &mut redis::Cmd) {
        for list in self.demands.chunk_by(|one, other| one.key == other.key) {
            let runs = || list.chunk_by(|one, other| one.cost == other.cost);
            command.arg(runs().count());
            for run in runs() {
                command.arg(run.len()).arg(rule::amount(run[0].cost));
                if self.ids {
                    for demand in run {
                        command.arg(&demand.id);
                    }
                }
            }
        }
    }
}

/// The answers of one script, in the order of its demands.
struct Replies {
    answer: Answer,
    limit: u64,
    last: Moment,
}

impl Replies {
    fn next(&mut self) -> Result<Decided, StoreError> {
        let decided = self.answer.decided(self.limit, self.last)?;
        if let Decided::Granted(_, taken) = &decided {
            self.last = *taken;
        }
        Ok(decided)
    }
}

/// A round trip that is under way. When it ends it is the turn of those who wait.
struct Trip {
    batcher: Arc<Batcher>,
    slot: u16,
    began: Moment,
    end: End,
}

/// What happens when a round trip is dropped.
#[derive(PartialEq)]
enum End {
    /// A task sends those who wait.
    CarryOn,
    /// The task that sends them was stopped, with its runtime: nobody else would send them.
    Fail,
    /// It has ended already.
    Nothing,
}

impl Trip {
    fn new(batcher: &Arc<Batcher>, slot: u16) -> Self {
        Self {
            batcher: Arc::clone(batcher),
            slot,
            began: batcher.store.time(),
            end: End::CarryOn,
        }
    }

    /// Sends those who wait until nobody does.
    async fn carry_on(mut self) {
        loop {
            // Those who were answered come to their turn first, and may ask again.
            tokio::task::yield_now().await;
            let Some(mut batch) = self.batcher.waiting(self.slot) else {
                self.end = End::Nothing;
                return;
            };
            // Who gave up before it was sent is not charged.
            batch.retain(|waiter| !waiter.reply.is_closed());
            if !batch.is_empty() {
                self.began = self.batcher.store.time();
                self.batcher.send_waiting(batch, &self).await;
            }
        }
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        if self.end == End::Nothing {
            return;
        }
        let mut lanes = self.batcher.lanes();
        let Some(lane) = lanes.get_mut(&self.slot) else {
            return;
        };
        let mut abandoned = VecDeque::new();
        if !lane.waiting.is_empty() {
            lane.heard = self.batcher.store.time();
            let runtime = Handle::try_current();
            if let (End::CarryOn, Ok(runtime)) = (&self.end, runtime) {
                drop(lanes);
                let mut trip = Self::new(&self.batcher, self.slot);
                trip.end = End::Fail;
                runtime.spawn(trip.carry_on());
                return;
            }
            abandoned = std::mem::take(&mut lane.waiting);
        }
        end_trip(&mut lanes, self.slot, self.batcher.store.time());
        drop(lanes);
        drop(abandoned);
    }
}
