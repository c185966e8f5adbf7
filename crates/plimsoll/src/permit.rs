mod origin;

use std::fmt;
use std::sync::Arc;

use self::origin::{Flags, Origin};
use crate::demand::Priority;
use crate::grant::{Era, Grant, Outcome, Shareable, Source};
use crate::lease::{LeaseState, Lost};
use crate::metadata::Metadata;
use crate::moment::Moment;
use crate::standing::Standing;

/// Proof that a limiter has granted a demand. Hold it while the work is done.
///
/// A permit of a limit whose permits are returned ([`Concurrency`](crate::Concurrency)) returns its cost, once, when it
/// is dropped. A permit of a rate returns nothing when it is dropped: time refills the limit.
///
/// | to end a permit | a limit whose permits are returned | a rate |
/// |---|---|---|
/// | drop it | returns it | nothing |
/// | [`finish`](Self::finish) | returns it, and an adaptive limit learns from the outcome | nothing |
/// | [`undo`](Self::undo) | returns it, and it no longer counts as granted | refunds it, and it no longer counts as granted |
/// | [`forget`](Self::forget) | never returns it | nothing |
///
/// ```
/// use plimsoll::{Concurrency, Gate};
///
/// let gate = Gate::new(Concurrency::new(10));
/// let mut permit = gate.try_acquire(5)?;
/// let part = permit.split(2).unwrap();
/// drop(permit);
/// assert_eq!(gate.snapshot().in_use(), 2);
///
/// // For work that outlives this scope: independent of the borrow of `gate`.
/// let part = part.into_owned();
/// std::thread::spawn(move || drop(part)).join().unwrap();
/// assert_eq!(gate.snapshot().in_use(), 0);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
// In this order: next to each other, the cost and the moment would be read as one by the thread that has just written them one
// by one, and processors make it wait for that.
#[must_use = "a permit that is dropped at once permits nothing"]
#[repr(C)]
pub struct Permit<'a> {
    cost: u64,
    source: Origin<'a>,
    taken: Moment,
    flags: Flags,
    era: Era,
    priority: Priority,
    timed: bool,
}

impl<'a> Permit<'a> {
    /// Creates a permit that borrows its source. If `returns`, dropping it calls [`Source::give_back`]. For authors of
    /// limiters; [`Limiter`](crate::Limiter) has an example.
    #[inline]
    pub fn new(source: &'a dyn Shareable, grant: Grant, returns: bool) -> Self {
        Self::from_origin(Origin::Borrowed(source), grant, returns)
    }

    /// Creates a permit that owns a reference to its source. If `returns`, dropping it calls [`Source::give_back`]. For
    /// authors of limiters.
    #[inline]
    pub fn shared(source: Arc<dyn Source>, grant: Grant, returns: bool) -> Self {
        Self::from_origin(Origin::Shared(source), grant, returns)
    }

    /// Creates a permit that does not know its limiter: dropping it returns nothing, and [`undo`](Self::undo) does
    /// nothing. Only [`undo_by`](Self::undo_by) reaches the limiter. For authors of limiters.
    #[inline]
    pub fn spent(grant: Grant) -> Self {
        Self::from_origin(Origin::Unknown, grant, false)
    }

    #[inline(always)]
    fn from_origin(source: Origin<'a>, grant: Grant, returns: bool) -> Self {
        let returns = if returns { Flags::RETURNS } else { 0 };
        Self {
            source,
            cost: grant.cost,
            flags: Flags(Flags::ALIVE | Flags::WHOLE | returns),
            era: Era::default(),
            priority: grant.priority,
            timed: grant.timed,
            taken: grant.taken,
        }
    }

