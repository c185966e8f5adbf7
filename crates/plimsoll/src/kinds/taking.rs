//! Asking for several weights at once: all or none.

use super::provider::Limited;
use super::{Demands, Permits, Provider};
use crate::{Demand, Denied, Limiter, Permit};

impl Provider {
    /// Takes for all weights now, or for none.
    ///
    /// # Errors
    ///
    /// The refusal of the first limiter that refuses, with the moment at which all would grant.
    #[inline]
    pub fn try_acquire<'d>(&self, demands: impl Into<Demands<'d>>) -> Result<Permits<'_>, Denied> {
        let demands = demands.into();
        self.check_saturation()?;
        let mut held = Permits::new();
        self.take_each(&demands, &mut held, |limiter, demand| {
            limiter.try_acquire(demand)
        })
        .map_err(|(refuser, denied)| self.explain(refuser, denied, &demands))?;
        Ok(held)
    }

    /// Takes from each limiter whose weight is asked for, or from none; the index is that of the one that refused.
    #[inline]
    fn take_each<'a>(
        &'a self,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
        ask: impl Fn(&'a dyn Limiter, Demand) -> Result<Permit<'a>, Denied>,
    ) -> Result<(), (usize, Denied)> {
        for (index, limited) in self.limits.iter().enumerate() {
            let Some(demand) = demands.demand(limited.weight) else {
                continue;
            };
            match ask(&*limited.limiter, demand) {
                Ok(permit) => held.push(permit),
                Err(denied) => {
                    held.undo_all();
                    return Err((index, denied));
                }
            }
        }
        Ok(())
    }

    /// Completes the refusal of one: all would grant when the last of those would that refuse.
    #[cold]
    fn explain(&self, refuser: usize, denied: Denied, demands: &Demands<'_>) -> Denied {
        let mut latest = denied.retry_after();
        for later in &self.limits[refuser + 1..] {
            if let Some(demand) = demands.demand(later.weight)
                && let Err(denied) = later.limiter.estimate(demand)
            {
                latest = latest.zip(denied.retry_after()).map(|(a, b)| a.max(b));
            }
        }
        Limited::name_refusal(&self.limits[refuser], denied.with_retry_after(latest))
    }
}
