//! The messages of the service as JSON, by the JSON mapping of protobuf.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::metadata;
use super::proto::{
    Code, DescriptorStatus, Entry, HeaderValue, RateLimitDescriptor, RateLimitOverride,
    RateLimitRequest, RateLimitResponse, Unit,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[derive(Default)]
struct Request {
    domain: String,
    descriptors: Vec<Descriptor>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Descriptor {
    entries: Vec<Pair>,
    limit: Option<Override>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Pair {
    key: String,
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Override {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number>,
    unit: Option<Word>,
    #[serde(alias = "unit_multiplier")]
    unit_multiplier: Option<Number>,
}

/// A number, or a string of digits.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Quoted(String),
}

/// The name or the number of an enum value.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Name(String),
    Number(i32),
}

impl Number {
    fn get(&self, what: &str, most: u64) -> Result<u64, String> {
        let number = match self {
            Self::Plain(number) => Some(*number),
            Self::Quoted(text) => text.parse().ok(),
        };
        let number = number.filter(|number| *number <= most);
        number.ok_or_else(|| format!("{what}: expected a whole number from 0 to {most}"))
    }

    fn small(this: Option<&Self>, what: &str) -> Result<Option<u32>, String> {
        let number = this.map(|it| it.get(what, u32::MAX.into())).transpose()?;
        Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
    }
}

/// Parses a request.
pub(super) fn request(body: &[u8]) -> Result<RateLimitRequest, String> {
    let request: Request = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let hits = Number::small(request.hits_addend.as_ref(), "hitsAddend")?;
    let descriptors = request.descriptors.iter().map(descriptor);
    Ok(RateLimitRequest {
        descriptors: descriptors.collect::<Result<_, _>>()?,
        hits_addend: hits.unwrap_or_default(),
        domain: request.domain,
    })
}

fn descriptor(from: &Descriptor) -> Result<RateLimitDescriptor, String> {
    let limit = from.limit.as_ref().map(|limit| {
        let requests = Number::small(limit.requests_per_unit.as_ref(), "requestsPerUnit")?;
        let multiplier = Number::small(limit.unit_multiplier.as_ref(), "unitMultiplier")?;
        let unit = match &limit.unit {
            None => Unit::Unknown.into(),
            Some(Word::Number(number)) => *number,
            Some(Word::Name(name)) => Unit::of(name)
                .ok_or_else(|| format!("unit: expected SECOND to WEEK, found {name:?}"))?
                .into(),
        };
        Ok::<_, String>(RateLimitOverride {
            requests_per_unit: requests.unwrap_or_default(),
            unit,
            unit_multiplier: multiplier,
        })
    });
    let hits = from.hits_addend.as_ref();
    Ok(RateLimitDescriptor {
        entries: from
            .entries
            .iter()
            .map(|pair| Entry {
                key: pair.key.clone(),
                value: pair.value.clone(),
            })
            .collect(),
        limit: limit.transpose()?,
        hits_addend: hits
            .map(|hits| hits.get("hitsAddend", u64::MAX))
            .transpose()?,
        is_negative_hits: from.is_negative_hits,
    })
}

/// Serializes a response. Omits fields that are 0 or empty.
pub(super) fn response(response: &RateLimitResponse) -> Value {
    let mut all = Map::new();
    all.insert("overallCode".into(), code(response.overall_code).into());
    put(&mut all, "statuses", response.statuses.iter().map(status));
    let headers = response.response_headers_to_add.iter();
    put(&mut all, "responseHeadersToAdd", headers.map(header));
    let headers = response.request_headers_to_add.iter();
    put(&mut all, "requestHeadersToAdd", headers.map(header));
    if !response.raw_body.is_empty() {
        all.insert("rawBody".into(), base64(&response.raw_body).into());
    }
    if let Some(map) = &response.dynamic_metadata {
        all.insert("dynamicMetadata".into(), metadata::map_to_json(map));
    }
    all.into()
}

fn put(all: &mut Map<String, Value>, name: &str, values: impl Iterator<Item = Value>) {
    let values: Vec<Value> = values.collect();
    if !values.is_empty() {
        all.insert(name.to_owned(), values.into());
    }
}

fn code(code: i32) -> &'static str {
    match Code::try_from(code) {
        Ok(Code::Ok) => "OK",
        Ok(Code::OverLimit) => "OVER_LIMIT",
        _ => "UNKNOWN",
    }
}

fn status(status: &DescriptorStatus) -> Value {
    let mut all = Map::new();
    all.insert("code".into(), code(status.code).into());
    if let Some(limit) = &status.current_limit {
        let mut fields = Map::new();
        if !limit.name.is_empty() {
            fields.insert("name".into(), limit.name.as_str().into());
        }
        if limit.requests_per_unit > 0 {
            fields.insert("requestsPerUnit".into(), limit.requests_per_unit.into());
        }
        let unit = Unit::try_from(limit.unit).unwrap_or(Unit::Unknown);
        if unit != Unit::Unknown {
            fields.insert("unit".into(), unit.name().into());
        }
        if let Some(multiplier) = limit.unit_multiplier {
            fields.insert("unitMultiplier".into(), multiplier.into());
        }
        all.insert("currentLimit".into(), fields.into());
    }
    if status.limit_remaining > 0 {
        all.insert("limitRemaining".into(), status.limit_remaining.into());
    }
    if let Some(reset) = &status.duration_until_reset {
        all.insert(
            "durationUntilReset".into(),
            format!("{}s", reset.seconds).into(),
        );
    }
    all.into()
}

fn header(header: &HeaderValue) -> Value {
    json!({ "key": header.key, "value": header.value })
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() {
                letter.into()
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_are_written_in_base_64() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
