//! Max-min fair division.

/// Divides `total` among members by demand and weight, max-min fair. Each member is `(demand, weight)`. Returns the part of each,
/// in order, in O(n log n).
///
/// A member that demands less than its fair part gets its demand, and the rest is divided among the others. No member
/// can get more without taking it from a member that has no more relative to its weight. The sum is at most `total`;
/// unless all demands are met, it is less than `total` by at most the number of members. A weight of 0 counts as 1.
///
/// ```
/// use plimsoll_quota::max_min;
///
/// let wants = [(1000, 1), (50, 1), (10, 1)];
/// assert_eq!(max_min(&wants, 120), [60, 50, 10]);
/// // By weight: the first is worth two of the second.
/// assert_eq!(max_min(&[(1000, 2), (1000, 1)], 120), [80, 40]);
/// ```
#[must_use]
pub fn max_min(wants: &[(u64, u32)], total: u64) -> Vec<u64> {
    let weight = |index: usize| u128::from(wants[index].1.max(1));
    let mut order: Vec<usize> = (0..wants.len()).collect();
    // Sorted by the level at which the demand of a member is met.
    order.sort_by(|&a, &b| {
        let (left, right) = (
            u128::from(wants[a].0) * weight(b),
            u128::from(wants[b].0) * weight(a),
        );
        left.cmp(&right).then(a.cmp(&b))
    });
    let mut weights: u128 = (0..wants.len()).map(weight).sum();
    let mut left = u128::from(total);
    let mut parts = vec![0; wants.len()];
    for index in order {
        let fair = left * weight(index) / weights;
        let part = u128::from(wants[index].0).min(fair);
        parts[index] = u64::try_from(part).unwrap_or(u64::MAX);
        left -= part;
        weights -= weight(index);
    }
    parts
}
