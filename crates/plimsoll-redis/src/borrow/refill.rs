//! Fetches batches, one at a time for each key.

use std::sync::Arc;

use plimsoll::{Denied, Moment, Standing};
use tokio::sync::{oneshot, watch};

use super::lender::{Lender, Taken};
use super::portion::Tag;
use super::stock::{Fetched, Stock};
use crate::charge::Borrowed;
use crate::{StoreError, StoreErrorKind};

/// A batch to fetch. A task of its own fetches it, so that nothing is lost if the caller drops its future.
pub(crate) struct Fetch {
    lender: Arc<Lender>,
    key: Arc<[u8]>,
    least: u64,
    most: u64,
    fetched: watch::Sender<Fetched>,
    /// The caller that needs it, which gets the first part.
    leader: Option<oneshot::Sender<Result<Taken, StoreError>>>,
}

/// Waits for a batch.
pub(super) async fn fetched_by(mut fetch: watch::Receiver<Fetched>) -> Fetched {
    match fetch.wait_for(|fetched| *fetched != Fetched::NotYet).await {
        Ok(fetched) => *fetched,
        // The task was dropped with its runtime.
        Err(_) => Fetched::Failed(StoreErrorKind::Unreachable),
    }
}

impl Lender {
    /// Begins to fetch a batch of at least `least`.
    pub(super) fn fetch(
        self: &Arc<Self>,
        stock: &mut Stock,
        key: &Arc<[u8]>,
        now: Moment,
        least: u64,
    ) -> Fetch {
        let (fetched, fetch) = watch::channel(Fetched::NotYet);
        stock.fetch = Some(fetch);
        Fetch {
            lender: Arc::clone(self),
            key: Arc::clone(key),
            least,
            most: stock.batch(now, least, &self.settings),
            fetched,
            leader: None,
        }
    }

    /// Begins to fetch the next batch before this one is used up, if demand is steady.
    pub(super) fn early(
        self: &Arc<Self>,
        stock: &mut Stock,
        key: &Arc<[u8]>,
        now: Moment,
    ) -> Option<Fetch> {
        let wanted = stock.fetch.is_none() && stock.is_low(now, self.settings.most);
        // Without a runtime no task can fetch it.
        (wanted && self.background.handle().is_some()).then(|| self.fetch(stock, key, now, 1))
    }

    pub(super) fn start(&self, fetch: Option<Fetch>) {
        if let Some(fetch) = fetch {
            self.background.spawn(fetch.run());
        }
    }
}

impl Fetch {
    /// The channel for the answer to the caller.
    pub(super) fn leader_answer(
        &mut self,
    ) -> impl Future<Output = Result<Taken, StoreError>> + Send + use<> {
        let (leader, answer) = oneshot::channel();
        self.leader = Some(leader);
        async move {
            let gone = |_| Err(StoreError::new(StoreErrorKind::Unreachable));
            answer.await.unwrap_or_else(gone)
        }
    }

    pub(super) async fn run(mut self) {
        let lender = Arc::clone(&self.lender);
        let asked = lender.clock.precise_now();
        let answer = lender
            .limiter
            .borrow(&self.key, self.least, self.most)
            .await;
        let fetched = match &answer {
            Ok(_) => Fetched::Here,
            Err(error) => Fetched::Failed(error.kind()),
        };
        let leader = self.leader.take().filter(|leader| !leader.is_closed());
        let used = if leader.is_some() { self.least } else { 0 };
        let taken = match answer {
            Ok(Ok(batch)) => {
                let (tag, standing) = self.keep(asked, &batch, used);
                Ok(Taken::Granted(tag, standing))
            }
            Ok(Err(denied)) => {
                self.refused(asked, &denied);
                Ok(Taken::Refused(denied))
            }
            Err(error) => {
                self.end(asked, |_| ());
                Err(error)
            }
        };
        // Last, so that woken callers see the new stock.
        self.fetched.send_replace(fetched);
        if let Some(Err(Ok(Taken::Granted(tag, _)))) = leader.map(|leader| leader.send(taken)) {
            lender.put_back(&self.key, used, tag);
        }
    }

    /// The maximum that a decision about several limits may take for this batch.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Stores a batch that a decision about several limits took, of which `used` is used at once.
    pub(crate) fn taken(
        self,
        asked: Moment,
        batch: &Borrowed,
        used: u64,
    ) -> (Tag, Option<Standing>) {
        let kept = self.keep(asked, batch, used);
        self.fetched.send_replace(Fetched::Here);
        kept
    }

    /// Records that the store refused.
    pub(crate) fn denied(self, asked: Moment, denied: &Denied) {
        self.refused(asked, denied);
        self.fetched.send_replace(Fetched::Here);
    }

    /// Records that the store did not decide.
    pub(crate) fn failed(self, kind: StoreErrorKind) {
        self.end(self.lender.clock.precise_now(), |_| ());
        self.fetched.send_replace(Fetched::Failed(kind));
    }

    fn keep(&self, asked: Moment, batch: &Borrowed, used: u64) -> (Tag, Option<Standing>) {
        let lender = &self.lender;
        let now = lender.clock.precise_now();
        let mut over = None;
        let put = |stock: &mut Stock| {
            let (tag, rest) = stock.stock_up(asked, now, batch, used, &lender.settings);
            over = rest;
            (tag, stock.standing(now))
        };
        // A key is not evicted while a batch is being fetched. If it is missing, the batch is dropped.
        let kept = self.end(now, put);
        lender.give_back(&self.key, over.into_iter().collect());
        lender.keep_sweeping();
        kept.unwrap_or_else(|| {
            let mut stock = Stock::new(now);
            let (tag, _) = stock.stock_up(asked, now, batch, used, &lender.settings);
            lender.give_back(&self.key, stock.clear(now, true));
            (tag, None)
        })
    }

    fn refused(&self, asked: Moment, denied: &Denied) {
        let remembers = self.lender.settings.kind.refuses_quietly;
        self.end(asked, |stock| {
            if remembers {
                stock.remember(asked, self.least, denied);
            }
        });
        self.lender.keep_sweeping();
    }

    /// Marks the fetch as ended.
    fn end<T>(&self, now: Moment, then: impl FnOnce(&mut Stock) -> T) -> Option<T> {
        self.lender.table.with(&self.key, now, |stock| {
            stock.ended();
            then(stock)
        })
    }
}

/// A dropped fetch lets other callers fetch.
impl Drop for Fetch {
    fn drop(&mut self) {
        if *self.fetched.borrow() == Fetched::NotYet {
            self.end(self.lender.clock.precise_now(), |_| ());
            self.fetched.send_replace(Fetched::Here);
        }
    }
}
