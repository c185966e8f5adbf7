//! Batches concurrent demands: one script decides for all callers that wait.
//!
//! If few round trips are in flight, the caller sends its demand at once. Otherwise the demand is queued, and when a round trip ends,
//! one script decides all queued demands in order, as if each had been sent alone at that moment. A demand is never delayed to fill a
//! batch: it waits only for a round trip in flight, and the number of concurrent round trips grows with their latency.
//!
//! A script may only use keys of one hash slot, so in a cluster each slot has a queue of its own.

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

/// Maximum number of subjects in one script: a server executes nothing else while a script runs.
pub(crate) const MAX_SUBJECTS: usize = 128;

/// A key counts as one additional subject for each of this many bytes of its name, which also bounds a script in bytes.
const BYTES_PER_SUBJECT: usize = 1024;

/// Number of concurrent round trips if each takes less than a millisecond. With two, the server executes one script while this
/// process reads the replies of the other.
const MIN_ROUND_TRIPS: u32 = 2;

/// A kind of demands that can be sent in one script.
pub(crate) trait BatchedWork: Send + Sync + Sized + 'static {
    /// The demand of one caller.
    type Demand: Send + 'static;
    /// The reply to one demand.
    type Reply: Send + 'static;
    /// The store to which scripts are sent.
    type Transport: Transport;

    /// The keys of a demand.
    fn keys(demand: &Self::Demand) -> &[Vec<u8>];

    /// Sorts the demands of a script. Demands on one key must keep their order.
    fn arrange(waiters: &mut [Waiter<Self>]) {
        let _ = waiters;
    }

    /// Sends one script for these demands and returns a reply for each.
    fn send(
        &self,
        store: &Self::Transport,
        demands: Vec<Self::Demand>,
    ) -> impl Future<Output = Result<Vec<Result<Self::Reply, StoreError>>, StoreError>> + Send;
}

/// The clock and the deadline of a store.
pub(crate) trait Transport: Clone + Send + Sync + 'static {
    fn time(&self) -> Moment;

    /// The maximum wait of a caller.
    fn deadline(&self) -> Duration;
}

/// A queued demand.
pub(crate) struct Waiter<W: BatchedWork> {
    pub(crate) demand: W::Demand,
    reply: oneshot::Sender<Result<W::Reply, StoreError>>,
}

/// Sends demands in batches.
pub(crate) struct Batcher<W: BatchedWork> {
    work: W,
    queues: Mutex<SlotQueues<W>>,
    /// The duration of the last round trip, in microseconds.
    last_round_trip: AtomicU64,
}

type SlotQueues<W> = HashMap<u16, SlotQueue<W>>;

/// The queue of a hash slot. Without a cluster all keys are in slot 0.
struct SlotQueue<W: BatchedWork> {
    /// The number of round trips in flight.
    in_flight: u32,
    /// The moment at which the last round trip ended, or the first one began.
    last_reply: Moment,
    waiting: VecDeque<Waiter<W>>,
}

/// The next step of a caller.
enum Turn<W: BatchedWork> {
    Send(W::Demand, RoundTrip<W>),
    Wait(oneshot::Receiver<Result<W::Reply, StoreError>>),
}

impl<W: BatchedWork> Batcher<W> {
    pub(crate) fn new(work: W) -> Arc<Self> {
        Arc::new(Self {
            work,
            queues: Mutex::new(HashMap::new()),
            last_round_trip: AtomicU64::new(0),
        })
    }

