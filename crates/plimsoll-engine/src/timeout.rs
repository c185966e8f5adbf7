//! The time-out of a caller, read from the header fields of its request.

use std::time::Duration;

use plimsoll_tower::Head;

/// Sent by gRPC clients: up to eight digits and a unit.
const GRPC_TIMEOUT: &str = "grpc-timeout";
/// Added by Envoy to the requests that it forwards: whole milliseconds.
const ENVOY_TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";

/// The time after which the caller times out, if the request has a header field for it. A malformed field counts as
/// none.
pub(crate) fn caller_timeout(head: &Head<'_>) -> Option<Duration> {
    let grpc = || grpc_timeout(head.header(GRPC_TIMEOUT)?);
    let envoy = || Some(Duration::from_millis(number(head.header(ENVOY_TIMEOUT)?)?));
    grpc().or_else(envoy)
}

fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "H" => Duration::from_secs(3600),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    let times = u32::try_from(number(digits).filter(|_| digits.len() <= 8)?).ok()?;
    unit.checked_mul(times)
}

/// A number that consists of digits only.
fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_say_how_long_they_wait() {
        let said = |name: &str, value: &str| {
            let request = http::Request::get("/").header(name, value).body(());
            caller_timeout(&Head::of(&request.expect("a request")))
        };
        for (value, wanted) in [
            ("100m", Some(Duration::from_millis(100))),
            ("2S", Some(Duration::from_secs(2))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("0n", Some(Duration::ZERO)),
            ("7u", Some(Duration::from_micros(7))),
            ("3M", Some(Duration::from_secs(180))),
            ("100000000m", None),
            ("m", None),
            ("", None),
            ("-1m", None),
            ("1.5S", None),
            ("1s", None),
            ("12", None),
        ] {
            assert_eq!(said(GRPC_TIMEOUT, value), wanted, "{value}");
        }
        let envoy = |value| said(ENVOY_TIMEOUT, value);
        assert_eq!(envoy("250"), Some(Duration::from_millis(250)));
        for bad in ["", "1s", "+1", "99999999999999999999"] {
            assert_eq!(envoy(bad), None, "{bad}");
        }
        assert_eq!(said("x-other", "1"), None);
    }
}
