//! The parts of protobuf that a refusal needs: `google.rpc.Status` with a `RetryInfo` and an `ErrorInfo`.

use std::time::Duration;

const ERROR_INFO: &[u8] = b"type.googleapis.com/google.rpc.ErrorInfo";
const RETRY_INFO: &[u8] = b"type.googleapis.com/google.rpc.RetryInfo";

/// The maximum of a protobuf duration, in seconds: about 10,000 years.
const LONGEST: u64 = 315_576_000_000;

/// `Status { code, message, details }`.
pub(super) fn status(code: u8, message: &str, details: &[Vec<u8>]) -> Vec<u8> {
    let mut status = Vec::new();
    number(&mut status, 1, code.into());
    bytes(&mut status, 2, message.as_bytes());
    for detail in details {
        bytes(&mut status, 3, detail);
    }
    status
}

/// `Any(RetryInfo { retry_delay })`.
pub(super) fn retry_info(retry_delay: Duration) -> Vec<u8> {
    let delay = if retry_delay.as_secs() < LONGEST {
        retry_delay
    } else {
        Duration::from_secs(LONGEST)
    };
    let mut duration = Vec::new();
    number(&mut duration, 1, delay.as_secs());
    number(&mut duration, 2, delay.subsec_nanos().into());
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &duration);
    any(RETRY_INFO, &retry_info)
}

/// `Any(ErrorInfo { reason, domain, metadata })`.
pub(super) fn error_info<'a>(
    reason: &str,
    domain: &str,
    metadata: impl Iterator<Item = (&'a str, String)>,
) -> Vec<u8> {
    let mut info = Vec::new();
    bytes(&mut info, 1, reason.as_bytes());
    bytes(&mut info, 2, domain.as_bytes());
    for (name, value) in metadata {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, value.as_bytes());
        bytes(&mut info, 3, &entry);
    }
    any(ERROR_INFO, &info)
}

fn any(of: &[u8], message: &[u8]) -> Vec<u8> {
    let mut any = Vec::new();
    bytes(&mut any, 1, of);
    bytes(&mut any, 2, message);
    any
}

/// A field of wire type 0. Zero is not written, because it is the value of a missing field.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(field << 3);
        varint(out, value);
    }
}

/// A field of wire type 2: text, or a message.
fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Seven bits in each byte, the lowest first; all but the last byte have the top bit set.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}
