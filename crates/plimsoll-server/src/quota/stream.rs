//! One stream: reports in, assignments out.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::proto::{Response, UsageReports};
use super::quotas::Quotas;
use crate::drain::Drain;

/// How many messages a proxy may be behind.
const BEHIND: usize = 64;

/// Reads the reports of a proxy until its stream ends; returns what is sent to it.
pub(super) fn open(
    quotas: Arc<Quotas>,
    reports: Streaming<UsageReports>,
    drain: Drain,
) -> impl Stream<Item = Result<Response, Status>> + Send + 'static {
    let (outbox, inbox) = mpsc::channel(BEHIND);
    tokio::spawn(read(quotas, reports, outbox, drain));
    stream::unfold(inbox, |mut inbox| async move {
        Some((inbox.recv().await?, inbox))
    })
}

async fn read(
    quotas: Arc<Quotas>,
    mut reports: Streaming<UsageReports>,
    outbox: mpsc::Sender<Result<Response, Status>>,
    drain: Drain,
) {
    let number = quotas.open(outbox.clone());
    loop {
        let next = tokio::select! {
            next = drain.unless_begun(reports.message()) => next,
            // Nobody reads what is sent.
            () = outbox.closed() => None,
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
