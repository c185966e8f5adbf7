//! The waiters at a gate.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use plimsoll::{Acquire, Demand};

use crate::subject::{Answer, Subject};

/// The waiting requests, each with a waker (a bell) that the gate wakes when the request may proceed.
pub(crate) struct Room<'s, T> {
    places: Vec<Option<(Acquire<'s>, T)>>,
    bells: Vec<Waker>,
    free: Vec<usize>,
    rung: Arc<Rung>,
}

/// The places whose bells have rung, in that order.
#[derive(Default)]
struct Rung(Mutex<Vec<usize>>);

struct Bell {
    place: usize,
    rung: Arc<Rung>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut rung = self.rung.0.lock().unwrap_or_else(PoisonError::into_inner);
        rung.push(self.place);
    }
}

impl<'s, T> Room<'s, T> {
    pub(crate) fn new() -> Self {
        Self {
            places: Vec::new(),
            bells: Vec::new(),
            free: Vec::new(),
            rung: Arc::default(),
        }
    }

    /// The number of waiters.
    pub(crate) fn waiting(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Asks the gate. A request that has to wait is stored here; any other is returned with the answer.
    pub(crate) fn ask(
        &mut self,
        subject: &'s Subject,
        demand: Demand,
        who: T,
    ) -> Option<(Answer<'s>, T)> {
        let place = self.free.pop().unwrap_or_else(|| self.another_place());
        let mut context = Context::from_waker(&self.bells[place]);
        match subject.ask(demand, &mut context) {
            Answer::Waiting(acquire) => {
                self.places[place] = Some((acquire, who));
                None
            }
            answer => {
                self.free.push(place);
                Some((answer, who))
            }
        }
    }

    /// The next request that no longer waits, in the order in which the gate decided.
    pub(crate) fn next_settled(&mut self, subject: &'s Subject) -> Option<(Answer<'s>, T)> {
        loop {
            let place = self.next_rung()?;
            let Some((acquire, _)) = &mut self.places[place] else {
                continue;
            };
            let mut context = Context::from_waker(&self.bells[place]);
            if let Poll::Ready(answer) = subject.poll(acquire, &mut context)
                && let Some((_, who)) = self.places[place].take()
            {
                self.free.push(place);
                return Some((answer, who));
            }
        }
    }

    fn next_rung(&self) -> Option<usize> {
        let mut rung = self.rung.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Removing the first is cheap, because there are rarely more than a few.
        (!rung.is_empty()).then(|| rung.remove(0))
    }

    fn another_place(&mut self) -> usize {
        let place = self.places.len();
        self.places.push(None);
        self.bells.push(Waker::from(Arc::new(Bell {
            place,
            rung: Arc::clone(&self.rung),
        })));
        place
    }
}