    /// Decides a demand, without a timeout.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        store: &W::Transport,
        slot: u16,
        demand: W::Demand,
    ) -> Result<W::Reply, StoreError> {
        match self.turn(store, slot, demand) {
            // Boxed to keep this future small: it is moved several times before it is polled.
            Turn::Send(demand, round_trip) => Box::pin(self.send_alone(demand, round_trip)).await,
            Turn::Wait(reply) => match reply.await {
                Ok(reply) => reply,
                // The task that would have sent it was dropped with its runtime.
                Err(_) => Err(StoreError::new(StoreErrorKind::Unreachable)),
            },
        }
    }

    fn turn(self: &Arc<Self>, store: &W::Transport, slot: u16, demand: W::Demand) -> Turn<W> {
        let mut queues = self.queues();
        let queue = queues.entry(slot).or_insert_with(|| SlotQueue {
            in_flight: 0,
            last_reply: store.time(),
            waiting: VecDeque::new(),
        });
        let free = self.has_room(queue, store);
        if free {
            queue.in_flight += 1;
        }
        if free && queue.waiting.is_empty() {
            drop(queues);
            return Turn::Send(demand, RoundTrip::new(self, store, slot));
        }
        let (reply, answer) = oneshot::channel();
        queue.waiting.push_back(Waiter { demand, reply });
        drop(queues);
        if free {
            // Its drop spawns a task that sends the queue.
            drop(RoundTrip::new(self, store, slot));
        }
        Turn::Wait(answer)
    }

    /// Whether another round trip may begin. The higher the latency of the store, the more round trips are in flight.
    fn has_room(&self, queue: &SlotQueue<W>, store: &W::Transport) -> bool {
        if queue.in_flight < MIN_ROUND_TRIPS {
            return true;
        }
        let last = Duration::from_micros(self.last_round_trip.load(Ordering::Relaxed));
        let silent = store.time().since(queue.last_reply);
        let millis = last.max(silent).as_millis();
        u128::from(queue.in_flight - MIN_ROUND_TRIPS) < millis
    }

    async fn send_alone(
        &self,
        demand: W::Demand,
        round_trip: RoundTrip<W>,
    ) -> Result<W::Reply, StoreError> {
        let mut replies = self.send(vec![demand], &round_trip).await?;
        drop(round_trip);
        let missing = || Err(StoreError::new(StoreErrorKind::BadReply));
        replies.pop().unwrap_or_else(missing)
    }

    async fn send(
        &self,
        demands: Vec<W::Demand>,
        round_trip: &RoundTrip<W>,
    ) -> Result<Vec<Result<W::Reply, StoreError>>, StoreError> {
        let replies = self.work.send(&round_trip.store, demands).await?;
        let micros = u64::try_from(round_trip.store.time().since(round_trip.began).as_micros());
        self.last_round_trip
            .store(micros.unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(replies)
    }

    /// Sends a script for queued demands and distributes its replies.
    async fn send_batch(&self, mut batch: Vec<Waiter<W>>, round_trip: &RoundTrip<W>) {
        W::arrange(&mut batch);
        let (demands, callers): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|waiter| (waiter.demand, waiter.reply))
            .unzip();
        let sent = self.send(demands, round_trip);
        // All callers have timed out by then.
        let Ok(replies) = tokio::time::timeout(round_trip.store.deadline(), sent).await else {
            return;
        };
        match replies {
            Ok(replies) => {
                for (caller, reply) in callers.into_iter().zip(replies) {
                    // If the caller has dropped its future, the reply is dropped, and its lease with it.
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

    /// Removes as many queued demands as one script decides. If there are none, ends the round trip and returns `None`.
    fn next_batch(&self, slot: u16, now: Moment) -> Option<Vec<Waiter<W>>> {
        let mut queues = self.queues();
        let queue = queues.get_mut(&slot)?;
        let mut size = 0;
        let fits = |waiter: &&Waiter<W>| {
            let first = size == 0;
            let keys = W::keys(&waiter.demand).iter();
            size += keys
                .map(|key| 1 + key.len() / BYTES_PER_SUBJECT)
                .sum::<usize>();
            first || size <= MAX_SUBJECTS
        };
        let count = queue.waiting.iter().take_while(fits).count();
        if count == 0 {
            end_round_trip(&mut queues, slot, now);
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }

    fn queues(&self) -> MutexGuard<'_, SlotQueues<W>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: BatchedWork> fmt::Debug for Batcher<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}

fn end_round_trip<W: BatchedWork>(queues: &mut SlotQueues<W>, slot: u16, now: Moment) {
    if let Entry::Occupied(mut queue) = queues.entry(slot) {
        queue.get_mut().in_flight -= 1;
        queue.get_mut().last_reply = now;
        if queue.get().in_flight == 0 && queue.get().waiting.is_empty() {
            queue.remove();
        }
    }
}

/// A round trip in flight. When it ends, the queue is sent.
struct RoundTrip<W: BatchedWork> {
    batcher: Arc<Batcher<W>>,
    store: W::Transport,
    slot: u16,
    began: Moment,
    on_drop: OnDrop,
}

/// The effect of dropping a round trip.
#[derive(PartialEq)]
enum OnDrop {
    /// Spawns a task that sends the queue.
    SendQueue,
    /// Fails all queued demands: the task that sends them was dropped with its runtime.
    Fail,
    /// Nothing: the round trip has ended.
    Nothing,
}

impl<W: BatchedWork> RoundTrip<W> {
    fn new(batcher: &Arc<Batcher<W>>, store: &W::Transport, slot: u16) -> Self {
        Self {
            batcher: Arc::clone(batcher),
            store: store.clone(),
            slot,
            began: store.time(),
            on_drop: OnDrop::SendQueue,
        }
    }

    /// Sends queued demands until the queue is empty.
    async fn send_queued(mut self) {
        loop {
            // Callers that were answered run first, and may queue their next demand.
            tokio::task::yield_now().await;
            let Some(mut batch) = self.batcher.next_batch(self.slot, self.store.time()) else {
                self.on_drop = OnDrop::Nothing;
                return;
            };
            // A caller that has dropped its future is not charged.
            batch.retain(|waiter| !waiter.reply.is_closed());
            if !batch.is_empty() {
                self.began = self.store.time();
                self.batcher.send_batch(batch, &self).await;
            }
        }
    }
}

impl<W: BatchedWork> Drop for RoundTrip<W> {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Nothing {
            return;
        }
        let mut queues = self.batcher.queues();
        let Some(queue) = queues.get_mut(&self.slot) else {
            return;
        };
        let mut abandoned = VecDeque::new();
        if !queue.waiting.is_empty() {
            queue.last_reply = self.store.time();
            let runtime = Handle::try_current();
            if let (OnDrop::SendQueue, Ok(runtime)) = (&self.on_drop, runtime) {
                drop(queues);
                let mut round_trip = Self::new(&self.batcher, &self.store, self.slot);
                round_trip.on_drop = OnDrop::Fail;
                runtime.spawn(round_trip.send_queued());
                return;
            }
            abandoned = std::mem::take(&mut queue.waiting);
        }
        end_round_trip(&mut queues, self.slot, self.store.time());
        drop(queues);
        drop(abandoned);
    }
}
