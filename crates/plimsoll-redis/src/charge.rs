//! Charging after the fact, undoing, and borrowing ahead.

use plimsoll::{Denied, Moment, Standing};

use crate::answer::Decided;
use crate::rule::{self, moment};
use crate::{RedisLimiter, StoreError};

/// A batch that was taken beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borrowed {
    pub(crate) amount: u64,
    /// When, by the clock of the store.
    pub(crate) taken: Moment,
    /// What was left in the store.
    pub(crate) standing: Standing,
}

impl RedisLimiter {
    /// Takes for `key` after the fact: for work whose cost is known only when it is done. Nobody is refused.
    ///
    /// A bucket goes into debt, which those who come later wait for. Other rates are used up, and what is above that is not
    /// charged. What is held by leases cannot be charged.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn charge(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<(), StoreError> {
        if self.holds_leases() || cost == 0 {
            return Ok(());
        }
        let key = self.key(key.as_ref());
        self.ask("charge", key, cost, String::new()).await?;
        Ok(())
    }

    /// As if what was taken at a moment of the store's clock had not been taken, as far as it still counts.
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

    /// Takes at least `least`, and up to `most` if that leaves as much for others.
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
