//! The one limiter behind all kinds: a rule, a clock, and a queue.

mod acquire;
mod alarm;
mod bookings;
mod builder;
mod charge;
mod core;
mod enter;
mod forecast;
mod inside;
mod joint;
mod learning;
mod limiter;
#[cfg(all(test, loom))]
mod model;
mod refused;
mod reservation;
mod resets;
mod returns;
mod serving;
mod tally;
mod telling;
mod view;
mod weak;

use std::fmt;
use std::sync::Arc;

use self::core::{Core, Open, Shortly};
use self::inside::Inside;
use crate::batched::TakeBack;
use crate::name::Name;
use crate::sync::Ordering;
use crate::totals::Totals;
use crate::{
    Carry, Clock, Concurrency, Demand, Denied, Grant, InvalidLimit, Moment, Permit, Queue, Rule,
    Snapshot,
};

pub(crate) use acquire::{BoxAcquire, Start};
pub(crate) use inside::take;
pub(crate) use reservation::Pending;

pub use acquire::Acquire;
pub use builder::GateBuilder;
pub use reservation::Reservation;
pub(crate) use tally::Counted;
pub(crate) use weak::WeakGate;

/// A limiter: a [`Rule`] with a clock and, if wanted, a queue.
///
/// A clone is the same limiter. Everything takes `&self`, and a granted decision allocates nothing and
/// takes no lock (a [`SlidingWindow`](crate::SlidingWindow), whose state is large, takes an uncontended
/// one).
///
/// ```
/// use plimsoll::{Gate, ManualClock, Queue, TokenBucket};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // 5 a second, and a queue of 25: thirty requests at once become five a second for six seconds.
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(5))
///     .queue(Queue::fifo(25))
///     .clock(time.clock())
///     .build();
/// let crowd: Vec<_> = (0..30)
///     .map(|_| {
///         let gate = gate.clone();
///         tokio::spawn(async move { gate.acquire(1).await.map(|permit| permit.granted_at()) })
///     })
///     .collect();
/// tokio::task::yield_now().await;
/// time.advance(Duration::from_secs(5));
/// for task in crowd {
///     task.await.unwrap()?;
/// }
/// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
/// ```
pub struct Gate<R: Rule> {
    core: Arc<Core<R>>,
}

impl<R: Rule> Gate<R> {
    /// A limiter without a queue, on the system's clock.
    pub fn new(rule: R) -> Self {
        Self::builder(rule).build()
    }

    /// A limiter with other settings.
    pub fn builder(rule: R) -> GateBuilder<R> {
        GateBuilder::new(rule)
    }

