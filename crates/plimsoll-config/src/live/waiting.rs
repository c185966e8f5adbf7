//! Waiters that survive the replacement of their limiter.
//!
//! A place in a queue belongs to one gate. So a binding has a list of its waiters too: when another version replaces the gate,
//! each waiter asks the new one, in the order of arrival, before a new caller can.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use plimsoll::{Acquire, Demand, Denied, LimiterExt, Moment, Permit, Reason};

use super::binding::Binding;
use super::version::{Version, lock};

/// The waiters of one binding, in the order of arrival.
pub(super) type Waiters = Mutex<BTreeMap<u64, Weak<Waiter>>>;

type Answer = Result<Permit<'static>, Denied>;

/// One waiter.
pub(super) struct Waiter(Mutex<Asking>);

struct Asking {
    key: Option<String>,
    demand: Demand,
    /// The version that it asks.
    version: Arc<Version>,
    inner: Option<Acquire<'static>>,
    /// Whether it has begun to wait. After that no full queue refuses it.
    waits: bool,
    answer: Option<Answer>,
    waker: Waker,
}

impl Asking {
    fn ask(&mut self, version: &Arc<Version>) {
        if !self.demand.is_at_once() {
            // The new version may have another clock, so the remaining time is used, not the moment.
            let (old, new) = (now(&self.version), now(version));
            let deadline = self.demand.deadline(old);
            let deadline = deadline.map(|deadline| new.plus(deadline.since(old)));
            self.demand = match deadline {
                deadline if self.waits => self.demand.kept_until(deadline),
                Some(deadline) => self.demand.until(deadline),
                None => self.demand,
            };
        }
        self.version = Arc::clone(version);
        self.inner = Some(match &self.key {
            Some(key) => version.keys.acquire_owned(key, self.demand),
            None => version.one.acquire_owned(self.demand),
        });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        let Some(inner) = &mut self.inner else {
            return Poll::Pending;
        };
        let answer = Pin::new(inner).poll(cx);
        match answer {
            Poll::Ready(_) => self.inner = None,
            Poll::Pending => self.waits = true,
        }
        answer.map_ok(|permit| self.version.own_shared(permit))
    }
}

fn now(version: &Version) -> Moment {
    version.one.clock().precise_now()
}

impl Waiter {
    /// Asks `next`, unless the waiter has an answer already. Returns the waker to wake.
    fn move_to(&self, next: &Arc<Version>, left: &mut Vec<Acquire<'static>>) -> Option<Waker> {
        let mut asking = lock(&self.0);
        let waker = asking.waker.clone();
        let mut cx = Context::from_waker(&waker);
        if asking.answer.is_some() || asking.inner.is_none() {
            return None;
        }
        match asking.poll(&mut cx) {
            Poll::Pending => {}
            // It has not asked yet.
            Poll::Ready(Err(denied)) if denied.reason() == Reason::Closed => {}
            // A grant of the old version stays.
            Poll::Ready(answer) => {
                asking.answer = Some(answer);
                return Some(waker);
            }
        }
        left.extend(asking.inner.take());
        asking.ask(next);
        // A store is asked by the waiting task, in its runtime.
        if next.one.is_remote() {
            return Some(waker);
        }
        let answer = asking.poll(&mut cx);
        let Poll::Ready(answer) = answer else {
            return None;
        };
        asking.answer = Some(answer);
        Some(waker)
    }

    /// Refuses the waiter.
    fn refuse(&self, denied: &Denied) -> Option<Waker> {
        let mut asking = lock(&self.0);
        if asking.answer.is_some() {
            return None;
        }
        let waker = asking.waker.clone();
        // It may have a grant already.
        let answer = asking.poll(&mut Context::from_waker(&waker));
        asking.answer = Some(match answer {
            Poll::Ready(Ok(permit)) => Ok(permit),
            _ => Err(denied.clone()),
        });
        asking.inner = None;
        Some(waker)
    }
}

/// The present waiters, in the order of arrival.
fn present(waiters: &Waiters) -> Vec<Arc<Waiter>> {
    let waiters = lock(waiters);
    waiters.values().filter_map(Weak::upgrade).collect()
}

/// Has all waiters ask `next`. Returns the wakers to wake.
pub(super) fn move_all(waiters: &Waiters, next: &Arc<Version>) -> Vec<Waker> {
    let waiters = present(waiters);
    let mut left = Vec::new();
    let wakers = waiters.iter().filter_map(|it| it.move_to(next, &mut left));
    let wakers = wakers.collect();
    // Places in the old queue are dropped from the last to the first, so that the old gate serves no waiter that becomes the front.
    while let Some(place) = left.pop() {
        drop(place);
    }
    wakers
}