    /// The same permit, granted after this number of resets in its instant.
    pub(crate) fn in_era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// The number of resets in its instant before it was granted.
    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// Returns whether the permit does not know its limiter, as those of a [`Keyed`](crate::Keyed) limit do not.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        matches!(self.source, Origin::Unknown)
    }

    /// Returns whether dropping the permit returns anything.
    #[inline]
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.flags.has(Flags::RETURNS)
    }

    /// Returns the data of the permit: cost, moment, class.
    #[inline]
    #[must_use]
    pub fn grant(&self) -> Grant {
        Grant {
            cost: self.cost,
            taken: self.taken,
            priority: self.priority,
            timed: self.timed,
        }
    }

    /// Returns the cost that was granted; 0 once it has been returned.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the class of the demand.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns when the permit was granted.
    ///
    /// A limit that does not depend on time ([`Concurrency`](crate::Concurrency)) reads no clock on its fast path, or
    /// when it hands a returned permit on to a waiter. For such a permit this returns the moment of the call.
    #[must_use]
    pub fn granted_at(&self) -> Moment {
        if self.grant().is_dated() {
            return self.taken;
        }
        self.source.get().now().unwrap_or(self.taken)
    }

    /// Returns the standing of the limit at the moment of the grant, if the limiter reported it with the grant, as a
    /// store does.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.source.get().standing()
    }

    /// Returns the metadata of the limiter, if it has any. A permit that [does not know its limiter](Self::is_spent),
    /// such as that of a keyed rate, has none: ask the limiter.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.source.get().metadata()
    }

    /// Returns the leases behind the permit. A permit of a limit in a store has them, and can be lost; a permit of a
    /// limit in memory has none.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseState> {
        let mut leases = Vec::new();
        let source = self.source.get();
        source.leases(&mut |lease| leases.push(lease.clone()));
        leases
    }

    /// Returns whether a lease behind the permit has expired. Another process may hold the permit now.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let mut lost = false;
        self.source
            .get()
            .leases(&mut |lease| lost |= lease.is_lost());
        lost
    }

    /// Returns the largest [fencing number](LeaseState::fence) of its leases, if it has any.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        let mut fence = None;
        self.source
            .get()
            .leases(&mut |lease| fence = fence.max(Some(lease.fence())));
        fence
    }

    /// Returns a future that resolves when the permit [is lost](Self::is_lost), and never if it cannot be. It does not
    /// hold the permit.
    ///
    /// ```
    /// # use plimsoll::Permit;
    /// # async fn work() {}
    /// # async fn select<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) {}
    /// # async fn doc(permit: Permit<'_>) {
    /// // Stop working when another process may hold the permit.
    /// select(work(), permit.lost()).await;
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        Lost::of(self.leases())
    }

    /// Splits off a permit of `cost`. `None` if this permit is smaller.
    pub fn split(&mut self, cost: u64) -> Option<Self> {
        self.cost = self.cost.checked_sub(cost)?;
        Some(Self {
            source: match &self.source {
                Origin::Borrowed(source) => Origin::Borrowed(*source),
                Origin::Shared(source) => Origin::Shared(Arc::clone(source)),
                Origin::Unknown => Origin::Unknown,
            },
            cost,
            flags: self.flags.of_part(),
            ..*self
        })
    }

    /// Merges another permit of the same limiter into this one.
    ///
    /// The sum has the older of the two moments. Undoing the sum of permits that a rate granted at different moments may
    /// therefore refund less than undoing each of them would, and never more.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    ///
    /// let gate = Gate::new(Concurrency::new(10));
    /// let mut permit = gate.try_acquire(2)?;
    /// permit.merge(gate.try_acquire(3)?).expect("both are of this gate");
    /// assert_eq!(permit.cost(), 5);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `other` unchanged if the two are not known to be of the same limiter, as permits of a
    /// [`Keyed`](crate::Keyed) limit are not; if one of them has ended; or if the sum overflows.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        let alive = self.flags.has(Flags::ALIVE) && other.flags.has(Flags::ALIVE);
        let sum = self.cost.checked_add(other.cost);
        match sum {
            Some(sum) if alive && self.source.is_same(&other.source) => {
                (self.taken, self.era) = self.older(&other);
                self.cost = sum;
                self.flags.0 |= other.flags.0;
                self.timed &= other.timed;
                other.end();
                Ok(())
            }
            _ => Err(other),
        }
    }

    /// When the older of two was granted. What one of them cannot undo, the sum cannot; nothing has no moment.
    fn older(&self, other: &Self) -> (Moment, Era) {
        let (one, two) = ((self.taken, self.era), (other.taken, other.era));
        match (self.cost, other.cost) {
            (_, 0) => one,
            (0, _) => two,
            _ if one.1 == Era::LOST => one,
            _ if two.1 == Era::LOST => two,
            _ => one.min(two),
        }
    }

    /// Ends the permit: whatever is done with it from now on does nothing. Returns its data, unless it had ended before.
    fn end(&mut self) -> Option<Grant> {
        let grant = self.grant();
        self.cost = 0;
        self.flags.end().then_some(grant)
    }

    /// Makes it a permit for `cost`, for a limit that is refilled with time. Returns its data before that, unless it has
    /// ended.
    pub(crate) fn settle(&mut self, cost: u64) -> Option<(Grant, Era)> {
        let before = (self.grant(), self.era);
        let alive = self.flags.has(Flags::ALIVE);
        if alive {
            self.cost = cost;
        }
        alive.then_some(before)
    }

    /// Ends the permit without returning it: its cost stays taken. For a rate this is the same as dropping it.
    pub fn forget(mut self) {
        self.end();
    }

    /// Returns the permit and reports the result of the work, from which an [adaptive](crate::adaptive) limit learns.
    #[inline]
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// Refunds the permit, also to a rate, as if it had never been granted. Use it for work that was not needed. It
    /// never makes more available than there would be without the grant.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(5)).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(5)?.undo();
    /// assert_eq!(gate.snapshot().available(), 5);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn undo(mut self) {
        if let Some(grant) = self.end() {
            let whole = self.flags.has(Flags::WHOLE);
            self.source.get().undo_of(grant, whole, self.era);
        }
    }

    /// Like [`undo`](Self::undo), but calls `undo` if the permit [does not know its limiter](Self::is_spent), with the
    /// arguments of [`Source::undo`]. For authors of limiters.
    pub fn undo_by(mut self, undo: impl FnOnce(Grant, bool)) {
        if !self.is_spent() {
            self.undo();
        } else if let Some(grant) = self.end() {
            undo(grant, self.flags.has(Flags::WHOLE));
        }
    }

    /// Returns the same permit without the borrow of its limiter, for work that outlives it.
    #[inline]
    pub fn into_owned(mut self) -> Permit<'static> {
        let permit = Permit {
            source: match std::mem::replace(&mut self.source, Origin::Unknown) {
                Origin::Borrowed(source) => Origin::Shared(source.to_shared()),
                Origin::Shared(source) => Origin::Shared(source),
                Origin::Unknown => Origin::Unknown,
            },
            cost: self.cost,
            flags: self.flags,
            era: self.era,
            priority: self.priority,
            timed: self.timed,
            taken: self.taken,
        };
        self.flags.end();
        permit
    }

    #[inline(never)]
    fn give_back_dropped(&self) {
        let how = (self.priority, self.timed);
        let source = self.source.get();
        source.give_back_parts(self.cost, self.taken, how, Outcome::Ignore);
    }

    /// [`finish`](Self::finish) by reference. Afterwards the permit has ended: it has a cost of 0 and cannot be undone,
    /// split or merged.
    #[inline]
    pub fn give_back(&mut self, outcome: Outcome) {
        let returns = self.gives_back() && self.cost > 0;
        let cost = std::mem::take(&mut self.cost);
        self.flags.end();
        if returns {
            let how = (self.priority, self.timed);
            let source = self.source.get();
            source.give_back_parts(cost, self.taken, how, outcome);
        }
    }
}

impl Drop for Permit<'_> {
    // In line, and small: of a permit of a rate nothing is left then, not even its fields.
    #[inline(always)]
    fn drop(&mut self) {
        // It cannot be used any more, so it need not be marked as ended.
        if self.gives_back() && self.cost > 0 {
            self.give_back_dropped();
        }
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("cost", &self.cost)
            .field("granted_at", &self.taken)
            .finish_non_exhaustive()
    }
}
