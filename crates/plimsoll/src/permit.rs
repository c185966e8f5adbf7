use std::fmt;
use std::sync::Arc;

use crate::demand::Priority;
use crate::grant::{Era, Grant, Nobody, Outcome, Shareable, Source};
use crate::lease::{LeaseState, Lost};
use crate::moment::Moment;
use crate::standing::Standing;

/// The right to do something, until it is dropped.
///
/// A permit of a limit that is given back ([`Concurrency`](crate::Concurrency)) gives back exactly what
/// it took, once, when it is dropped. A permit of a rate gives nothing back: time does.
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
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct Permit<'a> {
    source: Origin<'a>,
    cost: u32,
    flags: Flags,
    era: Era,
    priority: Priority,
    timed: bool,
    taken: Moment,
}

/// What can still be done with a permit, in one byte.
///
/// Every way out of a permit asks and clears [`ALIVE`](Self::ALIVE), so that it ends once.
#[derive(Clone, Copy)]
struct Flags(u8);

impl Flags {
    /// Neither given back, nor undone, nor forgotten.
    const ALIVE: u8 = 1;
    /// While it is alive, dropping it gives it back. Cleared together with `ALIVE`.
    const RETURNS: u8 = 2;
    /// It is what was granted, and not split off from it.
    const WHOLE: u8 = 4;

    const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Ends it; says whether it was alive.
    fn end(&mut self) -> bool {
        let alive = self.has(Self::ALIVE);
        self.0 &= Self::WHOLE;
        alive
    }

    const fn of_part(self) -> Self {
        Self(self.0 & !Self::WHOLE)
    }
}

enum Origin<'a> {
    Borrowed(&'a dyn Shareable),
    Shared(Arc<dyn Source>),
    /// Only its limiter, asked for it, can take it back.
    Unknown,
}

impl Origin<'_> {
    fn get(&self) -> &dyn Source {
        match self {
            Self::Borrowed(source) => *source,
            Self::Shared(source) => &**source,
            Self::Unknown => &Nobody,
        }
    }

    /// Whether both are known to be the same.
    fn is_same(&self, other: &Self) -> bool {
        let known = !matches!(self, Self::Unknown) && !matches!(other, Self::Unknown);
        known && std::ptr::addr_eq(self.get(), other.get())
    }
}

impl<'a> Permit<'a> {
    /// A permit of a limiter of your own that borrows its source. With `returns`, dropping it calls
    /// [`Source::give_back`].
    #[inline]
    pub fn new(source: &'a dyn Shareable, grant: Grant, returns: bool) -> Self {
        Self::from_origin(Origin::Borrowed(source), grant, returns)
    }

    /// A permit of a limiter of your own that holds its source. With `returns`, dropping it calls
    /// [`Source::give_back`].
    #[inline]
    pub fn shared(source: Arc<dyn Source>, grant: Grant, returns: bool) -> Self {
        Self::from_origin(Origin::Shared(source), grant, returns)
    }

    /// A permit that does not know its limiter: it gives nothing back, and undoing it by itself does nothing. Only
    /// [`undo_by`](Self::undo_by) reaches the limiter.
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

