//! What a limiter with a thread of its own cannot do without, if nobody is to wait for a quarter of the queue too long.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::asking::now;

/// A queue behind a lock, and a thread that sleeps for a quarter of it and then serves what has come meanwhile. No burst, no
/// cancellation, no deadlines, no counts, and it is never alone with one who waits.
pub(super) struct ByHand(Arc<Mutex<VecDeque<Arc<Place>>>>);

/// Whether it was served, and whom to wake.
struct Place(Mutex<(bool, Option<Waker>)>);

/// One who waits.
pub(super) struct Wait<'a> {
    queue: &'a ByHand,
    place: Option<Arc<Place>>,
}

/// By how much Linux lets a thread sleep too long.
const SLACK: Duration = Duration::from_micros(50);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ByHand {
    pub(super) fn new(rate: u32, tasks: u32) -> Self {
        let queue = Arc::new(Mutex::new(VecDeque::<Arc<Place>>::new()));
        let served = Arc::clone(&queue);
        let step = Duration::from_secs(1) * tasks / rate / 4;
        let start = now();
        // It outlives its round, and has nothing to do then.
        thread::spawn(move || {
            let (mut granted, mut woken) = (0, Vec::new());
            let mut idle = 0;
            while idle < 1_000 {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the thread waits for the next refill"
                )]
                thread::sleep(step.saturating_sub(SLACK).max(Duration::from_micros(1)));
                let due = start.elapsed().as_secs_f64() * f64::from(rate);
                let mut queue = lock(&served);
                while f64::from(granted) + 1.0 <= due
                    && let Some(place) = queue.pop_front()
                {
                    granted += 1_u32;
                    let mut place = lock(&place.0);
                    place.0 = true;
                    woken.extend(place.1.take());
                }
                drop(queue);
                idle = if woken.is_empty() { idle + 1 } else { 0 };
                woken.drain(..).for_each(Waker::wake);
            }
        });
        Self(queue)
    }

    pub(super) fn wait(&self) -> Wait<'_> {
        let (queue, place) = (self, None);
        Wait { queue, place }
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let queue = self.queue;
        let place = self.place.get_or_insert_with(|| {
            let waker = cx.waker().clone();
            let place = Arc::new(Place(Mutex::new((false, Some(waker)))));
            lock(&queue.0).push_back(Arc::clone(&place));
            place
        });
        match lock(&place.0).0 {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}
