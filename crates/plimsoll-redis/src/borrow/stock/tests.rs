use super::super::Lent;
use super::*;

const SETTINGS: Settings = Settings {
    most: 10,
    target: Duration::from_millis(50),
    keep: Duration::from_millis(100),
    max_keys: 1,
    kind: Lent {
        windowed: true,
        refuses_quietly: true,
        exact: false,
    },
};

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// A batch taken at a moment, of a limit that is full again after `reset` milliseconds.
fn batch(amount: u64, millis: u64, reset: u64) -> Borrowed {
    let reset = Some(Duration::from_millis(reset));
    Borrowed {
        amount,
        taken: at(millis + 1000),
        standing: Standing::new(100, 50).reset(reset),
    }
}

fn stocked(amount: u64, reset: u64) -> Stock {
    let mut stock = Stock::new(at(0));
    let (_, over) = stock.stock_up(at(0), at(0), &batch(amount, 0, reset), 0, &SETTINGS);
    assert_eq!(over, None);
    stock
}

#[test]
fn the_oldest_is_used_first_and_what_spans_two_is_the_oldest() {
    let mut stock = stocked(3, 1000);
    stock.stock_up(at(10), at(10), &batch(4, 10, 1000), 1, &SETTINGS);
    assert_eq!(stock.held(at(10)), 6);
    let taken = |tag: Option<Tag>| tag.map(|tag| tag.taken);
    assert_eq!(taken(stock.spend(at(10), 2)), Some(at(1000)));
    assert_eq!(taken(stock.spend(at(10), 2)), Some(at(1000)));
    assert_eq!(taken(stock.spend(at(10), 2)), Some(at(1010)));
    assert_eq!(taken(stock.spend(at(10), 1)), None);
    assert_eq!(taken(stock.spend(at(10), 0)), None);
}

#[test]
fn nothing_is_used_after_its_time_and_only_what_counts_goes_back() {
    let mut kept = stocked(3, 1000);
    assert!(kept.spend(at(99), 1).is_some());
    assert!(kept.spend(at(100), 1).is_none());
    assert_eq!(kept.clear(at(99), false), []);
    let back = kept.clear(at(100), false);
    assert_eq!(
        back.iter().map(|portion| portion.left).collect::<Vec<_>>(),
        [2]
    );

    let mut over = stocked(3, 20);
    assert!(over.spend(at(20), 1).is_none());
    assert_eq!(over.clear(at(20), false), []);
    assert!(over.is_idle(at(100), SETTINGS.keep));
    assert_eq!(stocked(3, 20).clear(at(0), true).len(), 1);
}

#[test]
fn never_more_is_held_than_may_be() {
    let mut stock = stocked(8, 1000);
    let (tag, over) = stock.stock_up(at(1), at(1), &batch(8, 1, 1000), 2, &SETTINGS);
    assert_eq!(
        (stock.held(at(1)), over.map(|portion| portion.left)),
        (10, Some(4))
    );
    let over = stock.put(at(1), Portion { left: 2, tag }, 10);
    assert_eq!(over.map(|portion| portion.left), Some(2));
    // Permits that are too old are not kept at all.
    stock.clear(at(1), true);
    let over = stock.put(at(101), Portion { left: 2, tag }, 10);
    assert_eq!(
        (stock.held(at(101)), over.map(|portion| portion.left)),
        (0, Some(2))
    );
}

#[test]
fn many_lots_become_two_and_keep_the_earlier_times() {
    let mut stock = Stock::new(at(0));
    for millis in [0, 10, 20, 30] {
        let batch = batch(2, millis, 1000);
        stock.stock_up(at(millis), at(millis), &batch, 0, &SETTINGS);
    }
    assert_eq!((stock.portions.len(), stock.held(at(30))), (2, 8));
    assert_eq!(stock.portions[0].tag.taken, at(1000));
    assert_eq!(stock.portions[0].tag.use_by, at(100));
    assert_eq!(stock.held(at(100)), 2);
}

/// A permit that a log recorded at one moment cannot be refunded at another.
#[test]
fn lots_of_a_log_stay_apart() {
    let kind = Lent {
        exact: true,
        ..SETTINGS.kind
    };
    let settings = Settings { kind, ..SETTINGS };
    let mut stock = Stock::new(at(0));
    for millis in [0, 10, 20, 30] {
        let batch = batch(2, millis, 1000);
        stock.stock_up(at(millis), at(millis), &batch, 0, &settings);
    }
    let one = stock.spend(at(30), 1).expect("some");
    let two = stock.spend(at(30), 2).expect("some");
    assert_eq!((one.taken, two.taken), (at(1000), at(1010)));
    let portion = |tag| Portion { left: 1, tag };
    assert_eq!(stock.put(at(30), portion(one), 10), None);
    let back = stock.clear(at(30), true);
    let left: Vec<_> = back
        .iter()
        .map(|portion| (portion.tag.taken, portion.left))
        .collect();
    assert_eq!(left, [(at(1000), 2), (at(1020), 2), (at(1030), 2)]);
}

#[test]
fn a_refusal_holds_for_as_much_until_its_time() {
    let denied = |reason, after| {
        let ready = Some(Moment::ORIGIN.plus(Duration::from_millis(after)));
        Denied::new(reason).with_ready_at(Moment::ORIGIN, ready)
    };
    let mut stock = Stock::new(at(0));
    stock.remember(at(10), 3, &denied(Reason::Exhausted, 50));
    let known = |stock: &Stock, millis, cost| {
        let denied = stock.refusal(at(millis), cost, 100, "x");
        denied.and_then(|denied| denied.retry_after())
    };
    assert_eq!(known(&stock, 20, 3), Some(Duration::from_millis(40)));
    assert_eq!(known(&stock, 20, 4), Some(Duration::from_millis(40)));
    assert_eq!(known(&stock, 20, 2), None);
    assert_eq!(known(&stock, 60, 3), None);
    // A refusal of a higher cost does not hide one of a lower cost, which replaces it.
    stock.remember(at(20), 5, &denied(Reason::Exhausted, 500));
    assert_eq!(known(&stock, 20, 3), Some(Duration::from_millis(40)));
    stock.remember(at(20), 1, &denied(Reason::Exhausted, 5));
    assert_eq!(known(&stock, 20, 1), Some(Duration::from_millis(5)));
    // A refusal that never ends is not remembered.
    let mut stock = Stock::new(at(0));
    stock.remember(at(0), 101, &denied(Reason::TooLarge, 5));
    assert!(!stock.is_refused(at(0)));
}
