//! One script for all callers that wait.
//!
//! A demand that comes while few round trips are under way is sent at once, by its caller. Demands that come while the
//! connection is busy are collected, and when a round trip ends one script decides for all of them, in order, as if each had
//! been sent by itself at that moment. Nobody waits for company: a demand waits only for a round trip that is under way, and
//! where round trips are long more of them may be.
//!
//! A script must not touch keys of several hash slots, so in a cluster demands are collected by slot.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::Moment;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::{StoreError, StoreErrorKind};

/// So many subjects are decided by one script at most: a server does nothing else while a script runs.
pub(crate) const LARGEST: usize = 128;

/// A key counts as one subject more for each so many bytes of its name, so that a script has a bound in bytes, too.
const LONG: usize = 1024;

/// So many round trips are under way at once where each takes less than a millisecond. A second one lets the server
/// decide while this process reads the answers to the first.
const DEPTH: u32 = 2;

/// What is collected, and how it is sent.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// What one caller wants.
    type Demand: Send + 'static;
    /// The answer to it.
    type Reply: Send + 'static;
    /// Where it is sent.
    type Way: Way;

    /// The keys of a demand.
    fn keys(demand: &Self::Demand) -> &[Vec<u8>];

    /// Puts demands into the order in which one script decides them. Those of one key stay as they are.
    fn arrange(waiters: &mut [Waiter<Self>]) {
        let _ = waiters;
    }

    /// Sends one script for these demands, and answers each of them.
    fn send(
        &self,
        way: &Self::Way,
        demands: Vec<Self::Demand>,
    ) -> impl Future<Output = Result<Vec<Result<Self::Reply, StoreError>>, StoreError>> + Send;
}

/// A store, as far as this knows it.
pub(crate) trait Way: Clone + Send + Sync + 'static {
    fn time(&self) -> Moment;

    /// How long anybody waits.
    fn deadline(&self) -> Duration;
}

/// A demand that waits for its turn.
pub(crate) struct Waiter<W: Work> {
    pub(crate) demand: W::Demand,
    reply: oneshot::Sender<Result<W::Reply, StoreError>>,
}

/// Demands that may share scripts.
pub(crate) struct Batcher<W: Work> {
    work: W,
    lanes: Mutex<Lanes<W>>,
    /// How long the last round trip took, in microseconds.
    trip: AtomicU64,
}

type Lanes<W> = HashMap<u16, Lane<W>>;

/// The demands that one script may decide: all, or in a cluster those of one slot.
struct Lane<W: Work> {
    /// How many round trips are under way.
    trips: u32,
    /// When one last ended, or the first began.
    heard: Moment,
    waiting: VecDeque<Waiter<W>>,
}

/// What a caller does.
enum Turn<W: Work> {
    Send(W::Demand, Trip<W>),
    Wait(oneshot::Receiver<Result<W::Reply, StoreError>>),
}

impl<W: Work> Batcher<W> {
    pub(crate) fn new(work: W) -> Arc<Self> {
        Arc::new(Self {
            work,
            lanes: Mutex::new(HashMap::new()),
            trip: AtomicU64::new(0),
        })
    }

