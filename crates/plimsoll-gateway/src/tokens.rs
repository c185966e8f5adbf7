//! Reads token usage from responses: `usage` in the format of `OpenAI`, in whole or streamed responses.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::{memchr, memmem};
use plimsoll_tower::Usage;
use serde_json::Value;

/// The largest number of bytes of a response, or of a line of a streamed one, that are stored. Usage is at the end.
const KEPT: usize = 64 * 1024;

/// Reads the usage of a response while it passes.
pub(crate) struct Tokens {
    usage: Usage,
    is_stream: bool,
    /// The last bytes of the response, or of the line.
    tail: Vec<u8>,
    told: Option<u64>,
}

impl Tokens {
    /// A reader for a response with these header fields. `None` if its format has no usage, which is then unknown.
    pub(crate) fn of(headers: &HeaderMap, usage: Usage) -> Option<Self> {
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind
            .and_then(|kind| kind.split(';').next())
            .unwrap_or_default()
            .trim();
        let is_stream = kind.eq_ignore_ascii_case("text/event-stream");
        let is_json = kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json");
        if !(is_stream || is_json) {
            usage.unknown();
            return None;
        }
        Some(Self {
            usage,
            is_stream,
            tail: Vec::new(),
            told: None,
        })
    }

    /// Reads the next part of the response.
    pub(crate) fn see(&mut self, mut data: &[u8]) {
        while self.is_stream
            && let Some(end) = memchr(b'\n', data)
        {
            self.keep(&data[..end]);
            data = &data[end + 1..];
            if self.tail.starts_with(b"data:") {
                self.report();
            }
            self.tail.clear();
        }
        self.keep(data);
    }

    /// Ends the response. If it has no usage, the cost that was charged before stays.
    pub(crate) fn end(mut self) {
        self.report();
        match self.told {
            Some(_) => self.usage.finish(),
            None => self.usage.unknown(),
        }
    }

    fn keep(&mut self, data: &[u8]) {
        let data = &data[data.len().saturating_sub(KEPT)..];
        if self.tail.len() + data.len() > 2 * KEPT {
            // Not for every part, because removing bytes moves the stored ones.
            let start = self.tail.len().saturating_sub(KEPT);
            self.tail.drain(..start);
            if self.is_stream {
                // The cut line is still marked as data.
                self.tail.splice(..5.min(start), *b"data:");
            }
        }
        self.tail.extend_from_slice(data);
    }

    /// Adds the usage beyond that of earlier reports: streams may report the total repeatedly.
    fn report(&mut self) {
        if let Some(total) = usage_in(&self.tail) {
            let before = self.told.unwrap_or(0);
            self.usage.add(total.saturating_sub(before));
            self.told = Some(total.max(before));
        }
    }
}

/// The tokens of the last object `"usage": {…}` in a text. Within a JSON string its quotation marks would be escaped.
fn usage_in(text: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"\"usage\"";
    let starts: Vec<usize> = memmem::find_iter(text, NAME).collect();
    starts.into_iter().rev().find_map(|start| {
        if start > 0 && text[start - 1] == b'\\' {
            return None;
        }
        let after = text[start + NAME.len()..].trim_ascii_start();
        let object = after.strip_prefix(b":")?;
        let mut values = serde_json::Deserializer::from_slice(object).into_iter::<Value>();
        total(&values.next()?.ok()?)
    })
}

/// `total_tokens`, or the sum of input and output tokens.
fn total(usage: &Value) -> Option<u64> {
    let number = |names: [&str; 2]| names.into_iter().find_map(|name| usage.get(name)?.as_u64());
    let parts = || {
        let (input, output) = (
            number(["prompt_tokens", "input_tokens"]),
            number(["completion_tokens", "output_tokens"]),
        );
        match (input, output) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        }
    };
    usage
        .get("total_tokens")
        .and_then(Value::as_u64)
        .or_else(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, parts: &[&[u8]]) -> (u64, bool, usize) {
        let headers = [(CONTENT_TYPE, kind.parse().expect("a type"))];
        let usage = Usage::default();
        let mut tokens = Tokens::of(&headers.into_iter().collect(), usage.clone()).expect("read");
        let mut kept = 0;
        for part in parts {
            tokens.see(part);
            kept = kept.max(tokens.tail.len());
        }
        tokens.end();
        (usage.total(), usage.is_final(), kept)
    }

    const STREAM: &str = "text/event-stream; charset=utf-8";

    #[test]
    fn whole_answers() {
        let text = br#"{"choices":[{"message":{"content":"\"usage\": {\"total_tokens\": 9}"}}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#;
        assert_eq!(read("application/json", &[text]).0, 7);
        // The result does not depend on the size of the parts.
        for size in 1..text.len() {
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(read("application/json", &parts).0, 7, "{size}");
        }
        let long = [
            br#"{"data":""#,
            &[b'x'; 1 << 20][..],
            br#"","usage":{"input_tokens":2,"output_tokens":3}}"#,
        ]
        .concat();
        let (total, is_final, kept) = read("application/json", &[&long]);
        assert_eq!((total, is_final), (5, true));
        assert!(kept <= 2 * KEPT);
    }

    #[test]
    fn streamed_answers() {
        let text = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n\
            data: {\"usage\":{\"total_tokens\":5}}\r\n\r\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":12}}\n\ndata: [DONE]\n\n";
        for size in 1..text.len() {
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            let (total, is_final, _) = read(STREAM, &parts);
            assert_eq!((total, is_final), (12, true), "{size}");
        }
        // The other format, in which the last event contains the whole response.
        let text =
            b"event: response.completed\ndata: {\"response\":{\"usage\":{\"total_tokens\":8}}}\n\n";
        assert_eq!(read(STREAM, &[text]).0, 8);
        // A line without an end is not stored in full.
        let many = vec![&b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"[..]; 10_000];
        let (total, is_final, kept) = read(STREAM, &many);
        assert_eq!((total, is_final), (0, false));
        assert!(kept <= 2 * KEPT);
        let mut long = vec![&b"data: {\"x\":\""[..]];
        long.extend(vec![&[b'x'; 10_000][..]; 100]);
        long.push(b"\",\"usage\":{\"total_tokens\":4}}\n");
        assert_eq!(read(STREAM, &long).0, 4);
    }

    #[test]
    fn what_says_nothing() {
        for text in [
            &b"{\"usage\":null}"[..],
            b"{\"usage\":",
            b"\"usage\"",
            b"{\"usage\":{\"total_tokens\":-1}}",
            b"",
        ] {
            assert_eq!(read("application/json", &[text]).0, 0);
        }
        let headers = [(CONTENT_TYPE, "text/html".parse().expect("a type"))];
        assert!(Tokens::of(&headers.into_iter().collect(), Usage::default()).is_none());
    }
}
