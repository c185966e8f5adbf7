//! The result of each descriptor, and the response that is built from the results.

use std::time::Duration;

use http::HeaderMap;
use plimsoll::Standing;
use plimsoll_tower::answer::{Fields, LimitStatus};

use super::metadata::{Map, Value};
use super::proto::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};

/// The result of a descriptor.
#[derive(Debug, Default)]
pub(super) struct DescriptorResult<'a> {
    /// The binding limit, if there is one.
    pub(super) limit: Option<Limit<'a>>,
    /// The remaining requests. `u64::MAX` without a limit.
    pub(super) remaining: u64,
    /// Whether the descriptor is above its limit.
    pub(super) over: bool,
    /// Whether its limit is in shadow mode.
    pub(super) shadow: bool,
    /// Whether its limit is a quota: the request is admitted if one quota remains.
    pub(super) quota: bool,
    pub(super) reset: Option<Duration>,
    /// The time to the next retry, if it is above its limit.
    pub(super) retry_after: Option<Duration>,
    /// The reason of the refusal.
    pub(super) reason: Option<&'static str>,
    /// The limits in shadow mode, and whether each would have refused.
    pub(super) shadow_verdicts: Vec<(&'a str, bool)>,
    /// The metadata that the configuration sets for the proxy.
    pub(super) metadata: Option<&'a Map>,
}

/// A limit in a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<'a> {
    /// The configured name, or else the path.
    pub(super) name: &'a str,
    /// The configured name; empty if there is none.
    pub(super) own_name: &'a str,
    pub(super) quota: u64,
    pub(super) window: Option<Duration>,
}

impl Limit<'_> {
    fn message(&self) -> RateLimit {
        let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let named = |quota, unit: Unit, multiplier: u64| RateLimit {
            requests_per_unit: clamp(quota),
            unit: unit.into(),
            name: self.own_name.to_owned(),
            // Omitted for 1, for versions of Envoy without this field.
            unit_multiplier: (multiplier != 1).then(|| clamp(multiplier)),
        };
        let Some(window) = self.window else {
            return named(self.quota, Unit::Unknown, 1);
        };
        let seconds = window.as_secs();
        if seconds == 0 {
            // The message has no fractions of a second: reports the amount for one second.
            let each = Duration::from_secs(1).as_nanos() / window.as_nanos().max(1);
            let each = u64::try_from(each).unwrap_or(u64::MAX);
            return named(self.quota.saturating_mul(each), Unit::Second, 1);
        }
        let units = [
            Unit::Year,
            Unit::Month,
            Unit::Week,
            Unit::Day,
            Unit::Hour,
            Unit::Minute,
        ];
        // The unit of this length; otherwise the largest unit of fixed length that divides the window.
        let one = units.iter().find(|unit| unit.seconds() == seconds);
        let fits = |unit: &&Unit| seconds.is_multiple_of(unit.seconds());
        let unit = one.or_else(|| units[2..].iter().find(fits));
        let unit = unit.copied().unwrap_or(Unit::Second);
        named(self.quota, unit, seconds / unit.seconds())
    }
}

/// Whole seconds, rounded up: a client that retries too early is refused again.
fn seconds(span: Duration) -> u64 {
    span.as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0))
}

impl DescriptorResult<'_> {
    fn status(&self) -> DescriptorStatus {
        let over = self.over && !self.shadow;
        let reset = self.reset.filter(|_| self.limit.is_some()).map(seconds);
        DescriptorStatus {
            code: code(over).into(),
            current_limit: self.limit.as_ref().map(Limit::message),
            limit_remaining: u32::try_from(self.remaining).unwrap_or(u32::MAX),
            duration_until_reset: reset.map(|seconds| prost_types::Duration {
                seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
                nanos: 0,
            }),
        }
    }

    fn name(&self) -> &str {
        self.limit.as_ref().map_or("", |limit| limit.name)
    }
}

const fn code(over: bool) -> Code {
    match over {
        true => Code::OverLimit,
        false => Code::Ok,
    }
}

/// Options of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseOptions {
    /// Adds the header fields of the reference server.
    pub(super) compat: bool,
    /// Admits the request even if a descriptor refuses.
    pub(super) all_shadow: bool,
}

/// Builds the response from the results of all descriptors.
pub(super) fn response(
    over: bool,
    each: &[DescriptorResult<'_>],
    options: ResponseOptions,
) -> RateLimitResponse {
    let refused = over && !options.all_shadow;
    let mut headers = Vec::new();
    if refused {
        denied_headers(each, &mut headers);
    }
    if options.compat {
        compat_headers(each, &mut headers);
    }
    RateLimitResponse {
        overall_code: code(refused).into(),
        statuses: each.iter().map(DescriptorResult::status).collect(),
        response_headers_to_add: headers,
        dynamic_metadata: Some(dynamic_metadata(refused, each, options)),
        ..RateLimitResponse::default()
    }
}

/// The binding descriptor: of those that refuse the one with the longest retry time, otherwise the one with the least remaining.
fn binding<'s, 'a>(
    refused: bool,
    each: &'s [DescriptorResult<'a>],
) -> Option<&'s DescriptorResult<'a>> {
    if refused {
        let over = each.iter().filter(|result| result.over && !result.shadow);
        return over.max_by_key(|result| result.retry_after);
    }
    let enforced = each
        .iter()
        .filter(|result| result.limit.is_some() && !result.shadow);
    enforced.min_by_key(|result| result.remaining)
}