    /// Whether it is closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.core.closed.load(Ordering::Relaxed)
    }

    /// The limit of a rule that is resized, not replaced.
    #[inline]
    pub(crate) fn limit(&self) -> u32 {
        self.core.rule.limit()
    }

    /// The moment on its clock.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.core.clock.now()
    }

    /// A permit for what was taken by other means.
    #[inline]
    pub(crate) fn permit(&self, grant: Grant) -> Permit<'_> {
        Permit::new(&*self.core, grant, R::RETURNS_PERMITS)
    }

    pub(crate) fn to_take_back(&self) -> Arc<dyn TakeBack> {
        Arc::clone(&self.core) as Arc<dyn TakeBack>
    }

    /// A gate that goes on from a state, for a key that needs one.
    pub(crate) fn resumed(
        rule: R,
        state: R::State,
        now: Moment,
        clock: Clock,
        queue: Option<Queue>,
        name: Option<Name>,
        totals: Totals,
    ) -> Self {
        let inside = Inside::new(queue);
        Self::from_core(Core::resumed(rule, state, now, clock, totals, name, inside))
    }

    /// [`replace`](Self::replace), for rules of which it is not known whether they are given back to.
    pub(crate) fn replace_rule(&self, mut rule: R, now: Moment, carry: Carry) {
        self.change_at(now, |turn| {
            if !rule.keeps_grants(carry) {
                turn.now = turn.inside.not_before(self.core.clock.precise_now());
                turn.inside.resets.reset(turn.now, self.core.clock.late());
            }
            if matches!(carry, Carry::Proportional | Carry::Reset) {
                turn.inside.bookings.clear();
            }
            rule.begin(turn.now);
            *turn.state = rule.adopt(turn.rule, turn.state, turn.now, carry);
            turn.inside.changed = Some(Arc::new(rule));
        });
    }

    /// Whether nobody else has this gate.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.core) == 1
    }

    /// From when on it is no worse than a new one; `None` while anybody uses it.
    pub(crate) fn evictable_from(&self, now: Moment) -> Option<Moment> {
        if !self.is_alone() {
            return None;
        }
        self.core.look(|rule, inside, state, _| {
            let used =
                !inside.waiters.is_empty() || (R::RETURNS_PERMITS && rule.in_use(state, now) > 0);
            if used {
                None
            } else {
                rule.evictable_from(state, now)
            }
        })
    }

    fn from_core(core: Arc<Core<R>>) -> Self {
        Self { core }
    }

    /// Takes now, or is refused. Never waits.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    #[inline(always)]
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        let demand = demand.into();
        let core = &*self.core;
        let (mut now, timed) = core.start();
        let mut open = Open::Parked { timed };
        if demand.cost > 0 {
            match core.take_short(now, demand.cost) {
                Shortly::Granted => {
                    core.totals.granted();
                    let grant = Grant {
                        timed,
                        ..demand.granted(now)
                    };
                    return Ok(Permit::new(core, grant, R::RETURNS_PERMITS));
                }
                Shortly::Refused(refusal, word) => match core.refine(now, refusal) {
                    Some(precise) if precise >= refusal.ready_at => {
                        (now, open) = (precise, Open::Again);
                    }
                    precise => {
                        let now = precise.unwrap_or(now);
                        return Err(core.denied_shortly(refusal, word, now, demand.cost));
                    }
                },
                Shortly::Parked => {}
            }
        }
        let taken = core.take_long(open, now, demand.cost, demand.priority)?;
        Ok(core.permit_of(taken, demand))
    }

    /// Takes, waiting in the queue if there is one. See [`Limiter::acquire`](crate::Limiter::acquire).
    pub fn acquire(&self, demand: impl Into<Demand>) -> Acquire<'_> {
        Acquire::new(&*self.core, demand.into())
    }

    /// [`acquire`](Self::acquire), independent of this borrow.
    pub fn acquire_owned(&self, demand: impl Into<Demand>) -> Acquire<'static> {
        Acquire::owned(Arc::clone(&self.core) as _, demand.into())
    }

    /// Takes, blocking the thread while it waits. See [`Limiter::acquire_blocking`](crate::Limiter::acquire_blocking).
    ///
    /// # Errors
    ///
    /// [`Denied`] says why.
    pub fn acquire_blocking(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        crate::blocking::wait(self.acquire(demand))
    }

    /// Takes now what may be used later, and says when. See [`Reservation`].
    ///
    /// A [`TokenBucket`](crate::TokenBucket) goes into debt. Windows hold a place before everybody who
    /// comes later, whatever the bound of the queue. [`Concurrency`] joins the queue, if it has one.
    ///
    /// # Errors
    ///
    /// If it is refused, or would have to wait longer than the demand is willing to. Nothing is taken
    /// then.
    pub fn reserve(&self, demand: impl Into<Demand>) -> Result<Reservation<'_>, Denied> {
        self.core.reserve(demand.into())
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate(&self, demand: impl Into<Demand>) -> Result<(), Denied> {
        self.core.estimate(demand.into())
    }

    /// Takes as many as there are, at most `most`; the permit says how many.
    ///
    /// Nobody is passed: while others wait in a fifo queue there is nothing to take.
    pub fn take_up_to(&self, most: u32) -> Permit<'_> {
        let core = &*self.core;
        let (cost, taken) = core.enter(core.clock.precise_now(), |turn| {
            if turn.inside.closed || !turn.may_pass(Demand::ONE) {
                return (0, turn.stamp());
            }
            let cost = turn.rule.available(turn.state, turn.now).min(most);
            if cost > 0 && turn.take(Demand::of(cost)).is_ok() {
                turn.inside.counts.granted += 1;
                return (cost, turn.stamp());
            }
            (0, turn.stamp())
        });
        self.permit(taken.grant(Demand::of(cost))).in_era(taken.era)
    }

    /// Makes `amount` more available, at most up to the limit, and serves who waits.
    ///
    /// A limit that is given back to only knows what its permits give back: there it does nothing.
    pub fn add(&self, amount: u32) {
        self.change(|turn| turn.rule.add(turn.state, turn.now, amount));
    }

    /// Changes the limit to that of `rule`, and serves who waits. `carry` says what becomes of what is there.
    ///
    /// From then on every decision takes the lock: the fast path is for limits that never change. Limits that
    /// are given back to are [resized](Gate::resize) instead; replacing one is a compile-time error.
    pub fn replace(&self, rule: R, carry: Carry) {
        const {
            assert!(
                !R::RETURNS_PERMITS,
                "a limit that is given back to is resized, not replaced"
            )
        };
        self.replace_rule(rule, self.core.clock.precise_now(), carry);
    }

    fn change(&self, change: impl FnOnce(&mut inside::Turn<'_, R>)) {
        if !R::RETURNS_PERMITS {
            self.change_at(self.core.clock.precise_now(), change);
        }
    }

    fn change_at(&self, now: Moment, change: impl FnOnce(&mut inside::Turn<'_, R>)) {
        self.core.enter(now, |turn| {
            change(turn);
            turn.inside.forecast.forget();
        });
        // In a turn of its own, by the rule that holds then.
        self.core.enter(now, |turn| turn.serve());
    }

    /// Changes how much may wait. Who already waits may stay. Without a queue it does nothing.
    pub fn set_queue_bound(&self, bound: u32) {
        self.core.enter(self.core.clock.precise_now(), |turn| {
            if let Some(queue) = &mut turn.inside.queue {
                queue.bound = bound;
            }
        });
    }

    /// Lets callers wait in another way, or not at all. Who already waits may stay, and is served in the new order.
    pub fn set_queue(&self, queue: Option<Queue>) {
        let patient = queue.is_none_or(|queue| queue.timeout.is_none());
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.inside.queue = queue;
            turn.inside.forecast.forget();
            self.core.patient.store(patient, Ordering::Relaxed);
            turn.serve();
        });
    }

    /// What the limiter looks like now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }

    /// Whether there is room for anything new. See [`Limiter::check_saturation`](crate::Limiter::check_saturation).
    ///
    /// # Errors
    ///
    /// [`Saturated`](crate::Reason::Saturated) if not.
    #[inline]
    pub fn check_saturation(&self) -> Result<(), Denied> {
        self.core.check_saturation()
    }

    /// Refuses everybody who waits and everybody who comes. Permits that are out may still be dropped.
    pub fn close(&self) {
        self.core.close();
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.core.name.map(Name::as_str)
    }
}

impl Gate<Concurrency> {
    /// Changes the limit. A larger one serves who waits; a smaller one takes effect as permits come
    /// back.
    ///
    /// # Errors
    ///
    /// If `limit` is 0.
    pub fn resize(&self, limit: u32) -> Result<(), InvalidLimit> {
        let _valid = Concurrency::try_new(limit)?;
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.rule.resize(turn.state, limit);
            turn.serve();
        });
        Ok(())
    }
}

impl<R: Rule> Clone for Gate<R> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl<R: Rule> fmt::Debug for Gate<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("name", &self.core.name)
            .field("rule", &self.core.rule)
            .finish_non_exhaustive()
    }
}
