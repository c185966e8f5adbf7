//! One stream of a proxy: reads usage reports and writes assignments.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::proto::{Response, UsageReports};
use super::quotas::Quotas;
use plimsoll_admin::Drain;

/// Capacity of the response channel of a stream.
const CHANNEL_CAPACITY: usize = 64;

/// Spawns a task that reads the reports of a proxy until its stream ends. Returns the stream of responses.
pub(super) fn open(
    quotas: Arc<Quotas>,
    reports: Streaming<UsageReports>,
    drain: Drain,
) -> impl Stream<Item = Result<Response, Status>> + Send + 'static {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    tokio::spawn(read(quotas, reports, sender, drain));
    stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    })
}

async fn read(
    quotas: Arc<Quotas>,
    mut reports: Streaming<UsageReports>,
    sender: mpsc::Sender<Result<Response, Status>>,
    drain: Drain,
) {
    let number = quotas.open(sender.clone());
    loop {
        let next = tokio::select! {
            next = drain.unless_begun(reports.message()) => next,
            // The receiver was dropped.
            () = sender.closed() => None,
        };
        match next {
            Some(Ok(Some(report))) => {
                if !quotas.report(number, report.usages) {
                    break;
                }
            }
            Some(Err(status)) => {
                tracing::debug!(%status, "the stream of a proxy has failed");
                break;
            }
            Some(Ok(None)) | None => break,
        }
    }
    quotas.close(number);
}
