//! The fast path for JSON lines as servers write them: one pass, no allocation, and numbers stay text.
//!
//! Anything else (exponents, white space other than blanks, deep nesting, invalid JSON) ends the scan, and the line is read by
//! `serde_json`.

use std::borrow::Cow;

use crate::state::{Level, State, Want};

/// The deepest nesting of objects and lists.
const DEEPEST: u32 = 16;

/// Strings up to this length are scanned byte by byte.
const SHORT: usize = 16;

/// The rest of a line.
pub(crate) struct Scan<'l> {
    text: &'l str,
    at: usize,
}

impl<'l> Scan<'l> {
    /// Starts a scan. `None` if the text has control characters, which a string cannot contain.
    pub(crate) fn new(text: &'l str) -> Option<Self> {
        // Without an early exit, so that the compiler vectorises the loop.
        let control = text.bytes().fold(false, |any, byte| any | (byte < b' '));
        (!control).then_some(Self { text, at: 0 })
    }

    /// Reads an object and nothing else.
    pub(crate) fn line(mut self, state: &mut State<'_, 'l>) -> Option<()> {
        self.object(state, Level::Line)?;
        self.blanks();
        (self.at == self.text.len()).then_some(())
    }

    fn object(&mut self, state: &mut State<'_, 'l>, level: Level) -> Option<()> {
        self.expect(b'{')?;
        if self.has(b'}') {
            state.ended(level);
            return Some(());
        }
        loop {
            let (name, plain) = self.string()?;
            // A name with an escape is rare, and ends the scan.
            plain.then_some(())?;
            self.expect(b':')?;
            match state.want(level, name) {
                Want::Nothing => self.skip(0)?,
                Want::Inner(inner) => self.inner(state, name, inner)?,
                want => {
                    let text = self.value(0)?;
                    state.take(want, name, text);
                }
            }
            if self.has(b'}') {
                state.ended(level);
                return Some(());
            }
            self.expect(b',')?;
        }
    }

    fn inner(&mut self, state: &mut State<'_, 'l>, name: &str, level: Level) -> Option<()> {
        match (self.peek()?, level) {
            (b'{', _) => self.object(state, level),
            (b'"', Level::Request) => {
                let text = self.value(0)?;
                state.take(Want::Inner(level), name, text);
                Some(())
            }
            _ => None,
        }
    }

    fn blanks(&mut self) {
        while self.text.as_bytes().get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }

    /// Skips blanks, and returns the next character.
    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn has(&mut self, letter: u8) -> bool {
        let has = self.peek() == Some(letter);
        self.at += usize::from(has);
        has
    }

    fn expect(&mut self, letter: u8) -> Option<()> {
        self.has(letter).then_some(())
    }

    /// The text between quotes, and whether it has no escapes.
    fn string(&mut self) -> Option<(&'l str, bool)> {
        self.expect(b'"')?;
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut plain = true;
        loop {
            // Most strings are short, and a call of `memchr` would take longer.
            let rest = &bytes[self.at..];
            let mut near = rest.iter().take(SHORT);
            self.at += match near.position(|byte| matches!(byte, b'"' | b'\\')) {
                Some(at) => at,
                None => memchr::memchr2(b'"', b'\\', rest)?,
            };
            if bytes[self.at] == b'"' {
                self.at += 1;
                return Some((&self.text[start..self.at - 1], plain));
            }
            plain = false;
            self.at += match bytes.get(self.at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                b'u' => {
                    let digits = bytes.get(self.at + 2..self.at + 6)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
                }
                _ => return None,
            };
        }
    }

    /// Reads a number without an exponent.
    fn number(&mut self) -> Option<&'l str> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        self.at += usize::from(bytes.get(start) == Some(&b'-'));
        let first = *bytes.get(self.at)?;
        let whole = self.digits()?;
        if first == b'0' && whole > 1 {
            return None;
        }
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        let ends = !matches!(bytes.get(self.at), Some(b'e' | b'E'));
        ends.then(|| &self.text[start..self.at])
    }

    /// Skips digits and returns their number. `None` if there are none.
    fn digits(&mut self) -> Option<usize> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(count)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let is = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        is.then_some(())
    }

    /// The text of a value. For a list its first value, for an object an empty text.
    fn value(&mut self, depth: u32) -> Option<Cow<'l, str>> {
        match self.peek()? {
            b'"' => {
                let start = self.at;
                match self.string()? {
                    (text, true) => Some(Cow::Borrowed(text)),
                    (_, false) => {
                        let quoted = &self.text[start..self.at];
                        let text: String = serde_json::from_str(quoted).ok()?;
                        Some(Cow::Owned(text))
                    }
                }
            }
            b'-' | b'0'..=b'9' => self.number().map(Cow::Borrowed),
            b'[' => {
                (depth < DEEPEST).then_some(())?;
                self.at += 1;
                if self.has(b']') {
                    return Some(Cow::Borrowed(""));
                }
                let first = self.value(depth + 1)?;
                while !self.has(b']') {
                    self.expect(b',')?;
                    self.skip(depth + 1)?;
                }
                Some(first)
            }
            _ => {
                self.skip(depth)?;
                Some(Cow::Borrowed(""))
            }
        }
    }

    fn skip(&mut self, depth: u32) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'[' if depth < DEEPEST => {
                self.at += 1;
                if self.has(b']') {
                    return Some(());
                }
                loop {
                    self.skip(depth + 1)?;
                    if self.has(b']') {
                        return Some(());
                    }
                    self.expect(b',')?;
                }
            }
            b'{' if depth < DEEPEST => {
                self.at += 1;
                if self.has(b'}') {
                    return Some(());
                }
                loop {
                    self.string()?;
                    self.expect(b':')?;
                    self.skip(depth + 1)?;
                    if self.has(b'}') {
                        return Some(());
                    }
                    self.expect(b',')?;
                }
            }
            _ => None,
        }
    }
}
