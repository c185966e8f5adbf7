//! One rule for all kinds of rates, so that a limiter can change its kind in place.
//!
//! The type of a gate never changes. If it contained the algorithm, another `kind` in a file would need another gate,
//! and the waiters, reservations and usage of the old one would have to be moved. With this rule the gate stays, and
//! only its rule and its state are replaced, under its lock.

use std::time::Duration;

use plimsoll::{
    Bandwidths, Carry, FixedWindow, Moment, Packed, PackedTake, PenaltyBucket, Refresh, Refusal,
    Rule, SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};
use plimsoll_kinds::Replenishes;
use serde::{Deserialize, Serialize};

/// A rule that [`AnyRate`] can hold: all rates of this crate.
pub trait RateRule: Replenishes + Clone {
    /// Returns the rule as an [`AnyRate`].
    fn into_any(self) -> AnyRate;

    /// Returns the rule inside `rule`, if it has this type.
    fn from_any(rule: AnyRate) -> Option<Self>;
}

/// Declares [`AnyRate`] and its state, and forwards to the rule inside.
///
/// Every method of [`Rule`] that a rate can override is forwarded: a default here would silently replace that of the rule
/// inside. `tests/forwarding.rs` compares the methods of the trait with those that are forwarded.
macro_rules! any_rate {
    ($($name:ident),+ $(,)?) => {
        /// The rule of a rate of any kind, so that a gate can change the kind of its rate while it has waiters.
        ///
        /// ```
        /// use plimsoll::{Carry, FixedWindow, Gate, Quota, TokenBucket};
        /// use plimsoll_spec::RateRule;
        ///
        /// let gate = Gate::new(TokenBucket::greedy(Quota::per_second(10)).into_any());
        /// assert!(gate.try_acquire(4).is_ok());
        /// // The usage is carried over to the window.
        /// gate.replace(FixedWindow::new(Quota::per_minute(10)).into_any(), Carry::Used);
        /// assert!(gate.try_acquire(7).is_err() && gate.try_acquire(6).is_ok());
        /// ```
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum AnyRate {
            $(#[doc = concat!("[`", stringify!($name), "`](plimsoll::", stringify!($name), ").")] $name($name)),+
        }

        /// The state of an [`AnyRate`]. It serializes with the kind of its rate, for snapshots.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum AnyState {
            $(#[doc = concat!("The state of [`", stringify!($name), "`](plimsoll::", stringify!($name), ").")] $name(<$name as Rule>::State)),+
        }

        $(impl RateRule for $name {
            fn into_any(self) -> AnyRate {
                AnyRate::$name(self)
            }

            fn from_any(rule: AnyRate) -> Option<Self> {
                match rule {
                    AnyRate::$name(rule) => Some(rule),
                    _ => None,
                }
            }
        })+

        /// Calls the rule inside.
        macro_rules! rule {
            ($any:expr, $inside:ident => $call:expr) => {
                match $any {
                    $(AnyRate::$name($inside) => $call),+
                }
            };
        }

        /// Makes a state of the rule inside.
        macro_rules! made {
            ($any:expr, $inside:ident => $call:expr) => {
                match $any {
                    $(AnyRate::$name($inside) => AnyState::$name($call)),+
                }
            };
        }

        /// Calls the rule inside with its state. The state belongs to another rule only if a gate calls its first rule with the
        /// state of the rule that replaced it.
        macro_rules! both {
            (($any:expr, $state:expr), ($inside:ident, $its:ident) => $call:expr, else $other:expr) => {
                match ($any, $state) {
                    $((AnyRate::$name($inside), AnyState::$name($its)) => $call,)+
                    _ => $other,
                }
            };
        }

        /// Books with the rule inside.
        macro_rules! booked {
            (($any:expr, $state:expr), ($inside:ident, $its:ident) => $call:expr) => {
                match ($any, $state) {
                    $((AnyRate::$name($inside), AnyState::$name($its)) => {
                        $call.map(|(state, ready_at)| (AnyState::$name(state), ready_at))
                    })+
                    _ => None,
                }
            };
        }

        impl AnyRate {
            /// The state that takes over from `old`: converted by the rule if `old` has the same kind, otherwise with the usage of
            /// `old` charged now.
            fn take_over(&self, old: &Self, state: &AnyState, now: Moment, carry: Carry) -> AnyState {
                match (self, old, state) {
                    $((Self::$name(new), Self::$name(old), AnyState::$name(state)) => {
                        AnyState::$name(new.adopt(old, state, now, carry))
                    })+
                    _ => {
                        let mut fresh = self.fresh(now);
                        let used = match carry {
                            Carry::Reset => 0,
                            _ => old.in_use(state, now),
                        };
                        let used = used.min(self.limit());
                        let more = used.saturating_sub(self.in_use(&fresh, now));
                        if more > 0 {
                            let _ = self.take(&mut fresh, now, more);
                        }
                        fresh
                    }
                }
            }
        }
    };
}

any_rate!(
    Bandwidths,
    FixedWindow,
    PenaltyBucket,
    Refresh,
    SlidingCounter,
    SlidingLog,
    SlidingWindow,
    Smooth,
    TokenBucket,
);

/// Forwards methods of [`Rule`] to the rule inside, with its state if they take one. The value after `=` is the result for a
/// state of another rule.
macro_rules! forward {
    ($(fn $name:ident($this:ident $(, $arg:ident: $type:ty)*) -> $out:ty;)+) => {$(
        #[inline]
        fn $name(&$this $(, $arg: $type)*) -> $out {
            rule!($this, rule => rule.$name($($arg),*))
        }
    )+};
    ($(fn $name:ident($this:ident, &$state:ident $(, $arg:ident: $type:ty)*) -> $out:ty = $other:expr;)+) => {$(
        #[inline]
        fn $name(&$this, $state: &AnyState $(, $arg: $type)*) -> $out {
            both!(($this, $state), (rule, inside) => rule.$name(inside $(, $arg)*), else $other)
        }
    )+};
    ($(fn $name:ident($this:ident, &mut $state:ident $(, $arg:ident: $type:ty)*) -> $out:ty = $other:expr;)+) => {$(
        #[inline]
        fn $name(&$this, $state: &mut AnyState $(, $arg: $type)*) -> $out {
            both!(($this, $state), (rule, inside) => rule.$name(inside $(, $arg)*), else $other)
        }
    )+};
}

impl Replenishes for AnyRate {}

impl Rule for AnyRate {
    type State = AnyState;
    type Fast = Self;

    // True for some rules. In the others the method does nothing.
    const REMEMBERS_REFUSALS: bool = true;
    // False for some rules. A decision over several limits then estimates before it takes.
    const EXACT_REFUNDS: bool = false;

    forward! {
        fn limit(self) -> u64;
        fn window(self, now: Moment) -> Option<Duration>;
        fn has_one_limit(self) -> bool;
        fn refunds_exactly(self) -> bool;
        fn longest_wait(self) -> Option<Duration>;
        fn began(self) -> Moment;
    }

    forward! {
        fn available(self, &state, now: Moment) -> u64 = 0;
        fn remaining(self, &state, now: Moment) -> u64 = 0;
        fn in_use(self, &state, now: Moment) -> u64 = 0;
        fn peek(self, &state, now: Moment, cost: u64) -> Result<(), Refusal> = Err(Refusal::until_returned());
        fn full_at(self, &state, now: Moment) -> Option<Moment> = None;
        fn evictable_from(self, &state, now: Moment) -> Option<Moment> = None;
        fn recorded_at(self, &state, now: Moment) -> Moment = now;
        fn overflows_from(self, &state, now: Moment) -> Moment = now;
        fn knows(self, &state) -> bool = false;
    }

    forward! {
        fn take(self, &mut state, now: Moment, cost: u64) -> Result<(), Refusal> = Err(Refusal::until_returned());
        fn refused(self, &mut state, now: Moment, cost: u64, refusal: Refusal) -> Refusal = refusal;
        fn refund(self, &mut state, now: Moment, taken: Moment, cost: u64) -> () = ();
        fn charge(self, &mut state, now: Moment, cost: u64) -> () = ();
        fn occupy(self, &mut state, now: Moment, cost: u64) -> () = ();
        fn settle(self, &mut state, now: Moment, taken: Moment, costs: (u64, u64)) -> () = ();
        fn add(self, &mut state, now: Moment, amount: u64) -> () = ();
    }

    fn begin(&mut self, start: Moment) {
        rule!(self, rule => rule.begin(start));
    }

    fn fresh(&self, now: Moment) -> AnyState {
        made!(self, rule => rule.fresh(now))
    }

    fn fresh_key(&self, now: Moment) -> AnyState {
        made!(self, rule => rule.fresh_key(now))
    }

    fn book(&self, state: &AnyState, now: Moment, cost: u64) -> Option<(AnyState, Moment)> {
        booked!((self, state), (rule, state) => rule.book(state, now, cost))
    }

    /// The previous rule may have had another kind, in which case only the sum of its usage was carried over.
    fn keeps_grants(&self, _carry: Carry) -> bool {
        false
    }

    fn adopt(&self, old: &Self, state: &AnyState, now: Moment, carry: Carry) -> AnyState {
        self.take_over(old, state, now, carry)
    }
}

impl Packed<Self> for AnyRate {
    #[inline]
    fn pack(any: &Self, state: &AnyState, now: Moment) -> Option<u64> {
        both!((any, state), (rule, state) => pack(rule, state, now), else None)
    }

    #[inline]
    fn unpack(any: &Self, word: u64, now: Moment) -> AnyState {
        made!(any, rule => unpack(rule, word, now))
    }

    #[inline]
    fn take_packed(any: &Self, word: u64, now: Moment, cost: u64) -> PackedTake {
        // The most common kinds are inlined here, and the others are called.
        match any {
            Self::TokenBucket(bucket) => take_packed(bucket, word, now, cost),
            other => take_other(other, word, now, cost),
        }
    }

    fn epoch_bits(any: &Self) -> u32 {
        rule!(any, rule => epoch_bits(rule))
    }
}

#[inline(never)]
fn take_other(any: &AnyRate, word: u64, now: Moment, cost: u64) -> PackedTake {
    rule!(any, rule => take_packed(rule, word, now, cost))
}

// The type of a rule determines its packed form. A type parameter makes it easy to name.

#[inline]
fn pack<R: Rule>(rule: &R, state: &R::State, now: Moment) -> Option<u64> {
    R::Fast::pack(rule, state, now)
}

#[inline]
fn unpack<R: Rule>(rule: &R, word: u64, now: Moment) -> R::State {
    R::Fast::unpack(rule, word, now)
}

#[inline]
fn take_packed<R: Rule>(rule: &R, word: u64, now: Moment, cost: u64) -> PackedTake {
    R::Fast::take_packed(rule, word, now, cost)
}

#[inline]
fn epoch_bits<R: Rule>(rule: &R) -> u32 {
    R::Fast::epoch_bits(rule)
}