    /// Decides a demand, however long it takes.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        way: &W::Way,
        slot: u16,
        demand: W::Demand,
    ) -> Result<W::Reply, StoreError> {
        match self.turn(way, slot, demand) {
            // Apart, so that a call that waits is small: it is moved some times before it begins.
            Turn::Send(demand, trip) => Box::pin(self.send_alone(demand, trip)).await,
            Turn::Wait(reply) => match reply.await {
                Ok(reply) => reply,
                // The task that would have sent it is gone, with its runtime.
                Err(_) => Err(StoreError::new(StoreErrorKind::Unreachable)),
            },
        }
    }

    fn turn(self: &Arc<Self>, way: &W::Way, slot: u16, demand: W::Demand) -> Turn<W> {
        let mut lanes = self.lanes();
        let lane = lanes.entry(slot).or_insert_with(|| Lane {
            trips: 0,
            heard: way.time(),
            waiting: VecDeque::new(),
        });
        let free = self.has_room(lane, way);
        if free {
            lane.trips += 1;
        }
        if free && lane.waiting.is_empty() {
            drop(lanes);
            return Turn::Send(demand, Trip::new(self, way, slot));
        }
        let (reply, answer) = oneshot::channel();
        lane.waiting.push_back(Waiter { demand, reply });
        drop(lanes);
        if free {
            // It sends all who wait when it is dropped.
            drop(Trip::new(self, way, slot));
        }
        Turn::Wait(answer)
    }

    /// Whether another round trip may begin. A store that is far away, or does not answer, is sent more.
    fn has_room(&self, lane: &Lane<W>, way: &W::Way) -> bool {
        if lane.trips < DEPTH {
            return true;
        }
        let last = Duration::from_micros(self.trip.load(Ordering::Relaxed));
        let silent = way.time().since(lane.heard);
        let millis = last.max(silent).as_millis();
        u128::from(lane.trips - DEPTH) < millis
    }

    async fn send_alone(&self, demand: W::Demand, trip: Trip<W>) -> Result<W::Reply, StoreError> {
        let mut replies = self.send(vec![demand], &trip).await?;
        drop(trip);
        let missing = || Err(StoreError::new(StoreErrorKind::BadReply));
        replies.pop().unwrap_or_else(missing)
    }

    async fn send(
        &self,
        demands: Vec<W::Demand>,
        trip: &Trip<W>,
    ) -> Result<Vec<Result<W::Reply, StoreError>>, StoreError> {
        let replies = self.work.send(&trip.way, demands).await?;
        let micros = u64::try_from(trip.way.time().since(trip.began).as_micros());
        self.trip
            .store(micros.unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(replies)
    }

    /// Sends a script for those who wait, and hands out its answers.
    async fn send_waiting(&self, mut batch: Vec<Waiter<W>>, trip: &Trip<W>) {
        W::arrange(&mut batch);
        let (demands, callers): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|waiter| (waiter.demand, waiter.reply))
            .unzip();
        let sent = self.send(demands, trip);
        // Nobody waits longer than that, so nobody is left.
        let Ok(replies) = tokio::time::timeout(trip.way.deadline(), sent).await else {
            return;
        };
        match replies {
            Ok(replies) => {
                for (caller, reply) in callers.into_iter().zip(replies) {
                    // One who does not wait any more drops the answer, and its lease with it.
                    let _ = caller.send(reply);
                }
            }
            Err(error) => {
                for caller in callers {
                    let _ = caller.send(Err(error.clone()));
                }
            }
        }
    }

    /// Those who wait, as many as one script decides; `None` if there are none, and then the round trip has ended.
    fn waiting(&self, slot: u16, now: Moment) -> Option<Vec<Waiter<W>>> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(&slot)?;
        let mut size = 0;
        let fits = |waiter: &&Waiter<W>| {
            let first = size == 0;
            let keys = W::keys(&waiter.demand).iter();
            size += keys.map(|key| 1 + key.len() / LONG).sum::<usize>();
            first || size <= LARGEST
        };
        let count = lane.waiting.iter().take_while(fits).count();
        if count == 0 {
            end_trip(&mut lanes, slot, now);
            return None;
        }
        Some(lane.waiting.drain(..count).collect())
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<W>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Work> fmt::Debug for Batcher<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}

fn end_trip<W: Work>(lanes: &mut Lanes<W>, slot: u16, now: Moment) {
    if let Entry::Occupied(mut lane) = lanes.entry(slot) {
        lane.get_mut().trips -= 1;
        lane.get_mut().heard = now;
        if lane.get().trips == 0 && lane.get().waiting.is_empty() {
            lane.remove();
        }
    }
}

/// A round trip that is under way. When it ends it is the turn of those who wait.
struct Trip<W: Work> {
    batcher: Arc<Batcher<W>>,
    way: W::Way,
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

impl<W: Work> Trip<W> {
    fn new(batcher: &Arc<Batcher<W>>, way: &W::Way, slot: u16) -> Self {
        Self {
            batcher: Arc::clone(batcher),
            way: way.clone(),
            slot,
            began: way.time(),
            end: End::CarryOn,
        }
    }

    /// Sends those who wait until nobody does.
    async fn carry_on(mut self) {
        loop {
            // Those who were answered come to their turn first, and may ask again.
            tokio::task::yield_now().await;
            let Some(mut batch) = self.batcher.waiting(self.slot, self.way.time()) else {
                self.end = End::Nothing;
                return;
            };
            // Who gave up before it was sent is not charged.
            batch.retain(|waiter| !waiter.reply.is_closed());
            if !batch.is_empty() {
                self.began = self.way.time();
                self.batcher.send_waiting(batch, &self).await;
            }
        }
    }
}

impl<W: Work> Drop for Trip<W> {
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
            lane.heard = self.way.time();
            let runtime = Handle::try_current();
            if let (End::CarryOn, Ok(runtime)) = (&self.end, runtime) {
                drop(lanes);
                let mut trip = Self::new(&self.batcher, &self.way, self.slot);
                trip.end = End::Fail;
                runtime.spawn(trip.carry_on());
                return;
            }
            abandoned = std::mem::take(&mut lane.waiting);
        }
        end_trip(&mut lanes, self.slot, self.way.time());
        drop(lanes);
        drop(abandoned);
    }
}