/// Refuses all waiters. Returns the wakers to wake.
pub(super) fn refuse_all(waiters: &Waiters, denied: &Denied) -> Vec<Waker> {
    let waiters = present(waiters);
    waiters.iter().filter_map(|it| it.refuse(denied)).collect()
}

/// The future of a demand to a binding, through all its versions.
///
/// Lock order: binding before waiter. A waiter's lock is never held while a binding is locked.
pub(super) struct Wait {
    binding: Arc<Binding>,
    key: Option<String>,
    demand: Demand,
    place: Option<(u64, Arc<Waiter>)>,
}

impl Wait {
    pub(super) fn new(binding: Arc<Binding>, key: Option<&str>, demand: Demand) -> Self {
        Self {
            binding,
            key: key.map(str::to_owned),
            demand,
            place: None,
        }
    }

    /// Fast path: takes without waiting. `None` if the version is in a store, or does not grant.
    fn at_once(&self, version: &Version) -> Option<Permit<'static>> {
        if version.one.is_remote() {
            return None;
        }
        let permit = match &self.key {
            Some(key) => version.keys.attempt_owned(key, self.demand),
            None => version.one.attempt_owned(self.demand),
        };
        permit.map(|permit| version.own_shared(permit))
    }

    /// Registers the waiter with the binding, so that a replacement finds it.
    fn join(&mut self, version: &Arc<Version>, cx: &Context<'_>) -> Arc<Waiter> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let waiter = Arc::new(Waiter(Mutex::new(Asking {
            key: self.key.take(),
            demand: self.demand,
            version: Arc::clone(version),
            inner: None,
            waits: false,
            answer: None,
            waker: cx.waker().clone(),
        })));
        let mut waiters = lock(&self.binding.waiters);
        waiters.insert(number, Arc::downgrade(&waiter));
        self.place = Some((number, Arc::clone(&waiter)));
        waiter
    }

    fn leave(&mut self) {
        if let Some((number, _)) = self.place.take() {
            lock(&self.binding.waiters).remove(&number);
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        let waiter = match &self.place {
            Some((_, waiter)) => Arc::clone(waiter),
            None => {
                let version = match self.binding.current() {
                    Ok(version) => version,
                    Err(denied) => return Poll::Ready(Err(denied)),
                };
                if let Some(permit) = self.at_once(&version) {
                    return Poll::Ready(Ok(permit));
                }
                let now = now(&version);
                // The time-out begins now, whichever version answers in the end.
                if !self.demand.is_at_once() {
                    let own = self.demand.deadline(now);
                    let queue = version.queue_deadline(now);
                    if let Some(until) = [own, queue].into_iter().flatten().min() {
                        self.demand = self.demand.until(until);
                    }
                }
                let waiter = self.join(&version, cx);
                lock(&waiter.0).ask(&version);
                waiter
            }
        };
        loop {
            let mut asking = lock(&waiter.0);
            if let Some(answer) = asking.answer.take() {
                return Poll::Ready(answer);
            }
            let asked = Arc::clone(&asking.version);
            let answer = asking.poll(cx);
            if let Poll::Ready(Ok(_)) = answer {
                return answer;
            }
            asking.waker.clone_from(cx.waker());
            let closed =
                matches!(&answer, Poll::Ready(Err(denied)) if denied.reason() == Reason::Closed);
            if !closed && (!asked.is_retired() || asked.follows_names) {
                return answer;
            }
            drop(asking);
            // It was asked at the moment of a replacement. The lock of the binding waits for the end of it.
            let current = match self.binding.current() {
                Ok(current) => current,
                Err(denied) => return Poll::Ready(Err(denied)),
            };
            // The present version is closed only while it is paused, when it was replaced and has come back: it is asked again.
            // Only a member of an `all` can be removed for good.
            let again = closed && !asked.follows_names;
            if Arc::ptr_eq(&current, &asked) && !again {
                return answer;
            }
            let mut asking = lock(&waiter.0);
            if Arc::ptr_eq(&asking.version, &asked) && asking.answer.is_none() {
                asking.ask(&current);
            }
        }
    }
}

impl Future for Wait {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let answer = self.poll_answer(cx);
        let answer = answer.map_err(|denied| self.binding.named(denied));
        if answer.is_ready() {
            self.leave();
        }
        answer
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.leave();
    }
}