/// Adds `retry-after`, which Envoy itself adds only since 1.40, and the `ratelimit` fields of the IETF draft.
fn denied_headers(each: &[DescriptorResult<'_>], headers: &mut Vec<HeaderValue>) {
    if let Some(wait) = binding(true, each).and_then(|result| result.retry_after) {
        let value = seconds(wait).max(1).to_string();
        headers.push(header("retry-after", value));
    }
    let reported = each.iter().filter(|result| !result.shadow);
    let statuses: Vec<LimitStatus<'_>> = reported
        .filter_map(|result| {
            let limit = result.limit.as_ref()?;
            let mut standing = Standing::new(limit.quota, result.remaining.min(limit.quota));
            standing.window = limit.window;
            (standing.reset, standing.more_after) = (result.reset, result.reset);
            Some(LimitStatus::new(limit.name, standing))
        })
        .collect();
    let mut fields = HeaderMap::new();
    Fields::STANDARD.write(&mut fields, &statuses);
    for (name, value) in &fields {
        if let Ok(value) = value.to_str() {
            headers.push(header(name.as_str(), value.to_owned()));
        }
    }
}

/// Adds the three header fields of the reference server: for the last descriptor that refuses and is not a quota, otherwise for
/// the first one with the least remaining.
fn compat_headers(each: &[DescriptorResult<'_>], headers: &mut Vec<HeaderValue>) {
    let refusing = |result: &&DescriptorResult<'_>| result.over && !result.shadow && !result.quota;
    let reported = each.iter().rev().find(refusing);
    let limited = each.iter().filter(|result| result.limit.is_some());
    let reported = reported.or_else(|| limited.min_by_key(|result| result.remaining));
    let Some((result, limit)) = reported.and_then(|result| Some((result, result.limit.as_ref()?)))
    else {
        return;
    };
    let reset = result.reset.map_or(0, seconds);
    headers.extend([
        header("RateLimit-Limit", limit.quota.to_string()),
        header("RateLimit-Remaining", result.remaining.to_string()),
        header("RateLimit-Reset", reset.to_string()),
    ]);
}

pub(super) fn header(key: &str, value: String) -> HeaderValue {
    HeaderValue {
        key: key.to_owned(),
        value,
    }
}

/// The dynamic metadata, which Envoy can log: the verdict, its limit, and the verdicts of limits in shadow mode. Also merges the
/// metadata of the descriptors that were admitted; the first one wins.
fn dynamic_metadata(refused: bool, each: &[DescriptorResult<'_>], options: ResponseOptions) -> Map {
    let mut own = Map::with_capacity(4);
    own.push("verdict", verdict(refused));
    if let Some(result) = binding(refused, each) {
        own.push("limit", Value::text(result.name().to_owned()));
        own.push("remaining", Value::number(result.remaining));
        if let Some(reason) = result.reason.filter(|_| refused) {
            own.push("reason", Value::text(reason));
        }
        if let Some(wait) = result.retry_after.filter(|_| refused) {
            own.push("retry_after", Value::number(seconds(wait).max(1)));
        }
    }
    let shadows: Vec<(&str, bool)> = match options.all_shadow {
        true => each
            .iter()
            .map(|result| (result.name(), result.over))
            .collect(),
        false => each
            .iter()
            .flat_map(|result| &result.shadow_verdicts)
            .copied()
            .collect(),
    };
    if let Some(first) = shadows.iter().find(|(_, over)| *over).or(shadows.first()) {
        let text = |name: &str| Value::text(name.to_owned());
        let would = shadows.iter().filter(|(_, over)| *over);
        let mut shadow = Map::with_capacity(3);
        shadow.push("verdict", verdict(first.1));
        shadow.push("limit", text(first.0));
        let would = would.map(|(name, _)| text(name)).collect();
        shadow.push("would_refuse", Value::List(would));
        own.push("shadow", Value::Map(shadow));
    }
    let mut all = Map::with_capacity(1);
    all.push("plimsoll", Value::Map(own));
    let passed = each.iter().filter(|result| !result.over);
    for more in passed.filter_map(|result| result.metadata) {
        all.add_missing(more);
    }
    all
}

fn verdict(over: bool) -> Value {
    Value::text(if over { "over_limit" } else { "ok" })
}
