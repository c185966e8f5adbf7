//! The syntax of the fields: lists of items with parameters as in RFC 9651, parsed leniently.

/// An item of a list.
pub(super) struct Item<'a> {
    /// Its text, without quotes; escapes are not resolved.
    pub(super) text: &'a str,
    parameters: &'a str,
}

impl<'a> Item<'a> {
    /// A parameter that is a number and not negative. A fraction is rounded up.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        let value = self
            .parameters()
            .find_map(|(known, value)| (known == key).then_some(value));
        number(value?)
    }

    fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        split(self.parameters, b';').filter_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            Some((key.trim(), value.trim()))
        })
    }
}

/// The items of a list.
pub(super) fn items(list: &str) -> impl Iterator<Item = Item<'_>> {
    split(list, b',').map(|item| {
        let end = split(item, b';').next().map_or(0, str::len);
        let (text, parameters) = item.split_at(end);
        Item {
            text: text.trim().trim_matches('"'),
            parameters,
        }
    })
}

/// The parts between separators that are not in quotes.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = whole.bytes().position(|byte| {
            let ends = byte == separator && !is_quoted;
            is_quoted ^= byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && is_quoted && !is_escaped;
            ends
        });
        // The separator is a single byte.
        rest = end.map(|end| &whole[end + 1..]);
        Some(&whole[..end.unwrap_or(whole.len())])
    })
}

/// A number that is not negative. A fraction is rounded up; a number that does not fit saturates.
pub(super) fn number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let whole = whole.parse().unwrap_or(u64::MAX);
    let is_more = fraction.bytes().any(|byte| byte != b'0');
    Some(whole.saturating_add(is_more.into()))
}
