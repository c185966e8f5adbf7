use super::*;

fn answer(parts: &[i64]) -> Answer {
    let parts = parts.iter().copied().map(Value::Int).collect();
    Answer::new(Value::Array(parts)).expect("a list")
}

#[test]
fn a_run_of_grants_is_told_one_by_one() {
    // Three at a cost of 2, of which each takes 2 tokens of 1000 parts, and 300 parts come back in a nanosecond.
    let mut answer = answer(&[3, 3, 8, 4, 2000, 2000, 300, 0, 1, 1, 2, 3, 0]);
    let mut next = |cost| match answer.decided_of_list(10, cost, Moment::from_nanos(5)) {
        Ok(Decided::Granted(standing, taken)) => {
            assert_eq!(taken, Moment::from_nanos(5));
            let nanos = |span: Option<Duration>| span.map(|span| span.as_nanos());
            (
                standing.remaining,
                nanos(standing.more_after),
                nanos(standing.reset),
            )
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(next(2), (Some(8), Some(4), Some(7)));
    assert_eq!(next(2), (Some(6), Some(4), Some(14)));
    assert_eq!(next(2), (Some(4), Some(4), Some(20)));
    assert_eq!(next(7), (Some(1), Some(2), Some(3)));
}

#[test]
fn a_run_of_grants_in_a_first_window_is_told_one_by_one() {
    // Three at a cost of 2, after the first of which 3 are used, 400 ns before the end of a window of 1000.
    let mut answer = answer(&[5, 3, 7, 400, 1400, 3, 1000, 0]);
    let mut next = || match answer.decided_of_list(10, 2, Moment::ORIGIN) {
        Ok(Decided::Granted(standing, _)) => {
            let nanos = |span: Option<Duration>| span.map(|span| span.as_nanos());
            (
                standing.remaining,
                nanos(standing.more_after),
                nanos(standing.reset),
            )
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(next(), (Some(7), Some(734), Some(1400)));
    assert_eq!(next(), (Some(5), Some(600), Some(1400)));
    assert_eq!(next(), (Some(3), Some(543), Some(1400)));
}

#[test]
fn leases_of_a_run_are_granted_one_microsecond_after_the_other() {
    let mut parts: Vec<Value> = [6, 2, 8].map(Value::Int).to_vec();
    parts.push(Value::BulkString(Vec::new()));
    parts.extend([0, 0, 0].map(Value::Int));
    parts.push(Value::BulkString(b"7.5000".to_vec()));
    let mut answer = Answer::new(Value::Array(parts)).expect("a list");
    let mut next = || match answer.decided_of_list(10, 2, Moment::ORIGIN) {
        Ok(Decided::Granted(standing, taken)) => {
            let Standing { remaining, .. } = standing;
            (
                remaining,
                standing.more_after,
                standing.reset,
                taken.as_nanos(),
            )
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(next(), (Some(8), None, None, 7_000_005_000));
    assert_eq!(next(), (Some(6), None, None, 7_000_006_000));
}

#[test]
fn a_run_of_nothing_is_a_bad_reply() {
    let last = Moment::ORIGIN;
    assert!(
        answer(&[3, 0, 8, 4, 2000, 2000, 0, 0])
            .decided_of_list(10, 1, last)
            .is_err()
    );
    assert!(answer(&[3, -1, 8]).decided_of_list(10, 1, last).is_err());
    // No division by 0, whatever a server replies.
    assert!(
        answer(&[3, 1, 8, 4, 2000, 2000, 0, 0])
            .decided_of_list(10, 1, last)
            .is_ok()
    );
}
