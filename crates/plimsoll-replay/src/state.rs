//! Collects the fields of a JSON line into a record, for both readers.

use std::borrow::Cow;

use crate::duration::DurationUnit;
use crate::fields::Field;
use crate::record::{Record, Why};
use crate::wanted::Wanted;

/// The fields of a line that were read so far.
pub(crate) struct State<'r, 'l> {
    pub(crate) to: &'r mut Record,
    pub(crate) wanted: &'r mut Wanted,
    /// A duration whose unit is known only after the whole line has been read.
    duration: Option<Cow<'l, str>>,
    /// Whether the request is a nested object, as in logs of Caddy.
    caddy: bool,
    why: Option<Why>,
}

/// The object that is being read.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Level {
    Line,
    /// `request` of Caddy.
    Request,
    /// `headers` in `request` of Caddy.
    Headers,
}

/// The use of a value.
#[derive(Clone, Copy)]
pub(crate) enum Want {
    /// A nested object, or `request` of nginx.
    Inner(Level),
    Header,
    Field(Field),
    Nothing,
}

impl<'r, 'l> State<'r, 'l> {
    pub(crate) const fn new(wanted: &'r mut Wanted, to: &'r mut Record) -> Self {
        Self {
            to,
            wanted,
            duration: None,
            caddy: false,
            why: None,
        }
    }

    /// The use of the value with this name.
    pub(crate) fn want(&mut self, level: Level, name: &str) -> Want {
        match (level, name) {
            (Level::Headers, name) if self.wanted.header(name) => return Want::Header,
            (Level::Headers, _) => return Want::Nothing,
            (Level::Line, "request") => return Want::Inner(Level::Request),
            (Level::Request, "headers") => return Want::Inner(Level::Headers),
            _ => {}
        }
        match Field::named(name) {
            // If Caddy trusts no proxy, its peer is also the client.
            Some(Field::Client) if name == "remote_ip" && self.to.client.is_some() => Want::Nothing,
            Some(Field::Header(name)) if !self.wanted.header(name) => Want::Nothing,
            Some(field) => Want::Field(field),
            None => Want::Nothing,
        }
    }

    /// Sets a wanted value from its text.
    pub(crate) fn take(&mut self, want: Want, name: &str, text: Cow<'l, str>) {
        match want {
            Want::Header => self.to.add_header(name, &text),
            Want::Field(Field::DurationOf) => self.duration = Some(text),
            Want::Field(field) => {
                if let Err(why) = field.set(name, &text, DurationUnit::Seconds, self.to) {
                    self.why = Some(why);
                }
            }
            Want::Inner(_) => self.request(&text),
            Want::Nothing => {}
        }
    }

    /// Sets the request from `request` of nginx, which is the request line.
    pub(crate) fn request(&mut self, text: &str) {
        if let Err(why) = self.to.set_request(text) {
            self.why = Some(why);
        }
    }

    /// Ends an object.
    pub(crate) fn ended(&mut self, level: Level) {
        if level == Level::Request {
            self.caddy = true;
        }
    }

    pub(crate) fn finish(self, unit: Option<DurationUnit>) -> Result<(), Why> {
        if let Some(why) = self.why {
            return Err(why);
        }
        if let Some(text) = self.duration {
            let unit = unit.unwrap_or(if self.caddy {
                DurationUnit::Seconds
            } else {
                DurationUnit::Millis
            });
            Field::DurationOf.set("", &text, unit, self.to)?;
        }
        self.to.complete()
    }
}
