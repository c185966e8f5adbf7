use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::unwind::quietly;
use crate::{Clock, Moment};

/// The state of the lease behind a permit, and its fencing number. Clones are the same lease.
///
/// A permit of a limit in a store that several processes share can be lost: if its lease cannot be renewed, the lease
/// expires, and another process may get the permit. Permits of limits in memory have no lease. See
/// [`Permit::leases`](crate::Permit::leases).
///
/// Work that must stop without its permit awaits [`lost`](Self::lost) alongside its own result, and sends the [fencing
/// number](Self::fence) with its writes: a holder always learns a little late that its lease has ended.
///
/// ```
/// use plimsoll::LeaseState;
///
/// let lease = LeaseState::new(41);
/// assert_eq!((lease.fence(), lease.is_lost()), (41, false));
/// lease.lose();
/// assert!(lease.is_lost());
/// ```
#[derive(Clone)]
pub struct LeaseState {
    inner: Arc<Inner>,
}

struct Inner {
    fence: u64,
    lost: AtomicBool,
    clock: Option<Clock>,
    /// The moment at which it expires, in nanoseconds of that clock.
    ends: AtomicU64,
    wakers: Mutex<Wakers>,
}

#[derive(Default)]
struct Wakers {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

impl LeaseState {
    /// Creates a lease that holds until [`lose`](Self::lose) is called. For authors of limiters.
    #[must_use]
    pub fn new(fence: u64) -> Self {
        Self::of(fence, None, Moment::from_nanos(u64::MAX))
    }

    /// Creates a lease that holds until `ends` by this clock, unless it is [renewed](Self::renew). From then on
    /// [`is_lost`](Self::is_lost) is true by itself; still call [`lose`](Self::lose), to wake the tasks that wait for
    /// [`lost`](Self::lost).
    ///
    /// ```
    /// use plimsoll::{LeaseState, ManualClock};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let in_ten = |time: &ManualClock| time.clock().now().plus(Duration::from_secs(10));
    /// let lease = LeaseState::until(7, time.clock(), in_ten(&time));
    /// time.advance(Duration::from_secs(9));
    /// lease.renew(in_ten(&time));
    /// time.advance(Duration::from_secs(9));
    /// assert!(!lease.is_lost());
    /// time.advance(Duration::from_secs(1));
    /// assert!(lease.is_lost());
    /// ```
    #[must_use]
    pub fn until(fence: u64, clock: Clock, ends: Moment) -> Self {
        Self::of(fence, Some(clock), ends)
    }

    fn of(fence: u64, clock: Option<Clock>, ends: Moment) -> Self {
        Self {
            inner: Arc::new(Inner {
                fence,
                lost: AtomicBool::new(false),
                clock,
                ends: AtomicU64::new(ends.as_nanos()),
                wakers: Mutex::default(),
            }),
        }
    }

    /// Extends the lease until `ends`. A lost lease stays lost.
    pub fn renew(&self, ends: Moment) {
        if !self.is_lost() {
            self.inner.ends.store(ends.as_nanos(), Ordering::Release);
        }
    }

    /// Returns the fencing number: a later lease of the same key has a larger one. Writes under a lease should carry
    /// it, and the receiver should refuse a number smaller than the largest it has seen.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.inner.fence
    }

    /// Returns whether the lease has expired. Another process may hold the permit now.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let inner = &*self.inner;
        inner.lost.load(Ordering::Acquire)
            || inner.clock.as_ref().is_some_and(|clock| {
                clock.precise_now().as_nanos() >= inner.ends.load(Ordering::Acquire)
            })
    }

    /// Marks the lease as lost, and wakes the tasks that wait for that.
    pub fn lose(&self) {
        self.inner.lost.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut self.wakers().waiting);
        for (_, waker) in waiting {
            quietly(|| waker.wake());
        }
    }

    /// Returns a future that resolves when the lease is lost, and never if it is returned before.
    ///
    /// It does not borrow the permit, so both can be used in one `select!`.
    pub fn lost(&self) -> Lost {
        Lost::of([self.clone()])
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        let wakers = self.inner.wakers.lock();
        wakers.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseState")
            .field("fence", &self.fence())
            .field("lost", &self.is_lost())
            .finish()
    }
}

/// A future that resolves when one of the leases behind a permit is lost.
///
/// [`Permit::lost`](crate::Permit::lost) and [`LeaseState::lost`] return one. It never resolves for a limit in memory.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let permit = Gate::new(Concurrency::new(1)).acquire_owned(1).await?;
/// let work = async {};
/// tokio::select! {
///     () = permit.lost() => unreachable!("a permit in memory has no lease"),
///     () = work => {}
/// }
/// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Lost {
    /// Each with the slot of our waker, if there is one.
    leases: Vec<(LeaseState, Option<u64>)>,
}

