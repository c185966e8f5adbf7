//! Keys as text.

use std::fmt::{Display, Write};

/// Keys of up to this many bytes are written without an allocation.
const SHORT: usize = 96;

/// Calls `with` with the text of a key.
pub(crate) fn with_text<T>(key: &(impl Display + ?Sized), with: impl FnOnce(&str) -> T) -> T {
    let mut text = Text::default();
    // If the `Display` of a key fails, the key is what it has written so far.
    let _ = write!(text, "{key}");
    with(text.as_str())
}

/// Text that stays on the stack while it is short.
struct Text {
    short: [u8; SHORT],
    length: usize,
    long: String,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            short: [0; SHORT],
            length: 0,
            long: String::new(),
        }
    }
}

impl Text {
    fn as_str(&self) -> &str {
        if !self.long.is_empty() {
            return &self.long;
        }
        // Only whole strings were written.
        std::str::from_utf8(&self.short[..self.length]).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let end = self.length + part.len();
        if self.long.is_empty() && end <= SHORT {
            self.short[self.length..end].copy_from_slice(part.as_bytes());
            self.length = end;
            return Ok(());
        }
        if self.long.is_empty() {
            let short = self.as_str().to_owned();
            self.long = short;
        }
        self.long.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_it_writes_however_long_it_is() {
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 1000] {
            let key = "ä".repeat(length);
            with_text(&key, |text| assert_eq!(text, key));
            with_text(&format_args!("{key}/{length}/{key}"), |text| {
                assert_eq!(text, format!("{key}/{length}/{key}"));
            });
        }
    }
}
