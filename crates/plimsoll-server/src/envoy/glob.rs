//! Patterns in which `*` matches any text, including the empty text.

/// Whether `text` matches `pattern`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The leftmost match of a part leaves the most text for the parts after it.
    for part in middle.split('*') {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_text() {
        let cases = [
            ("foo*", "foo", true),
            ("foo*", "foo1", true),
            ("foo*", "fo", false),
            ("bar*b", "barab", true),
            ("bar*b", "barb", true),
            ("bar*b", "bar", false),
            ("bar*b", "bara", false),
            ("bar*b", "xbarb", false),
            ("foo*bar*baz", "foo123bar456baz", true),
            ("foo*bar*baz", "foobarbaz", true),
            ("foo*bar*baz", "foo123baz", false),
            ("foo*bar*baz", "bar456baz", false),
            ("foo*bar*baz", "foobarba", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "anything", true),
            ("*é*", "café!", true),
            ("plain", "plain", true),
            ("plain", "plainer", false),
        ];
        for (pattern, text, fits) in cases {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
