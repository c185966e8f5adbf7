//! Acquiring for several weights at once: all or none.

use plimsoll::together::{Permits, Refuser, Request, block_on};
use plimsoll::{Demand, Denied};

use crate::demands::Demands;
use crate::provider::{Limited, Provider};
use crate::weight::Weight;

impl Provider {
    /// Acquires for all weights now, or for none. Never waits.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_kinds::{Provider, Weight};
    ///
    /// let items = Gate::builder(TokenBucket::per_second(10)).name("items").build();
    /// let provider = Provider::builder().limit(Weight::REQUEST_ITEMS, items).build()?;
    /// assert_eq!(provider.try_acquire(&[(Weight::REQUEST_ITEMS, 8)])?.len(), 1);
    /// let denied = provider.try_acquire(&[(Weight::REQUEST_ITEMS, 8)]).unwrap_err();
    /// assert_eq!(denied.limiter(), Some("items"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the refusal of the first limiter that refuses, with the moment at which all of them would grant.
    #[inline]
    pub fn try_acquire<'d>(&self, demands: impl Into<Demands<'d>>) -> Result<Permits<'_>, Denied> {
        let demands = demands.into();
        self.check_saturation()?;
        let mut permits = Permits::new();
        self.request(&demands).try_acquire(&mut permits)?;
        Ok(permits)
    }

    /// Acquires for all weights, waiting in the queues of the limiters that refuse.
    ///
    /// The request holds no permits while it waits, and is served when all limiters have room at the same time. See
    /// [`All`](plimsoll::All#waiting). A limiter without a queue refuses; [`reserve`](Self::reserve) reserves from such
    /// a limiter for later.
    ///
    /// Nothing happens before the first poll. Dropping the future leaves the queues, and loses no permit.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a limiter in which the request cannot wait, or not for long enough.
    pub fn acquire<'a, 'd, D: Into<Demands<'d>>>(
        &'a self,
        demands: D,
    ) -> impl Future<Output = Result<Permits<'a>, Denied>> + Send + use<'a, 'd, D> {
        let demands = demands.into();
        async move {
            let mut permits = Permits::new();
            if let Some(refuser) = self.attempt(&demands, &mut permits)? {
                let request = self.request(&demands);
                request.acquire(refuser, &mut permits).await?;
            }
            Ok(permits)
        }
    }

    /// Like [`acquire`](Self::acquire), but blocks the thread while it waits. For threads outside of async runtimes;
    /// [`Demands::within`] bounds the wait.
    ///
    /// # Errors
    ///
    /// See [`acquire`](Self::acquire).
    pub fn acquire_blocking<'d>(
        &self,
        demands: impl Into<Demands<'d>>,
    ) -> Result<Permits<'_>, Denied> {
        let mut permits = Permits::new();
        self.acquire_into(&demands.into(), &mut permits)?;
        Ok(permits)
    }

    /// Like [`acquire_blocking`](Self::acquire_blocking), but fills permits of the caller.
    #[inline]
    pub(crate) fn acquire_into<'a>(
        &'a self,
        demands: &Demands<'_>,
        permits: &mut Permits<'a>,
    ) -> Result<(), Denied> {
        match self.attempt(demands, permits)? {
            Some(refuser) => block_on(self.request(demands).acquire(refuser, permits)),
            None => Ok(()),
        }
    }

    /// The only limiter that is asked, if there is one: the common case, which needs no list of permits.
    #[inline]
    pub(crate) fn only(&self, demands: &Demands<'_>) -> Option<(&Limited, Demand)> {
        let mut asked = self.limits.iter().filter_map(|limited| {
            let cost = demands.cost(limited.weight)?;
            Some((limited, cost))
        });
        let (limited, cost) = asked.next()?;
        if asked.next().is_some() {
            return None;
        }
        Some((limited, demands.like.cost(cost)))
    }

    /// Acquires for all now, or returns the limiter that refused, for a caller that will wait.
    #[inline]
    fn attempt<'a>(
        &'a self,
        demands: &Demands<'_>,
        permits: &mut Permits<'a>,
    ) -> Result<Option<Refuser>, Denied> {
        self.check_saturation()?;
        let request = self.request(demands);
        if demands.like.is_at_once() {
            return request.try_acquire(permits).map(|()| None);
        }
        if self.group.is_remote() {
            // A member in a store is asked when all others have granted.
            return Ok(Some(Refuser::STORE));
        }
        Ok(request.attempt(permits).err())
    }

    /// The demands as a request to the group.
    #[inline]
    pub(crate) fn request<'a, 'd>(
        &'a self,
        demands: &'d Demands<'_>,
    ) -> Request<'a, Weight, impl Fn(Weight) -> Option<u64> + Copy + use<'d>> {
        let costs = *demands;
        self.group
            .ask(demands.like, move |weight| costs.cost(weight))
    }
}
