//! Writes the metrics when a registry is scraped.

use std::fmt;
use std::sync::Arc;

use plimsoll::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};

use crate::Metric;
use crate::cells::Reading;
use crate::histogram::Counted;
use crate::meter::{Meter, Meters};
use crate::names::Names;
use crate::refusals::Refused;

/// Exports all counts, and the limits at the moment of the scrape.
pub(crate) struct Exporter(pub(crate) Arc<Meters>);

/// One limiter at the moment of the scrape.
struct View {
    meter: Arc<Meter>,
    snapshot: Snapshot,
    cells: Vec<Reading>,
}

/// The labels of one line, in the order in which they are written.
struct Labels<'a>([Option<(&'a str, &'a str)>; 4]);

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Everything is read before anything is written, so that the metrics of one scrape are consistent.
        let views: Vec<View> = self.0.live().into_iter().map(View::new).collect();
        let refusals = self.0.refusals.read();
        for metric in Metric::ALL {
            let Some(name) = self.0.names.family(metric) else {
                continue;
            };
            if metric == Metric::Refused {
                if !refusals.is_empty() {
                    let (help, kind) = (metric.help(), metric.kind());
                    let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
                    self.encode_refusals(&refusals, &mut encoder)?;
                }
                continue;
            }
            if !views.iter().any(|view| view.shows(metric)) {
                continue;
            }
            let (help, kind) = (metric.help(), metric.kind());
            let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
            for view in &views {
                view.encode(metric, &self.0.names, &mut encoder)?;
            }
        }
        Ok(())
    }
}

impl Exporter {
    fn encode_refusals(
        &self,
        refusals: &[Refused],
        encoder: &mut MetricEncoder<'_>,
    ) -> fmt::Result {
        let label = self.0.names.limiter_label().unwrap_or("limiter");
        for refused in refusals {
            let limiter = Some((label, &*refused.limiter));
            let reason = Some(("reason", refused.reason));
            encoder
                .encode_family(&Labels([limiter, reason, None, None]))?
                .encode_counter::<NoLabelSet, u64, u64>(&refused.count, None)?;
        }
        Ok(())
    }
}

impl View {
    fn new(meter: Arc<Meter>) -> Self {
        Self {
            snapshot: meter.snapshot(),
            cells: meter.cells.read(),
            meter,
        }
    }

    /// Whether the metric has a value yet.
    fn shows(&self, metric: Metric) -> bool {
        let any = |shows: fn(&Reading) -> bool| self.cells.iter().any(shows);
        match metric {
            Metric::ConcurrencyLimit | Metric::QueueLimit => true,
            Metric::ConcurrencyItems | Metric::ProcessingTime => any(Reading::has_run),
            Metric::QueueItems | Metric::QueueTime => any(Reading::has_waited),
            Metric::Rejected => any(Reading::was_refused),
            // Counted by name, not by metered limiter.
            Metric::Refused => false,
        }
    }

    fn encode(
        &self,
        metric: Metric,
        names: &Names,
        encoder: &mut MetricEncoder<'_>,
    ) -> fmt::Result {
        // An empty label is left out.
        let limiter = names
            .limiter_label()
            .map(|label| (label, &*self.meter.name))
            .filter(|(_, name)| !name.is_empty());
        let number = match metric {
            Metric::ConcurrencyItems if !names.items_by_method => {
                self.cells.iter().map(|cell| cell.running).sum()
            }
            Metric::ConcurrencyLimit => self.snapshot.limit(),
            Metric::QueueLimit => self.snapshot.queue_bound(),
            _ => return self.encode_cells(metric, limiter, encoder),
        };
        match limiter {
            Some(_) => {
                let labels = Labels([limiter, None, None, None]);
                encoder.encode_family(&labels)?.encode_gauge(&number)
            }
            None => encoder.encode_gauge(&number),
        }
    }

    fn encode_cells(
        &self,
        metric: Metric,
        limiter: Option<(&str, &str)>,
        encoder: &mut MetricEncoder<'_>,
    ) -> fmt::Result {
        for cell in &self.cells {
            let labels = |reason| {
                let (method, priority) = (("method", cell.method), ("priority", cell.priority));
                Labels([limiter, Some(method), Some(priority), reason])
            };
            match metric {
                Metric::ConcurrencyItems if cell.has_run() => encoder
                    .encode_family(&labels(None))?
                    .encode_gauge(&cell.running)?,
                Metric::QueueItems if cell.has_waited() => encoder
                    .encode_family(&labels(None))?
                    .encode_gauge(&cell.waiting)?,
                Metric::ProcessingTime if cell.has_run() => {
                    encode_histogram(encoder, &labels(None), &cell.processing_time)?;
                }
                Metric::QueueTime if cell.has_waited() => {
                    encode_histogram(encoder, &labels(None), &cell.queue_time)?;
                }
                Metric::Rejected => {
                    for (reason, count) in cell.rejected.iter().filter(|(_, count)| *count > 0) {
                        encoder
                            .encode_family(&labels(Some(("reason", *reason))))?
                            .encode_counter::<NoLabelSet, u64, u64>(count, None)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn encode_histogram(
    encoder: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    counted: &Counted,
) -> fmt::Result {
    encoder
        .encode_family(labels)?
        .encode_histogram::<NoLabelSet>(counted.sum, counted.count, &counted.buckets, None)
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut labels = self.0.iter().flatten();
        labels.try_for_each(|label| label.encode(encoder.encode_label()))
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}
