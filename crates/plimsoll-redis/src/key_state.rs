//! Reads and changes the state of a key.

use crate::{RedisLimiter, StoreError};

/// The state of a key, read by [`RedisLimiter::look`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// The amount that could be granted now.
    pub available: u64,
    /// The amount that was granted and is not yet returned or refilled.
    pub in_use: u64,
}

impl RedisLimiter {
    /// Makes `amount` more permits available to `key`, at most up to the limit. Has no effect on leases, which only
    /// their holders release.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn add(&self, key: impl AsRef<[u8]>, amount: u64) -> Result<(), StoreError> {
        let key = self.key(key.as_ref());
        self.ask("add", key, amount, String::new()).await?;
        Ok(())
    }

    /// Creates the state of a key that was never used, so that its initial amount refills from now instead of from its
    /// first use. This matters for token buckets that do not start full.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn begin(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        let key = self.key(key.as_ref());
        self.ask("begin", key, 0, String::new()).await?;
        Ok(())
    }

    /// Deletes the state of `key`. Leases that are still held can no longer be released.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn forget(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.store().delete(&self.key(key.as_ref())).await
    }

    /// Reads the state of `key`.
    ///
    /// ```no_run
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    ///
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(100))?;
    /// let state = api.look("customer 42").await?;
    /// println!("{} in use, {} available", state.in_use, state.available);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn look(&self, key: impl AsRef<[u8]>) -> Result<Seen, StoreError> {
        let key = self.key(key.as_ref());
        let mut answer = self.ask("look", key, 0, String::new()).await?;
        Ok(Seen {
            available: answer.number()?,
            in_use: answer.number()?,
        })
    }
}