impl Lost {
    /// Resolves when the first of these leases is lost; never if there are none.
    ///
    /// ```
    /// use plimsoll::{LeaseState, Lost};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (one, other) = (LeaseState::new(1), LeaseState::new(2));
    /// other.lose();
    /// Lost::of([one, other]).await;
    /// # });
    /// ```
    pub fn of(leases: impl IntoIterator<Item = LeaseState>) -> Self {
        Self {
            leases: leases.into_iter().map(|lease| (lease, None)).collect(),
        }
    }
}

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        for (lease, place) in &mut self.leases {
            // Cloned and dropped outside of the lock: both run foreign code.
            let mut former = Some(cx.waker().clone());
            let mut wakers = lease.wakers();
            let number = *place.get_or_insert_with(|| {
                wakers.next += 1;
                wakers.next
            });
            let known = wakers.waiting.iter_mut();
            let known = known.into_iter().find(|(known, _)| *known == number);
            match (known, former.as_mut()) {
                (Some((_, waker)), Some(new)) => std::mem::swap(waker, new),
                _ => {
                    let waker = former.take().map(|waker| (number, waker));
                    wakers.waiting.extend(waker);
                }
            }
            // Under the lock: `lose` takes the wakers after it has marked the lease.
            let lost = lease.is_lost();
            drop(wakers);
            drop(former);
            if lost {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        for (lease, place) in &self.leases {
            let mut wakers = lease.wakers();
            let waiting = &mut wakers.waiting;
            let at = waiting.iter().position(|(known, _)| Some(*known) == *place);
            let former = at.map(|at| waiting.swap_remove(at));
            drop(wakers);
            // Dropped when the lock is free: this runs foreign code.
            drop(former);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_runs_out_is_lost_without_anybody_saying_so() {
        let clock = crate::ManualClock::new();
        let lease = LeaseState::until(1, clock.clock(), Moment::from_nanos(10));
        clock.advance(std::time::Duration::from_nanos(9));
        assert!(!lease.is_lost());
        lease.renew(Moment::from_nanos(20));
        clock.advance(std::time::Duration::from_nanos(10));
        assert!(!lease.is_lost());
        clock.advance(std::time::Duration::from_nanos(1));
        assert!(lease.is_lost());
        lease.renew(Moment::from_nanos(100));
        assert!(lease.is_lost());
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }

    /// The wakers behind the one that panicked were dropped: their owners were not notified that the lease was lost.
    #[test]
    fn everybody_is_told_of_a_lost_lease_although_a_waker_panics() {
        let (lease, woken) = (LeaseState::new(7), Arc::new(Woken::default()));
        let mut broken = lease.lost();
        let waker = Waker::from(Arc::new(Panics));
        let polled = Pin::new(&mut broken).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let mut waiting = lease.lost();
        let waker = Waker::from(Arc::clone(&woken));
        let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        lease.lose();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    /// A task that asks about the lease when it is dropped with its last waker.
    struct Asks(LeaseState);

    impl Wake for Asks {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Asks {
        fn drop(&mut self) {
            // The thread that drops the waker must not hold the lock that this takes.
            assert!(self.0.inner.wakers.try_lock().is_ok());
        }
    }

    #[test]
    fn a_waker_is_dropped_when_the_lock_is_free() {
        let lease = LeaseState::new(7);
        let mut waiting = lease.lost();
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Asks(lease.clone())));
            let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        drop(waiting);
    }

    #[test]
    fn a_waiter_is_woken_once_and_one_that_left_is_forgotten() {
        let (lease, woken) = (LeaseState::new(7), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut waiting = [lease.lost(), Lost::of([LeaseState::new(8), lease.clone()])];
        for _ in 0..3 {
            for each in &mut waiting {
                assert!(Pin::new(each).poll(&mut cx).is_pending());
            }
        }
        for _ in 0..100 {
            assert!(Pin::new(&mut lease.lost()).poll(&mut cx).is_pending());
        }
        assert_eq!(lease.wakers().waiting.len(), 2);
        lease.lose();
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        for each in &mut waiting {
            assert!(Pin::new(each).poll(&mut cx).is_ready());
        }
        assert!(Pin::new(&mut lease.lost()).poll(&mut cx).is_ready());
    }
}
