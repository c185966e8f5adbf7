//! Max-min fair division.

use plimsoll_quota::max_min;
use proptest::prelude::*;

#[test]
fn the_vectors_of_doorman() {
    assert_eq!(max_min(&[(1000, 1), (50, 1), (10, 1)], 120), [60, 50, 10]);
    assert_eq!(max_min(&[(60, 1), (50, 1), (10, 1)], 120), [60, 50, 10]);
    assert_eq!(max_min(&[(10, 1), (10, 1)], 120), [10, 10]);
    assert_eq!(max_min(&[], 120), [0; 0]);
    assert_eq!(
        max_min(&[(u64::MAX, u32::MAX), (u64::MAX, 0)], u64::MAX).len(),
        2
    );
}

proptest! {
    #[test]
    fn nobody_gets_more_without_taking_it_from_one_who_has_no_more(
        wants in prop::collection::vec((0_u64..10_000, 1_u32..5), 1..40),
        total in 0_u64..100_000,
    ) {
        let parts = max_min(&wants, total);
        let sum: u64 = parts.iter().sum();
        let wanted: u64 = wants.iter().map(|want| want.0).sum();
        prop_assert!(sum <= total);
        prop_assert!(sum + wants.len() as u64 >= total.min(wanted));
        for (part, (want, weight)) in parts.iter().zip(&wants) {
            prop_assert!(part <= want);
            if part < want {
                // Who lacks has as much by weight as anybody, but for what was rounded: less than a unit for each.
                let off = wants.len() as u64;
                for (other, (_, by)) in parts.iter().zip(&wants) {
                    prop_assert!(other * u64::from(*weight) <= (part + off) * u64::from(*by));
                }
            }
        }
    }
}
