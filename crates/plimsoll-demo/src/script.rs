//! Who asks for how much, and what happens when.

use std::time::Duration;

/// Clients give up after this. What is answered in time is goodput.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How many workers the upstream has, and how many of them are left in the middle.
pub(crate) const WORKERS: usize = 16;
pub(crate) const LEFT: usize = 4;
/// How long a worker takes for a request, on average.
pub(crate) const SERVICE: Duration = Duration::from_millis(80);

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Class {
    /// Critical: money.
    Checkout,
    /// Normal: people who look around.
    Browse,
    /// Not critical: a job that can wait.
    Batch,
    /// One caller that asks for far more than all others.
    Abuser,
}

impl Class {
    /// All of them, who matters most first.
    pub const ALL: [Self; 4] = [Self::Checkout, Self::Browse, Self::Batch, Self::Abuser];

    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Checkout => "checkout",
            Self::Browse => "browse",
            Self::Batch => "batch",
            Self::Abuser => "abuser",
        }
    }

    /// How much it matters.
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
            // It asks for what everybody asks for.
            Self::Browse | Self::Abuser => "/browse",
            Self::Batch => "/batch",
        }
    }

    /// Requests a second.
    pub(crate) const fn rate(self) -> f64 {
        match self {
            Self::Checkout => 20.0,
            Self::Browse => 60.0,
            Self::Batch => 40.0,
            Self::Abuser => 200.0,
        }
    }

    /// How many callers, with a key each.
    pub(crate) const fn callers(self) -> u32 {
        match self {
            Self::Checkout => 20,
            Self::Browse => 40,
            Self::Batch => 10,
            Self::Abuser => 1,
        }
    }
}

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stage {
    /// Three priorities, and room for all of them.
    Quiet,
    /// The abuser joins.
    Abuse,
    /// Three of four workers are lost.
    Drop,
    /// They are back, and the abuser is gone.
    Back,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Quiet, Self::Abuse, Self::Drop, Self::Back];

    /// What happens.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Quiet => "three priorities, and room for all",
            Self::Abuse => "one caller asks for 200 a second more",
            Self::Drop => "the upstream loses 12 of its 16 workers",
            Self::Back => "they are back, and the abuser is gone",
        }
    }

    /// When it begins and ends, as shares of the run.
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

    /// When a class asks, as shares of the run: the abuser only in the middle.
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
