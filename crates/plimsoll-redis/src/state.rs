//! Looking at the state of a key, and changing it by hand.

use crate::{RedisLimiter, StoreError};

/// The state of a key at one moment. See [`RedisLimiter::look`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// What could be granted.
    pub available: u64,
    /// What was granted and is not yet returned or refilled.
    pub in_use: u64,
}

impl RedisLimiter {
    /// Makes `amount` more available to `key`, at most up to the limit. What is held by leases only they give back.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn add(&self, key: impl AsRef<[u8]>, amount: u64) -> Result<(), StoreError> {
        let key = self.key(key.as_ref());
        self.ask("add", key, amount, String::new()).await?;
        Ok(())
    }

    /// Writes down a key that nobody has used, so that what it begins with counts from now and not from its
    /// first use. It makes a difference for buckets that do not begin full.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn begin(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        let key = self.key(key.as_ref());
        self.ask("begin", key, 0, String::new()).await?;
        Ok(())
    }

    /// Forgets what `key` has used. Leases that are out cannot give anything back any more.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn forget(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.store().delete(&self.key(key.as_ref())).await
    }

    /// What `key` looks like now.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    pub async fn look(&self, key: impl AsRef<[u8]>) -> Result<Seen, StoreError> {
        let key = self.key(key.as_ref());
        let mut answer = self.ask("look", key, 0, String::new()).await?;
        Ok(Seen {
            available: answer.number()?,
            in_use: answer.number()?,
        })
    }
}
