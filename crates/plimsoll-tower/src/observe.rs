//! Metrics of a layer.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use plimsoll::{Denied, Limiter, Permit, Standing};
use plimsoll_observe::{InvalidMetrics, Metrics, Observer, Watch};

use crate::answer::{Class, LimitStatus};
use crate::http::{After, Ask, Asked, Done, How, Note, OneLimit, sealed};
use crate::refusals::RefusalLog;
use crate::{Head, HttpLimitLayer, Limits};

impl<L: Limits> HttpLimitLayer<L> {
    /// Counts refusals as `plimsoll_refused_total`, by the name of the limiter and the reason. Keys are never labels.
    ///
    /// ```
    /// use plimsoll_observe::Metrics;
    /// use plimsoll_observe::prometheus_client::registry::Registry;
    /// use plimsoll_tower::per_address;
    ///
    /// let mut registry = Registry::default();
    /// let metrics = Metrics::register(&mut registry);
    /// let layer = per_address(5, 10).observed(&metrics);
    /// # let _ = layer;
    /// ```
    ///
    /// Admitted requests are not counted here; [`metered`](Self::metered) counts them.
    pub fn observed(self, metrics: &Metrics) -> Self {
        self.refusal_log(RefusalLog {
            metrics: Some(metrics.clone()),
        })
    }

    /// Records requests by method and priority, and exports the limits of `limiter`:
    ///
    /// - the number of requests in flight, until their bodies have ended, and the number of waiting requests;
    /// - histograms of both durations;
    /// - the number of refused requests.
    ///
    /// The names of the metrics are those of [`Metric`](plimsoll_observe::Metric). A request counts as in flight from the moment
    /// when all limits of the layer have granted it. `limiter` is the limiter whose limits are exported, usually that of
    /// [`LoadShed`](crate::LoadShed):
    ///
    /// ```
    /// use plimsoll_observe::Metrics;
    /// use plimsoll_observe::prometheus_client::registry::Registry;
    /// use plimsoll_tower::LoadShed;
    ///
    /// let mut registry = Registry::default();
    /// let metrics = Metrics::register(&mut registry);
    /// let (layer, gate) = LoadShed::new().build()?;
    /// let layer = layer.metered(&metrics, gate)?;
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if another limiter is already exported and their metrics could not be distinguished: the
    /// metrics have no label for the limiter, or both limiters have the same name.
    pub fn metered(
        self,
        metrics: &Metrics,
        limiter: impl Limiter + 'static,
    ) -> Result<HttpLimitLayer<MeteredLimits<L>>, InvalidMetrics> {
        let observer = metrics.observe(&Arc::new(limiter))?;
        Ok(self.map_limits(|limits| MeteredLimits { limits, observer }))
    }
}

/// Limits whose requests are recorded in [metrics](plimsoll_observe::Metrics). Made by [`HttpLimitLayer::metered`]. It decides
/// as `L` does.
///
/// The metrics of a request are updated when it is admitted, when it is refused, when it waits, and when its body has ended.
#[derive(Clone, Debug)]
pub struct MeteredLimits<L> {
    limits: L,
    observer: Observer,
}

/// The permits of a request, with its metrics.
#[doc(hidden)]
#[derive(Debug)]
pub struct Watched<H> {
    watch: Option<Watch>,
    held: H,
}

impl<H: Default> Default for Watched<H> {
    fn default() -> Self {
        Self {
            watch: None,
            held: H::default(),
        }
    }
}

impl<L: Limits> sealed::Sealed for MeteredLimits<L> {}

impl<L: Limits> Limits for MeteredLimits<L> {
    type Held = Watched<L::Held>;
    const COUNT: usize = L::COUNT;
    const TELLS_SEVERAL: bool = L::TELLS_SEVERAL;
    const READS_BODIES: bool = L::READS_BODIES;

    fn ask(&self, index: usize, head: &Head<'_>, how: How, held: &mut Self::Held) -> Ask {
        let Watched { watch, held: inner } = held;
        let answer = self.limits.ask(index, head, how, inner);
        let How::Take { priority, .. } = how else {
            return answer;
        };
        let watch =
            watch.get_or_insert_with(|| self.observer.watch(head.method().as_str(), priority));
        match &answer {
            Ask::Pass if index + 1 == L::COUNT => watch.admitted(),
            // A store does not count as a wait, and a wait for all limits records its own start.
            Ask::Pass | Ask::Store(_) | Ask::Wait => {}
            Ask::Refused(denied) => watch.refused(denied.reason()),
            Ask::WaitAlone(_) | Ask::FindKey(_) => watch.waits(),
        }
        answer
    }

    fn at(&self, index: usize) -> &dyn OneLimit {
        self.limits.at(index)
    }

    fn asked<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(Asked<'a>)) {
        self.limits.asked(&held.held, see);
    }

    fn granted(&self, index: usize, permit: Permit<'static>, held: &mut Self::Held) {
        self.limits.granted(index, permit, &mut held.held);
    }

    fn note(&self, note: &Note<'_>, held: &mut Self::Held) {
        self.limits.note(note, &mut held.held);
        match (note, &mut held.watch) {
            (Note::Refused(denied), Some(watch)) => watch.refused(denied.reason()),
            (Note::Waits, Some(watch)) => watch.waits(),
            (_, None) => {}
        }
    }

    fn undo(&self, held: &mut Self::Held) {
        // A request that waits holds nothing, and continues to wait.
        drop(held.watch.take_if(|watch| watch.is_admitted()));
        self.limits.undo(&mut held.held);
    }

    fn settle(&self, done: &Done<'_>, held: &mut Self::Held) -> bool {
        // First: when the next request is admitted, this one must no longer be counted. A request with only a charge
        // left is no longer being worked on.
        if !matches!(done, Done::Answered(_)) {
            drop(held.watch.take());
        }
        self.limits.settle(done, &mut held.held)
    }

    fn see_body(&self, held: &mut Self::Held, length: usize, copy: &dyn Fn(&mut Vec<u8>)) {
        self.limits.see_body(&mut held.held, length, copy);
    }

    fn describe<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(LimitStatus<'a>)) {
        self.limits.describe(&held.held, see);
    }

    fn refused_status<'a>(
        &'a self,
        index: usize,
        denied: &'a Denied,
        standing: Standing,
    ) -> LimitStatus<'a> {
        self.limits.refused_status(index, denied, standing)
    }

    fn respond(&self, head: &Head<'_>, denied: &Denied, class: Class) -> Option<Response<Bytes>> {
        self.limits.respond(head, denied, class)
    }

    fn prepare(&self, held: &Self::Held, extensions: &mut http::Extensions) -> After {
        After {
            // The request is counted until the body has ended.
            outlasts_head: true,
            ..self.limits.prepare(&held.held, extensions)
        }
    }
}
