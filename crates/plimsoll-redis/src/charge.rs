//! Charges for finished work, undoing of grants, and borrowing of batches.

use plimsoll::{Denied, Moment, Standing};

use crate::answer::Decided;
use crate::rule::{self, moment};
use crate::{RedisLimiter, StoreError};

/// A batch that was borrowed from the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borrowed {
    pub(crate) amount: u64,
    /// The moment at which it was taken, on the clock of the store.
    pub(crate) taken: Moment,
    /// The standing in the store after it was taken.
    pub(crate) standing: Standing,
}

impl RedisLimiter {
    /// Charges `cost` to `key` after the fact, for work with a cost that is known only when the work is done. A charge
    /// is never refused.
    ///
    /// A token bucket goes into debt, and later demands are refused until it has refilled. Other rates are charged at most up to their
    /// limit. A charge has no effect on a limit with leases.
    ///
    /// ```no_run
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    ///
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let tokens = store.limiter("tokens", TokenBucket::per_second(200))?;
    /// // Admits the request if any tokens are available, and charges what it used afterwards.
    /// if tokens.decide("customer 42", 0).await?.is_granted() {
    ///     let used = 812;
    ///     tokens.charge("customer 42", used).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn charge(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<(), StoreError> {
        if self.holds_leases() || cost == 0 {
            return Ok(());
        }
        let key = self.key(key.as_ref());
        self.ask("charge", key, cost, String::new()).await?;
        Ok(())
    }

    /// Undoes a grant that was made at `taken` on the clock of the store, as far as it still counts.
    pub(crate) async fn put_back(
        &self,
        key: &[u8],
        amount: u64,
        taken: Moment,
    ) -> Result<(), StoreError> {
        if self.holds_leases() || amount == 0 {
            return Ok(());
        }
        let key = self.key(key);
        self.ask("undo", key, amount, moment(taken)).await?;
        Ok(())
    }

    /// Takes at least `least`, and up to `most` if the same amount remains for others.
    pub(crate) async fn borrow(
        &self,
        key: &[u8],
        least: u64,
        most: u64,
    ) -> Result<Result<Borrowed, Denied>, StoreError> {
        let key = self.key(key);
        let mut answer = self
            .ask("borrow", key, least, rule::amount(most).to_string())
            .await?;
        let limit = self.limit();
        Ok(match answer.decided(limit)? {
            Decided::Granted(standing, taken) => Ok(Borrowed {
                standing,
                taken,
                amount: answer.number()?,
            }),
            Decided::Refused(refused) => Err(refused.denied(limit, self.name())),
        })
    }
}
