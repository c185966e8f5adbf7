//! Buffered requests, sorted by arrival.
//!
//! Lines are nearly in order already, so buffered requests are kept in spans of time, and only the next span is sorted: as a heap,
//! so that a request that is late for its span costs no more than in one heap of all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The length of a span, in nanoseconds.
const SPAN: i64 = 1 << 24;

/// The number of spans: more than a minute. Requests after them are in one heap.
const SPANS: usize = 1 << 13;

/// The capacity of an empty span, and the number of empty spans that are kept.
const FEW: usize = 64;

/// The arrival of a request, its number in reading order, and its place.
pub(crate) type Entry = (i64, u64, u32);

#[derive(Default)]
pub(crate) struct Order {
    /// The entries of the next span: before `until`.
    next: BinaryHeap<Reverse<Entry>>,
    until: i64,
    /// The spans in order, from `until` on.
    spans: VecDeque<Vec<Reverse<Entry>>>,
    /// The entries after all spans.
    far: BinaryHeap<Reverse<Entry>>,
    /// Empty spans, to be reused.
    empty: Vec<Vec<Reverse<Entry>>>,
    waiting: usize,
}

impl Order {
    pub(crate) const fn len(&self) -> usize {
        self.waiting
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        self.waiting += 1;
        if entry.0 < self.until {
            self.next.push(Reverse(entry));
            return;
        }
        match usize::try_from((entry.0 - self.until) / SPAN) {
            Ok(index) if index < SPANS => {
                while self.spans.len() <= index {
                    self.spans.push_back(self.empty.pop().unwrap_or_default());
                }
                self.spans[index].push(Reverse(entry));
            }
            _ => self.far.push(Reverse(entry)),
        }
    }

    /// The first entry. `turn` is called with the entries of a span that becomes the next.
    #[inline]
    pub(crate) fn peek(&mut self, turn: impl FnOnce(&[Reverse<Entry>])) -> Option<Entry> {
        if self.next.is_empty() {
            self.turn();
            turn(self.next.as_slice());
        }
        self.next.peek().map(|entry| entry.0)
    }

    /// Removes the first entry, which [`peek`](Self::peek) has returned.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.waiting -= usize::from(self.next.pop().is_some());
    }

    /// Makes the next span with entries the current one.
    fn turn(&mut self) {
        while self.waiting > 0 && self.next.is_empty() {
            match self.spans.pop_front() {
                Some(span) => {
                    self.until = self.until.saturating_add(SPAN);
                    let empty = match span.is_empty() {
                        true => span,
                        false => std::mem::replace(&mut self.next, span.into()).into_vec(),
                    };
                    // Large buffers are not kept.
                    if empty.capacity() <= FEW && self.empty.len() < FEW {
                        self.empty.push(empty);
                    }
                }
                None => {
                    // All spans are empty: the far entries are next.
                    let Some(Reverse((at, ..))) = self.far.peek() else {
                        return;
                    };
                    self.until = *at;
                }
            }
            self.fetch();
        }
    }

    /// Moves entries that are no longer far into the spans.
    fn fetch(&mut self) {
        let near = self.until.saturating_add(SPAN << SPANS.ilog2());
        while let Some(Reverse((at, ..))) = self.far.peek()
            && (*at < near || *at == self.until)
            && let Some(Reverse(entry)) = self.far.pop()
        {
            self.waiting -= 1;
            self.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pop(order: &mut Order) -> Option<Entry> {
        let first = order.peek(|_| {});
        order.pop();
        first
    }

    #[test]
    fn it_is_a_heap() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        for spread in [3, 1_000_000, 3_000_000_000, 500_000_000_000] {
            let (mut order, mut heap) = (Order::default(), BinaryHeap::new());
            let mut from = 1_794_744_000_000_000_000_i64;
            for count in 0..20_000 {
                // Days pass, and clocks are set back.
                from += match random(500) {
                    0 => 86_400_000_000_000,
                    1 => -1_000_000_000,
                    _ => i64::try_from(random(2_000_000)).expect("a small number"),
                };
                let at = from - i64::try_from(random(spread)).expect("a small number");
                order.push((at, count, 0));
                heap.push(Reverse((at, count, 0)));
                while random(5) < 2 || heap.len() > 3000 {
                    assert_eq!(pop(&mut order), heap.pop().map(|it| it.0));
                }
                assert_eq!(order.len(), heap.len());
            }
            while let Some(entry) = heap.pop() {
                assert_eq!(pop(&mut order), Some(entry.0));
            }
            assert_eq!(pop(&mut order), None);
        }
        // The ends of time.
        let mut order = Order::default();
        for (count, at) in [i64::MAX, 0, i64::MIN, i64::MAX - 1]
            .into_iter()
            .enumerate()
        {
            order.push((at, count as u64, 0));
        }
        let all: Vec<i64> = std::iter::from_fn(|| pop(&mut order))
            .map(|it| it.0)
            .collect();
        assert_eq!(all, [i64::MIN, 0, i64::MAX - 1, i64::MAX]);
    }
}
