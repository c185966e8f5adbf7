//! Lines of JSON: those of Caddy, of Traefik and of Envoy, and of others whose fields have the same names or nginx'.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::fields::Field;
use crate::record::{Record, Why};
use crate::time::DurationUnit;

/// Reads a line. `unit` is that of durations where nobody says; Caddy writes seconds and Envoy milliseconds.
pub(crate) fn read(line: &str, unit: Option<DurationUnit>, to: &mut Record) -> Result<(), Why> {
    let mut state = State {
        to,
        duration: None,
        caddy: false,
        why: None,
    };
    let mut json = serde_json::Deserializer::from_str(line);
    let read = Object {
        state: &mut state,
        level: Level::Line,
    }
    .deserialize(&mut json);
    if read.is_err() || json.end().is_err() {
        return Err("it is not an object of JSON");
    }
    let State {
        duration,
        caddy,
        why,
        ..
    } = state;
    if let Some(why) = why {
        return Err(why);
    }
    if let Some(text) = duration {
        let unit = unit.unwrap_or(if caddy {
            DurationUnit::Seconds
        } else {
            DurationUnit::Millis
        });
        Field::DurationOf.set("", &text, unit, to)?;
    }
    to.complete()
}

struct State<'r, 'l> {
    to: &'r mut Record,
    /// A duration whose unit is known when the whole line was read.
    duration: Option<Cow<'l, str>>,
    /// Whether a request is an object of its own.
    caddy: bool,
    why: Option<Why>,
}

/// Which object is read.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Line,
    /// `request` of Caddy.
    Request,
    /// `headers` of that.
    Headers,
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
            if self.level == Level::Headers {
                let Text(value) = map.next_value()?;
                self.state.to.add_header(&name, &value);
                continue;
            }
            let inner = match (self.level, &*name) {
                (Level::Line, "request") => Some(Level::Request),
                (Level::Request, "headers") => Some(Level::Headers),
                _ => None,
            };
            if let Some(level) = inner {
                map.next_value_seed(Object {
                    state: self.state,
                    level,
                })?;
                continue;
            }
            match Field::named(&name) {
                // The peer of Caddy, where it trusts no proxy, is the client too.
                Some(Field::Client) if &*name == "remote_ip" && self.state.to.client.is_some() => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(Field::DurationOf) => {
                    let Text(text) = map.next_value()?;
                    self.state.duration = Some(text);
                }
                Some(field) => {
                    let Text(text) = map.next_value()?;
                    if let Err(why) = field.set(&name, &text, DurationUnit::Seconds, self.state.to)
                    {
                        self.state.why = Some(why);
                    }
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if self.level == Level::Request {
            self.state.caddy = true;
        }
        Ok(())
    }

    /// `request` of nginx is the line of the request.
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if self.level == Level::Line {
            return Err(E::custom("no object"));
        }
        if let Err(why) = self.state.to.set_request(text) {
            self.state.why = Some(why);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A text, or a number as it would be written. The first of a list.
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
                // It was written with a fraction, so it is known to more than the second.
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
