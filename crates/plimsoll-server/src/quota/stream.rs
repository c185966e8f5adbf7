//! One stream: reports in, assignments out.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::proto::{Response, UsageReports};
use super::quotas::Quotas;
use plimsoll_admin::Drain;

/// How many messages a proxy may be behind.
const BEHIND: usize = 64;

/// Reads the reports of a proxy until its stream ends; returns what is sent to it.
pub(super) fn open(
    quotas: Arc<Quotas>,
    reports: Streaming<UsageReports>,
    drain: Drain,
) -> impl Stream<Item = Result<Response, Status>> + Send + 'static {
    let (sender, receiver) = mpsc::channel(BEHIND);
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
            // The receiver is gone.
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
