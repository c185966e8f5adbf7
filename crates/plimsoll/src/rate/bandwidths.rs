use super::token_bucket::{Filling, TokenBucket};
use crate::rule::Carry;
use crate::{InvalidLimit, Moment, Refusal, Rule, Unpacked};

/// Several token buckets that must all grant: 10 a second *and* 500 an hour.
///
/// # What it grants
///
/// A cost that all buckets grant. It is taken from all of them or from none, in one step, so no bucket is charged for
/// the refusal of another. The limit is the smallest burst.
///
/// # What it remembers
///
/// The fill level of each bucket: 32 bytes each, on the heap.
///
/// # When to choose it
///
/// To combine a short-term limit on bursts with a long-term limit on volume. [`All`](crate::All) combines limiters of
/// different kinds, each with its own queue and name.
///
/// ```
/// use plimsoll::{Bandwidths, Gate, Quota, TokenBucket};
///
/// let rule = Bandwidths::new([
///     TokenBucket::greedy(Quota::per_second(10)),
///     TokenBucket::greedy(Quota::per_hour(500)),
/// ]);
/// let gate = Gate::new(rule);
/// assert_eq!(gate.take_up_to(100).cost(), 10);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Bandwidths {
    buckets: Box<[Bandwidth]>,
}

#[derive(Clone, Debug)]
struct Bandwidth {
    id: Option<Box<str>>,
    bucket: TokenBucket,
}

/// The state of [`Bandwidths`]: the fill level of each bucket.
pub type Fillings = Box<[Filling]>;

