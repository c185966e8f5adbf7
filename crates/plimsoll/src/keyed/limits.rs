//! Changing the limits of keys while they are in use.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Keyed;
use super::shared::Shard;
use super::table::Table;
use crate::stamp::Stamp;
use crate::{Carry, Concurrency, Denied, Gate, InvalidLimit, Moment, Queue, Rule};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Sets a limit for `key` alone, which stays until the key is [forgotten](Self::forget) by name. `carry` sets how
    /// usage is carried over; a key without usage starts as the limit starts.
    ///
    /// The limit is stored separately from the state of the key. It does not count towards the number of states, and
    /// stays when the state is evicted because it equals that of a new key. At most
    /// [`max_keys`](super::KeyedBuilder::max_keys) keys can have a limit of their own.
    ///
    /// ```
    /// use plimsoll::{Carry, Keyed, Quota, TokenBucket};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::greedy(Quota::per_hour(10)));
    /// per_tenant.set_limit("gold", TokenBucket::greedy(Quota::per_hour(100)), Carry::AsIs)?;
    /// assert!(per_tenant.try_acquire("gold", 100).is_ok());
    /// assert!(per_tenant.try_acquire("red", 11).is_err());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if too many keys have a limit of their own.
    pub fn set_limit<Q>(&self, key: &Q, mut rule: R, carry: Carry) -> Result<(), Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        rule.begin(now);
        let rule = Arc::new(rule);
        let owned = K::from(key.to_owned());
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        if !table.has_own(key) && !shared.claim_own() {
            return Err(shared.keys_full(table.rule_of(key)));
        }
        shared
            .exact
            .fetch_and(rule.refunds_exactly(), Ordering::Relaxed);
        table.remember_own(owned, Arc::clone(&rule));
        let gate = table.set_own(hash, key, &rule, now, carry);
        shared.note(&mut table, hash, key, now);
        drop(table);
        // Not behind the lock of the shard: a larger limit wakes tasks.
        if let Some(gate) = gate {
            gate.follow(|gate, rule, start| {
                gate.replace_rule(rule.clone(), now, carry, start);
            });
        }
        Ok(())
    }

    /// Removes the state of `key`, and its own limit if it has one. Its waiters are still served. Returns whether the
    /// key was known.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(1)));
    /// per_tenant.try_acquire("red", 1)?;
    /// assert!(per_tenant.forget("red"));
    /// assert!(per_tenant.try_acquire("red", 1).is_ok());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn forget<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, shared.gates.clock.precise_now());
        let had_own = table.forget_own(key);
        let state = table.remove(hash, key, &shared.hasher, &shared.gates.clock);
        drop(table);
        if had_own {
            shared.own.fetch_sub(1, Ordering::Relaxed);
        }
        if state.is_some() {
            shared.len.fetch_sub(1, Ordering::Relaxed);
        }
        had_own || state.is_some()
    }

    /// Replaces the limit of all keys that have none of their own, shard by shard. `carry` sets how usage is carried
    /// over.
    ///
    /// ```
    /// use plimsoll::{Carry, FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(10)));
    /// per_tenant.try_acquire("red", 10)?;
    /// per_tenant.replace(FixedWindow::new(Quota::per_hour(15)), Carry::AsIs);
    /// assert_eq!(per_tenant.take_up_to("red", 10).cost(), 5);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn replace(&self, rule: R, carry: Carry) {
        const {
            assert!(
                !R::RETURNS_PERMITS,
                "a limit whose permits are returned is resized, not replaced"
            )
        };
        self.change(rule, carry, |gate, rule, now, start| {
            gate.replace_rule(rule.clone(), now, carry, start);
        });
    }

    /// Changes the rule of all keys that have none of their own.
    fn change(
        &self,
        mut rule: R,
        carry: Carry,
        change_gate: impl Fn(&Gate<R>, &R, Moment, Option<Stamp>),
    ) {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let late = shared.gates.clock.late();
        rule.begin(now);
        let rule = Arc::new(rule);
        let (mut gates, mut detached) = (Vec::new(), Vec::new());
        {
            // One change at a time, or shards would end up with different rules.
            let _changing = shared.changing.lock();
            let exact = rule.refunds_exactly();
            // While some shards still have the other rule, and where keys have rules of their own, both count.
            shared.exact.fetch_and(exact, Ordering::Relaxed);
            for shard in 0..shared.shards.len() {
                let mut table = shared.locked(shard, now);
                gates.extend(table.replace(&rule, now, carry, late));
                detached.extend(table.detached());
            }
            if shared.own.load(Ordering::Relaxed) == 0 {
                shared.exact.store(exact, Ordering::Relaxed);
            }
        }
        // Gates are changed when all locks are free: that may wake tasks.
        for gate in gates {
            gate.follow(|gate, rule, start| change_gate(gate, rule, now, start));
        }
        for gate in detached {
            change_gate(&gate, &rule, now, None);
        }
        shared
            .evictable_from
            .fetch_min(now.as_nanos(), Ordering::Relaxed);
    }

    /// Replaces or removes the queue; each key has a queue of its own. Current waiters stay, and are served in the new
    /// order.
    ///
    /// ```
    /// use plimsoll::{Keyed, Queue, TokenBucket};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(2));
    /// per_tenant.set_queue(Some(Queue::fifo(10)));
    /// ```
    pub fn set_queue(&self, queue: Option<Queue>) {
        let shared = &*self.shared;
        // Gates that are created from now on have it; earlier ones are found below.
        shared.gates.set_queue(queue);
        for shard in &shared.shards {
            // Gates are changed when the lock of the shard is free: that may wake tasks.
            shard.each_gate(|_| {}, |gate| gate.set_queue(queue));
        }
    }

    /// Sets the maximum number of keys. Known keys stay known, so there may be more of them until enough can be
    /// evicted.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota, Reason};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(5)));
    /// per_tenant.try_acquire("red", 1)?;
    /// per_tenant.set_max_keys(1)?;
    /// assert_eq!(per_tenant.try_acquire("blue", 1).unwrap_err().reason(), Reason::KeysFull);
    /// assert!(per_tenant.try_acquire("red", 1).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `max_keys` is 0.
    pub fn set_max_keys(&self, max_keys: usize) -> Result<(), InvalidLimit> {
        if max_keys == 0 {
            return Err(InvalidLimit::new("max_keys", max_keys, "at least 1"));
        }
        self.shared.max_keys.store(max_keys, Ordering::Relaxed);
        Ok(())
    }

    /// Closes the limit, which refuses all waiters and all later demands of every key. Permits in use can still be
    /// returned.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed, Reason};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(Concurrency::new(2));
    /// let permit = per_tenant.try_acquire("red", 1)?;
    /// per_tenant.close();
    /// assert_eq!(per_tenant.try_acquire("red", 1).unwrap_err().reason(), Reason::Closed);
    /// assert_eq!(per_tenant.try_acquire("blue", 1).unwrap_err().reason(), Reason::Closed);
    /// drop(permit);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn close(&self) {
        for shard in &self.shared.shards {
            // Gates are closed when the lock of the shard is free: that wakes tasks.
            shard.each_gate(Table::close, Gate::close);
        }
    }

    /// See [`Gate::pause`].
    #[doc(hidden)]
    pub fn pause(&self) {
        for shard in &self.shared.shards {
            shard.each_gate(Table::pause, Gate::pause);
        }
    }

    /// See [`Gate::resume`].
    #[doc(hidden)]
    pub fn resume(&self) {
        for shard in &self.shared.shards {
            shard.each_gate(Table::resume, Gate::resume);
        }
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Shard<K, R> {
    /// Changes the table, and then each gate, also those of keys that were forgotten.
    fn each_gate(&self, change: impl FnOnce(&mut Table<K, R>), each: impl Fn(&Gate<R>)) {
        let (gates, detached) = {
            let mut table = self.lock();
            change(&mut table);
            (table.gates(), table.detached())
        };
        gates.iter().for_each(|gate| each(gate));
        detached.iter().for_each(each);
    }
}

impl<K: Hash + Eq, S: BuildHasher> Keyed<K, Concurrency, S> {
    /// Sets the limit of all keys that have none of their own. Permits in use stay in use. A larger limit serves
    /// waiters; a smaller one takes effect as permits are returned.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed};
    ///
    /// let per_user: Keyed<String, _> = Keyed::new(Concurrency::new(1));
    /// let _first = per_user.try_acquire("ann", 1)?;
    /// assert!(per_user.try_acquire("ann", 1).is_err());
    /// per_user.resize(2)?;
    /// assert!(per_user.try_acquire("ann", 1).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `limit` is 0.
    pub fn resize(&self, limit: u64) -> Result<(), InvalidLimit> {
        let rule = Concurrency::try_new(limit)?;
        self.change(rule, Carry::AsIs, |gate, rule, _, _| {
            // The limit was checked above.
            let _ = gate.resize(rule.limit());
        });
        Ok(())
    }
}
