//! What a scrape would see.

use plimsoll_observe::prometheus_client::encoding::text;
use plimsoll_observe::prometheus_client::registry::Registry;

/// The whole page.
pub(crate) fn page(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).expect("a string takes everything");
    page
}

/// The value of one series, by everything before it on its line.
pub(crate) fn value(registry: &Registry, series: &str) -> Option<f64> {
    let page = page(registry);
    let mut lines = page
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = number(lines.next()?);
    assert_eq!(lines.next(), None, "{series} is there twice");
    Some(value)
}

/// The sum over all series of one name.
pub(crate) fn sum(registry: &Registry, name: &str) -> f64 {
    sum_on(&page(registry), name)
}

/// The sum over all series of one name on a page.
pub(crate) fn sum_on(page: &str, name: &str) -> f64 {
    page.lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter_map(|rest| rest.rsplit_once(' '))
        .map(|(_, value)| number(value))
        .sum()
}

fn number(value: &str) -> f64 {
    value.parse().expect("values are numbers")
}
