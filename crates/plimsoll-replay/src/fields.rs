//! Fields of records by the names that servers give them.

use crate::duration::{self, DurationUnit};
use crate::record::{Record, Why};
use crate::time;

/// The meaning of a named value of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    /// The arrival of the request.
    Start,
    /// The moment of the answer.
    End,
    Duration(DurationUnit),
    /// A duration with a unit that depends on the server.
    DurationOf,
    Method,
    Target,
    /// A path, used if there is no target.
    Path,
    /// Method, target and version.
    Request,
    Host,
    /// The address of the peer.
    Client,
    Status,
    Sent,
    Received,
    Header(&'static str),
    /// A header field, whose name follows a prefix of this many letters.
    Prefixed(usize),
}

impl Field {
    /// The field of this name in logs of Traefik, Envoy and nginx, and in CSV files.
    pub(crate) fn named(name: &str) -> Option<Self> {
        use DurationUnit::{Micros, Millis, Nanos, Seconds};
        Some(match name {
            "StartUTC" | "start_time" | "start" | "started_at" => Self::Start,
            "ts" | "time" | "timestamp" | "@timestamp" | "time_iso8601" | "time_local" | "msec"
            | "end" => Self::End,
            "Duration" | "duration_ns" => Self::Duration(Nanos),
            "request_time" | "duration_s" | "duration_seconds" => Self::Duration(Seconds),
            "duration_ms" | "latency_ms" | "elapsed_ms" | "response_time_ms" => {
                Self::Duration(Millis)
            }
            "duration_us" | "latency_us" => Self::Duration(Micros),
            "duration" | "latency" => Self::DurationOf,
            "method" | "RequestMethod" | "request_method" | "verb" => Self::Method,
            "uri"
            | "RequestPath"
            | "request_uri"
            | "x-envoy-origin-path"
            | "x-envoy-original-path"
            | "target"
            | "url" => Self::Target,
            "path" | "request_path" => Self::Path,
            "request" | "request_line" => Self::Request,
            "host" | "RequestHost" | "authority" | ":authority" | "http_host" | "server_name" => {
                Self::Host
            }
            "client_ip"
            | "ClientHost"
            | "downstream_remote_address"
            | "remote_addr"
            | "remote_ip"
            | "client"
            | "clientip"
            | "ip"
            | "remote"
            | "client_address" => Self::Client,
            "status" | "DownstreamStatus" | "response_code" | "response" | "status_code" => {
                Self::Status
            }
            "size"
            | "DownstreamContentSize"
            | "bytes_sent"
            | "body_bytes_sent"
            | "bytes"
            | "sent" => Self::Sent,
            "bytes_read" | "RequestContentSize" | "bytes_received" | "content_length"
            | "received" => Self::Received,
            "x_forwarded_for" | "x-forwarded-for" | "xff" | "http_x_forwarded_for" => {
                Self::Header("x-forwarded-for")
            }
            "user_agent" | "user-agent" | "agent" | "http_user_agent" => Self::Header("user-agent"),
            "referer" | "referrer" | "http_referer" => Self::Header("referer"),
            "request_id" | "x-request-id" | "x_request_id" => Self::Header("x-request-id"),
            // Traefik: `request_X-User`. A CSV file: `header:x-user`.
            name if name.starts_with("request_") => Self::Prefixed("request_".len()),
            name if name.starts_with("header:") => Self::Prefixed("header:".len()),
            _ => return None,
        })
    }

    /// Sets this field of a record. `unit` is the unit of durations that are written without one.
    pub(crate) fn set(
        self,
        name: &str,
        text: &str,
        unit: DurationUnit,
        to: &mut Record,
    ) -> Result<(), Why> {
        if text.is_empty() || text == "-" {
            return Ok(());
        }
        match self {
            Self::Start | Self::End => {
                let stamp = time::any(text.as_bytes()).ok_or("its moment cannot be read")?;
                // If a line has both, the arrival is used.
                if self == Self::Start || !to.starts {
                    (to.stamp, to.rough, to.starts) =
                        (stamp.nanos, stamp.rough, self == Self::Start);
                }
            }
            Self::Duration(unit) => {
                to.duration = Some(
                    duration::duration(text.as_bytes(), unit)
                        .ok_or("its duration cannot be read")?,
                )
            }
            Self::DurationOf => {
                to.duration = Some(
                    duration::duration(text.as_bytes(), unit)
                        .ok_or("its duration cannot be read")?,
                )
            }
            Self::Method => to.set_method(text),
            Self::Target => to.set_target(path_of(text)),
            Self::Path if to.target().is_empty() => to.set_target(path_of(text)),
            Self::Path => {}
            Self::Request => to.set_request(text)?,
            Self::Host => to.set_host(text),
            Self::Client => to.set_client(text),
            Self::Status => {
                to.status = text
                    .trim()
                    .parse()
                    .map_err(|_| "its status is not a number")?
            }
            Self::Sent => to.sent = Some(whole(text).ok_or("its bytes are not a number")?),
            Self::Received => to.received = Some(whole(text).ok_or("its bytes are not a number")?),
            Self::Header(name) => to.add_header(name, text),
            Self::Prefixed(length) => to.add_header(&name[length..], text),
        }
        Ok(())
    }
}

/// Parses a whole number that may have a fraction of zero, as serialisers of floats write it.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.split_once('.').map_or(text, |(whole, _)| whole);
    crate::common::number(text)
}

/// The path and the query of a URL.
fn path_of(text: &str) -> &str {
    let Some((_, rest)) = text.split_once("://") else {
        return text;
    };
    rest.find('/').map_or("/", |at| &rest[at..])
}
