use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The queue of future events, by time, and in order of insertion at the same time.
pub(crate) struct Events<T> {
    heap: BinaryHeap<Entry<T>>,
    count: u64,
}

struct Entry<T> {
    at: u64,
    number: u64,
    event: T,
}

impl<T> Events<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, at: u64, event: T) {
        self.count += 1;
        self.heap.push(Entry {
            at,
            number: self.count,
            event,
        });
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|entry| entry.event)
    }
}

impl<T> Ord for Entry<T> {
    /// Orders the earliest event as the greatest, because the heap returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}