    /// The same permit, granted after so many resets in its instant.
    pub(crate) fn in_era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// After how many resets in its instant it was granted.
    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// Whether it does not know its limiter, as a permit of a single key does not.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        matches!(self.source, Origin::Unknown)
    }

    /// Whether dropping it gives anything back.
    #[inline]
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.flags.has(Flags::RETURNS)
    }

    /// What this is a permit for.
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

    /// How many permits this is: 0 once it has been given back.
    #[must_use]
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// The class of the work it was granted to.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// When it was granted.
    ///
    /// A limit that does not depend on time ([`Concurrency`](crate::Concurrency)) does not look at the clock to grant
    /// at once. For such a permit it is the moment at which this is called.
    #[must_use]
    pub fn granted_at(&self) -> Moment {
        if self.grant().is_dated() {
            return self.taken;
        }
        self.source.get().now().unwrap_or(self.taken)
    }

    /// What was left when it was granted, if that came with it.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.source.get().standing()
    }

    /// The leases behind it, if it is held elsewhere and can be lost; none of a limit in memory.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseState> {
        let mut leases = Vec::new();
        let source = self.source.get();
        source.leases(&mut |lease| leases.push(lease.clone()));
        leases
    }

    /// Whether it is lost: a lease behind it has run out, and what it held may be another's by now.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let mut lost = false;
        self.source
            .get()
            .leases(&mut |lease| lost |= lease.is_lost());
        lost
    }

    /// The largest [fencing number](LeaseState::fence) of the leases behind it, if there are any.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        let mut fence = None;
        self.source
            .get()
            .leases(&mut |lease| fence = fence.max(Some(lease.fence())));
        fence
    }

    /// Resolves when it is lost; never, if it cannot be. It does not keep the permit.
    ///
    /// ```
    /// # use plimsoll::Permit;
    /// # async fn work() {}
    /// # async fn select<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) {}
    /// # async fn doc(permit: Permit<'_>) {
    /// // Stop working when somebody else may.
    /// select(work(), permit.lost()).await;
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        Lost::of(self.leases())
    }

    /// Makes a permit of its own of a part of this one. `None` if this one is smaller than that.
    pub fn split(&mut self, cost: u32) -> Option<Self> {
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

    /// Makes one permit of two of the same limiter.
    ///
    /// A permit has one moment, the older one of the two. Undoing the sum of permits that a rate granted at different
    /// moments may so make less available than undoing each of them would, and never more.
    ///
    /// # Errors
    ///
    /// Hands `other` back, and changes nothing, if the two are not known to be of the same limiter, as permits of single
    /// keys are not; if one of them has been given back; or if no permit could be so large.
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

    /// Ends it here: whatever is done with it from now on does nothing. Returns what it was a permit for, unless that
    /// had been done before.
    fn end(&mut self) -> Option<Grant> {
        let grant = self.grant();
        self.cost = 0;
        self.flags.end().then_some(grant)
    }

    /// Makes it a permit for `cost`, for a limit that is not given back to. Returns what it was a permit for before, unless
    /// it has ended.
    pub(crate) fn settle(&mut self, cost: u32) -> Option<(Grant, Era)> {
        let before = (self.grant(), self.era);
        let alive = self.flags.has(Flags::ALIVE);
        if alive {
            self.cost = cost;
        }
        alive.then_some(before)
    }

    /// Never gives the permit back.
    pub fn forget(mut self) {
        self.end();
    }

    /// Gives the permit back and says how the work went.
    #[inline]
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// As if it had never been granted, even by a rate: for work that turned out not to be needed.
    ///
    /// Never makes more available than there would be without it.
    pub fn undo(mut self) {
        if let Some(grant) = self.end() {
            let whole = self.flags.has(Flags::WHOLE);
            self.source.get().undo_of(grant, whole, self.era);
        }
    }

    /// [`undo`](Self::undo), by the limiter that granted it if the permit does not know it. For those who write a
    /// limiter of their own; `undo` is told what [`Source::undo`] is.
    pub fn undo_by(mut self, undo: impl FnOnce(Grant, bool)) {
        if !self.is_spent() {
            self.undo();
        } else if let Some(grant) = self.end() {
            undo(grant, self.flags.has(Flags::WHOLE));
        }
    }

    /// The same permit, no longer tied to the borrow of its limiter.
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
        self.source.get().give_back(self.grant(), Outcome::Ignore);
    }

    /// [`finish`](Self::finish) where it is. What is left of it permits nothing any more, and nothing more can be done
    /// with it: it cannot be undone, and nothing can be split off it or merged with it.
    #[inline]
    pub fn give_back(&mut self, outcome: Outcome) {
        let returns = self.gives_back() && self.cost > 0;
        let grant = self.grant();
        self.cost = 0;
        self.flags.end();
        if returns {
            self.source.get().give_back(grant, outcome);
        }
    }
}

impl Drop for Permit<'_> {
    // In line, and small: of a permit of a rate nothing is left then, not even its fields.
    #[inline(always)]
    fn drop(&mut self) {
        // Nobody looks at it any more, so it need not be ended.
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
