//! Lines of JSON: those of Caddy, Traefik and Envoy, and of any server whose fields have the same names or those of nginx.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::duration::DurationUnit;
use crate::record::{Record, Why};
use crate::scan::Scan;
use crate::state::{Level, State, Want};
use crate::wanted::Wanted;

/// Reads a line. `unit` is the unit of durations that the format does not define; Caddy writes seconds and Envoy milliseconds.
pub(crate) fn read(
    line: &str,
    unit: Option<DurationUnit>,
    wanted: &mut Wanted,
    to: &mut Record,
) -> Result<(), Why> {
    let mut state = State::new(wanted, to);
    // A line that the fast path cannot read is read by the slow path, which also decides whether it is wrong.
    if Scan::new(line)
        .and_then(|scan| scan.line(&mut state))
        .is_none()
    {
        state.to.clear();
        state = State::new(state.wanted, state.to);
        let mut json = serde_json::Deserializer::from_str(line);
        let read = Object {
            state: &mut state,
            level: Level::Line,
        }
        .deserialize(&mut json);
        if read.is_err() || json.end().is_err() {
            return Err("it is not an object of JSON");
        }
    }
    state.finish(unit)
}

struct Object<'s, 'r, 'l> {
    state: &'s mut State<'r, 'l>,
    level: Level,
}

impl<'l> DeserializeSeed<'l> for Object<'_, '_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for Object<'_, '_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a log")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            let want = self.state.want(self.level, &name);
            match want {
                Want::Inner(level) => map.next_value_seed(Object {
                    state: self.state,
                    level,
                })?,
                Want::Nothing => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    let Text(text) = map.next_value()?;
                    self.state.take(want, &name, text);
                }
            }
        }
        self.state.ended(self.level);
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if self.level == Level::Line {
            return Err(E::custom("no object"));
        }
        self.state.request(text);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A text, a number as it is written, or the first of a list of them.
#[derive(Default)]
struct Text<'l>(Cow<'l, str>);

impl<'l> serde::Deserialize<'l> for Text<'l> {
    fn deserialize<D: Deserializer<'l>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'l> Visitor<'l> for Any {
            type Value = Text<'l>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_borrowed_str<E>(self, text: &'l str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                let mut text = number.to_string();
                // Without a fraction the moment is known only to the second.
                if !text.contains('.') {
                    text.push_str(".0");
                }
                Ok(Text(Cow::Owned(text)))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Text::default())
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }

            fn visit_seq<A: SeqAccess<'l>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let first = list.next_element()?.unwrap_or_default();
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(first)
            }

            fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the fast path reads a line, and the record that either path reads.
    fn read(line: &str) -> (bool, Result<String, &'static str>) {
        let (mut wanted, mut record) = (Wanted::default(), Record::default());
        let quick = {
            let mut state = State::new(&mut wanted, &mut record);
            Scan::new(line)
                .and_then(|scan| scan.line(&mut state))
                .is_some()
        };
        record.clear();
        let read = super::read(line, None, &mut wanted, &mut record);
        (quick, read.map(|()| format!("{record:?}")))
    }

    #[test]
    fn what_it_reads_is_what_the_other_reader_reads() {
        let line = r#"{"ts":1794744001.25,"a":[1,{"b":null},[]],"c":{},"request":{"uri":"/a\u0026b","headers":{"X-A":["b","c"],"X-B":[]}},"duration":0.5,"status":200,"size":-0.5}"#;
        // Both readers skip a blank. The scan leaves a tab to serde.
        for (from, to) in [
            ("", ""),
            (":", ": "),
            ("1794744001.25", "1794744001.250000"),
            ("[]", "[ ]"),
            ("null", "true"),
        ] {
            let line = line.replace(from, to);
            let (quick, one) = read(&line);
            let (slow, two) = read(&line.replacen('{', "{\t", 1));
            assert_eq!((quick, slow), (true, false), "{line}");
            assert_eq!(one, two, "{line}");
        }
        // A line that one of them cannot read, the other cannot read either.
        let mut changed = 0;
        for at in 0..line.len() {
            for letter in [
                "", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", " ", "x", "\u{1}",
            ] {
                let line = [&line[..at], letter, &line[at + 1..]].concat();
                let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&line).is_ok();
                let (quick, _) = read(&line);
                assert!(is_json || !quick, "{line}");
                changed += u32::from(quick);
            }
        }
        assert!(changed > 100, "{changed}");
    }
}