impl Bandwidths {
    /// Combines `buckets`.
    ///
    /// The retry time of a refusal is that of the last bucket to have enough tokens. The reason does not depend on the
    /// bucket.
    ///
    /// ```
    /// use plimsoll::{Bandwidths, Gate, ManualClock, Quota, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let rule = Bandwidths::new([
    ///     TokenBucket::greedy(Quota::per_second(10)),
    ///     TokenBucket::greedy(Quota::per_minute(20)),
    /// ]);
    /// let gate = Gate::builder(rule).clock(time.clock()).build();
    /// gate.try_acquire(10)?;
    /// time.advance(Duration::from_secs(1));
    /// // The first bucket is full again; the second has 10 of its 20, and the refill of a second.
    /// gate.try_acquire(10)?;
    /// let denied = gate.try_acquire(3).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(8)));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `buckets` is empty.
    #[track_caller]
    pub fn new(buckets: impl IntoIterator<Item = TokenBucket>) -> Self {
        match Self::try_new(buckets) {
            Ok(bandwidths) => bandwidths,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Combines `buckets`.
    ///
    /// # Errors
    ///
    /// Returns an error if `buckets` is empty.
    pub fn try_new(buckets: impl IntoIterator<Item = TokenBucket>) -> Result<Self, InvalidLimit> {
        Self::try_named(buckets.into_iter().map(|bucket| (None, bucket)))
    }

    /// Combines `buckets`, each with an optional id. See [`try_named`](Self::try_named).
    ///
    /// # Panics
    ///
    /// Panics if `buckets` is empty, or an id is used twice.
    #[track_caller]
    pub fn named<'a>(buckets: impl IntoIterator<Item = (Option<&'a str>, TokenBucket)>) -> Self {
        match Self::try_named(buckets) {
            Ok(bandwidths) => bandwidths,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Combines `buckets`, each with an optional id. When the rule is [replaced](crate::Gate::replace), a bucket takes
    /// over the tokens of the bucket with the same id.
    ///
    /// ```
    /// use plimsoll::{Bandwidths, Carry, Gate, ManualClock, Quota, TokenBucket};
    ///
    /// let hourly = |units| TokenBucket::greedy(Quota::per_hour(units));
    /// let rule = Bandwidths::try_named([(Some("short"), hourly(10)), (Some("long"), hourly(100))])?;
    /// let gate = Gate::builder(rule).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(4)?;
    /// // The order does not matter: `short` continues with its tokens.
    /// let other = Bandwidths::try_named([(Some("long"), hourly(100)), (Some("short"), hourly(10))])?;
    /// gate.replace(other, Carry::AsIs);
    /// assert_eq!(gate.snapshot().available(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `buckets` is empty, or an id is used twice.
    pub fn try_named<'a>(
        buckets: impl IntoIterator<Item = (Option<&'a str>, TokenBucket)>,
    ) -> Result<Self, InvalidLimit> {
        let mut known: Vec<Bandwidth> = Vec::new();
        for (id, bucket) in buckets {
            let id: Option<Box<str>> = id.map(Into::into);
            if id.is_some() && known.iter().any(|other| other.id == id) {
                return Err(InvalidLimit::new(
                    "id",
                    id.unwrap_or_default(),
                    "each id once",
                ));
            }
            known.push(Bandwidth { id, bucket });
        }
        if known.is_empty() {
            return Err(InvalidLimit::new("limits", "empty", "at least 1 bucket"));
        }
        Ok(Self {
            buckets: known.into(),
        })
    }

    /// Returns the buckets that must all grant.
    pub fn buckets(&self) -> impl Iterator<Item = &TokenBucket> {
        self.rules()
    }

    pub(super) fn try_map<E>(
        &self,
        change: impl Fn(&TokenBucket) -> Result<TokenBucket, E>,
    ) -> Result<Self, E> {
        let each = self.buckets.iter().map(|bandwidth| {
            Ok(Bandwidth {
                id: bandwidth.id.clone(),
                bucket: change(&bandwidth.bucket)?,
            })
        });
        let buckets = each.collect::<Result<_, E>>()?;
        Ok(Self { buckets })
    }

    fn rules(&self) -> impl Iterator<Item = &TokenBucket> {
        self.buckets.iter().map(|bandwidth| &bandwidth.bucket)
    }

    /// Whether exactly one of them has no id.
    fn is_alone(&self) -> bool {
        let nameless = |bandwidth: &&Bandwidth| bandwidth.id.is_none();
        self.buckets.iter().filter(nameless).count() == 1
    }

    /// The bucket of another configuration that `bandwidth` continues: the one with the same id; a bucket without an id
    /// only if it is the only one in both.
    fn predecessor(&self, bandwidth: &Bandwidth, alone: bool) -> Option<usize> {
        let same = |known: &Bandwidth| known.id == bandwidth.id;
        let unique = self.buckets.iter().filter(|known| same(known)).count() == 1;
        let matched = unique && (bandwidth.id.is_some() || alone);
        matched
            .then(|| self.buckets.iter().position(same))
            .flatten()
    }
}

impl Rule for Bandwidths {
    type State = Fillings;
    type Fast = Unpacked;

    fn limit(&self) -> u64 {
        self.rules().map(TokenBucket::limit).min().unwrap_or(0)
    }

    fn began(&self) -> Moment {
        self.rules().next().map_or(Moment::ORIGIN, Rule::began)
    }

    fn knows(&self, state: &Fillings) -> bool {
        state.len() == self.buckets.len()
    }

    fn begin(&mut self, start: Moment) {
        for bandwidth in &mut self.buckets {
            bandwidth.bucket.begin(start);
        }
    }

    fn fresh(&self, now: Moment) -> Fillings {
        self.rules().map(|bucket| bucket.fresh(now)).collect()
    }

    fn fresh_key(&self, now: Moment) -> Fillings {
        self.rules().map(|bucket| bucket.fresh_key(now)).collect()
    }

    fn take(&self, fillings: &mut Fillings, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.peek(fillings, now, cost)?;
        for (bucket, filling) in self.rules().zip(fillings) {
            bucket.take(filling, now, cost)?;
        }
        Ok(())
    }

    fn peek(&self, fillings: &Fillings, now: Moment, cost: u64) -> Result<(), Refusal> {
        let each = self.rules().zip(fillings);
        let refusals = each.filter_map(|(bucket, filling)| bucket.peek(filling, now, cost).err());
        let latest = refusals.map(|refusal| refusal.ready_at).max();
        latest.map_or(Ok(()), |latest| Err(Refusal::until(latest)))
    }

    fn available(&self, fillings: &Fillings, now: Moment) -> u64 {
        let each = self
            .rules()
            .zip(fillings)
            .map(|(bucket, filling)| bucket.available(filling, now));
        each.min().unwrap_or(0)
    }

    fn in_use(&self, fillings: &Fillings, now: Moment) -> u64 {
        let each = self
            .rules()
            .zip(fillings)
            .map(|(bucket, filling)| bucket.in_use(filling, now));
        each.max().unwrap_or(0)
    }

    fn refund(&self, fillings: &mut Fillings, now: Moment, taken: Moment, cost: u64) {
        for (bucket, filling) in self.rules().zip(fillings) {
            bucket.refund(filling, now, taken, cost);
        }
    }

    fn full_at(&self, fillings: &Fillings, now: Moment) -> Option<Moment> {
        let each = self
            .rules()
            .zip(fillings)
            .filter_map(|(bucket, filling)| bucket.full_at(filling, now));
        each.max()
    }

    fn evictable_from(&self, fillings: &Fillings, now: Moment) -> Option<Moment> {
        let each = self
            .rules()
            .zip(fillings)
            .filter_map(|(bucket, filling)| bucket.evictable_from(filling, now));
        each.max()
    }

    fn book(&self, fillings: &Fillings, now: Moment, cost: u64) -> Option<(Fillings, Moment)> {
        let mut latest = now;
        let each = self.rules().zip(fillings).map(|(bucket, filling)| {
            let (filling, ready_at) = bucket.book(filling, now, cost)?;
            latest = latest.max(ready_at);
            Some(filling)
        });
        let fillings = each.collect::<Option<_>>()?;
        Some((fillings, latest))
    }

    fn has_one_limit(&self) -> bool {
        false
    }

    fn adopt(&self, old: &Self, fillings: &Fillings, now: Moment, carry: Carry) -> Fillings {
        let alone = self.is_alone();
        let each = self
            .buckets
            .iter()
            .map(|bandwidth| match old.predecessor(bandwidth, alone) {
                Some(index) => {
                    let bucket = &old.buckets[index].bucket;
                    bandwidth.bucket.adopt(bucket, &fillings[index], now, carry)
                }
                None => bandwidth.bucket.fresh(now),
            });
        each.collect()
    }
}
