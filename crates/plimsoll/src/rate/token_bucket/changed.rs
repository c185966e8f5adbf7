//! A bucket that takes over from another.

use super::super::arithmetic::mul_div;
use super::{Filling, TokenBucket};
use crate::{Carry, Moment, Rule};

impl TokenBucket {
    /// The filling with which this bucket takes over from `old`. Each has its own supply scale; a fraction of a token
    /// that the new scale cannot express is lost, never gained.
    pub(super) fn adopted(
        &self,
        old: &Self,
        filling: &Filling,
        now: Moment,
        carry: Carry,
    ) -> Filling {
        let missing = filling.full.saturating_sub(old.supply(filling.origin, now));
        let (token, old_token) = (u128::from(self.token()), u128::from(old.token()));
        let missing = match carry {
            Carry::Reset => return self.fresh(now),
            Carry::Used => rounded_up(missing, token, old_token),
            Carry::AsIs => self.lacking(old, missing, (token, old_token)),
            Carry::Proportional => self.lacking(old, missing, (self.capacity(), old.capacity())),
        };
        let fresh = self.fresh(now);
        Filling {
            full: self.supply(fresh.origin, now).saturating_add(missing),
            ..fresh
        }
    }

    /// The tokens that this bucket lacks if it has the tokens or the debt of `old`, times `new` over `former`.
    fn lacking(&self, old: &Self, missing: u128, (new, former): (u128, u128)) -> u128 {
        match old.capacity().checked_sub(missing) {
            Some(held) => self.capacity().saturating_sub(mul_div(held, new, former).0),
            None => {
                let owed = rounded_up(missing - old.capacity(), new, former);
                self.capacity().saturating_add(owed)
            }
        }
    }
}

fn rounded_up(amount: u128, new: u128, former: u128) -> u128 {
    let (amount, exact) = mul_div(amount, new, former);
    amount.saturating_add(u128::from(!exact))
}
