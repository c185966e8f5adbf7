//! Implements `Limiter` for ambient limiters: any demand is granted while the limiter is not saturated.

/// The methods that all ambient limiters have, and the trait. `$limiter` has a field `watch`.
macro_rules! ambient_limiter {
    ($limiter:ident) => {
        impl $limiter {
            /// Checks whether new work may start: `Ok` unless the limiter is saturated.
            ///
            /// It reads two atomic words and the clock, without a lock or an allocation. Only if the last sample is
            /// older than two check intervals, because no [`Sampler`](crate::Sampler) runs, the first caller measures,
            /// at most once in an interval.
            ///
            /// Use it in code that decides before it has a demand, such as an accept loop or a health check.
            /// [`try_acquire`](plimsoll::Limiter::try_acquire) makes the same check, and returns a permit for code that
            /// takes any limiter.
            ///
            /// # Errors
            ///
            /// Returns a refusal with the name of the limiter. Its reason is
            /// [`Saturated`](plimsoll::Reason::Saturated); `Unavailable` if the last good sample is too old and a new
            /// one fails (see [`WhenUnknown`](crate::WhenUnknown)); or `Closed` if the limiter was closed.
            #[inline]
            pub fn check_saturation(&self) -> Result<(), plimsoll::Denied> {
                self.watch.check()
            }

            /// Returns the error of the last measurement, if it failed. A later success clears it.
            #[must_use]
            pub fn last_error(&self) -> Option<crate::SourceError> {
                self.watch.last_error()
            }
        }

        /// Grants demands of any cost while it is not saturated. With a queue, [`acquire`](plimsoll::Limiter::acquire)
        /// waits for the sample that opens it; without one, it refuses at once. Permits return nothing.
        ///
        /// The [snapshot](plimsoll::Limiter::snapshot) shows everything as available, or nothing. Combined with other
        /// limits by [`All`](plimsoll::All), it refuses for all of them.
        impl plimsoll::Limiter for $limiter {
            #[inline]
            fn try_acquire(
                &self,
                demand: plimsoll::Demand,
            ) -> Result<plimsoll::Permit<'_>, plimsoll::Denied> {
                self.watch.permit(demand)
            }

            fn acquire(&self, demand: plimsoll::Demand) -> plimsoll::Acquire<'_> {
                self.watch.acquire(demand)
            }

            fn acquire_owned(&self, demand: plimsoll::Demand) -> plimsoll::Acquire<'static> {
                self.watch.acquire_owned(demand)
            }

            fn estimate(&self, _demand: plimsoll::Demand) -> Result<(), plimsoll::Denied> {
                self.watch.check()
            }

            /// Everything is available, or nothing is.
            fn snapshot(&self) -> plimsoll::Snapshot {
                self.watch.snapshot()
            }

            fn close(&self) {
                self.watch.close();
            }

            fn name(&self) -> Option<&str> {
                self.watch.name()
            }

            fn clock(&self) -> &plimsoll::Clock {
                self.watch.clock()
            }

            fn internals(&self) -> Option<&dyn plimsoll::Internals> {
                Some(self)
            }
        }

        impl plimsoll::Internals for $limiter {
            fn source(&self) -> Option<&dyn plimsoll::Shareable> {
                match self.watch.room() {
                    Some(room) => plimsoll::LimiterExt::source(room),
                    None => Some(&*self.watch),
                }
            }

            fn parts(&self) -> plimsoll::Parts<'_> {
                match self.watch.room() {
                    Some(room) => plimsoll::LimiterExt::parts(room),
                    None => plimsoll::Parts::default(),
                }
            }

            fn check_saturation(&self) -> Result<(), plimsoll::Denied> {
                self.watch.check()
            }
        }
    };
}

/// The settings that all builders of ambient limiters have. `$builder` has a field `settings`.
macro_rules! ambient_settings {
    ($builder:ident) => {
        impl $builder {
            /// Sets the interval between two samples, more than 0. Default: 1 s.
            ///
            /// A sample is valid for two intervals. A shorter interval reacts faster; a sample of
            /// the default sources reads a few short files of the kernel.
            pub fn check_interval(mut self, interval: std::time::Duration) -> Self {
                self.settings.interval = interval;
                self
            }

            /// Sets the name of the limiter, for refusals and metrics. Default: none.
            pub fn name(mut self, name: &str) -> Self {
                self.settings.name = Some(name.into());
                self
            }

            /// Sets the queue in which demands wait until a sample shows that there is room again. Default: none.
            ///
            /// All waiters are then admitted, in the order of the queue. The bound applies to the sum of waiting costs.
            /// The [`Sampler`](crate::Sampler) wakes the waiters, so it must be driven; otherwise only time-outs end
            /// the wait.
            pub fn queue(mut self, queue: plimsoll::Queue) -> Self {
                self.settings.queue = Some(queue);
                self
            }

            /// Sets the answer while measurements fail. Default: [`Refuse`](crate::WhenUnknown::Refuse).
            pub fn when_unknown(mut self, when_unknown: crate::WhenUnknown) -> Self {
                self.settings.when_unknown = when_unknown;
                self
            }
        }
    };
}

pub(crate) use {ambient_limiter, ambient_settings};
