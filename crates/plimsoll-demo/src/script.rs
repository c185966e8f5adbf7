//! The script of a run: the load of each class, and the stages.

use std::time::Duration;

/// The time-out of clients. Answers within it are goodput.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// The number of workers of the upstream, and how many of them remain in the middle of a run.
pub(crate) const WORKERS: usize = 16;
pub(crate) const LEFT: usize = 4;
/// The mean service time of a worker.
pub(crate) const SERVICE: Duration = Duration::from_millis(80);

/// A class of clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Class {
    /// A checkout: critical.
    Checkout,
    /// People browsing: normal.
    Browse,
    /// A batch job: not critical.
    Batch,
    /// One client with a far higher load than any other.
    Abuser,
}

impl Class {
    /// All classes, the most important first.
    pub const ALL: [Self; 4] = [Self::Checkout, Self::Browse, Self::Batch, Self::Abuser];

    /// The name of the class.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Checkout => "checkout",
            Self::Browse => "browse",
            Self::Batch => "batch",
            Self::Abuser => "abuser",
        }
    }

    /// The priority of the class, as the value of the priority header.
    #[must_use]
    pub const fn priority(self) -> &'static str {
        match self {
            Self::Checkout => "critical",
            Self::Browse => "normal",
            Self::Batch => "non-critical",
            Self::Abuser => "normal",
        }
    }

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Checkout => "/checkout",
            // Its requests look like those of browsing clients.
            Self::Browse | Self::Abuser => "/browse",
            Self::Batch => "/batch",
        }
    }

    /// The requests per second of the class.
    pub(crate) const fn rate(self) -> f64 {
        match self {
            Self::Checkout => 20.0,
            Self::Browse => 60.0,
            Self::Batch => 40.0,
            Self::Abuser => 200.0,
        }
    }

    /// The number of clients of the class, each with a key.
    pub(crate) const fn callers(self) -> u32 {
        match self {
            Self::Checkout => 20,
            Self::Browse => 40,
            Self::Batch => 10,
            Self::Abuser => 1,
        }
    }
}

/// A stage of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stage {
    /// Three classes, with capacity for all of them.
    Quiet,
    /// The abuser joins.
    Abuse,
    /// Three of four workers are lost.
    Drop,
    /// All workers are back, and the abuser has stopped.
    Back,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 4] = [Self::Quiet, Self::Abuse, Self::Drop, Self::Back];

    /// A short description of the stage.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Quiet => "three priorities, and room for all",
            Self::Abuse => "one caller asks for 200 a second more",
            Self::Drop => "the upstream loses 12 of its 16 workers",
            Self::Back => "they are back, and the abuser is gone",
        }
    }

    /// The start and the end of the stage, as fractions of the run.
    #[must_use]
    pub const fn span(self) -> (f64, f64) {
        match self {
            Self::Quiet => (0.0, 0.2),
            Self::Abuse => (0.2, 0.45),
            Self::Drop => (0.45, 0.75),
            Self::Back => (0.75, 1.0),
        }
    }

    pub(crate) const fn workers(self) -> usize {
        match self {
            Self::Drop => LEFT,
            _ => WORKERS,
        }
    }

    /// The start and the end of the load of a class, as fractions of the run: the abuser is active only in the middle.
    pub(crate) const fn when(class: Class) -> (f64, f64) {
        match class {
            Class::Abuser => (Self::Abuse.span().0, Self::Drop.span().1),
            _ => (0.0, 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_what_the_numbers_are() {
        assert_eq!(Class::Abuser.rate(), 200.0);
        assert_eq!((WORKERS, WORKERS - LEFT), (16, 12));
        let capacity = |workers: usize| workers as f64 / SERVICE.as_secs_f64();
        let wanted: f64 = Class::ALL[..3].iter().map(|it| it.rate()).sum();
        assert!(wanted < capacity(WORKERS) && wanted + Class::Abuser.rate() > capacity(WORKERS));
        assert!(Class::Checkout.rate() < capacity(LEFT) && wanted > 2.0 * capacity(LEFT));
        for pair in Stage::ALL.windows(2) {
            assert_eq!(pair[0].span().1, pair[1].span().0);
        }
    }
}
