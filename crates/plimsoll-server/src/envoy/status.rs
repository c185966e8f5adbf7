//! What is said of each descriptor, and the answer of the service that comes of it.

use std::time::Duration;

use http::HeaderMap;
use plimsoll::Standing;
use plimsoll_tower::answer::{Fields, LimitStatus};

use super::metadata::{Map, Value};
use super::proto::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};

/// What is said of a descriptor.
#[derive(Debug, Default)]
pub(super) struct Said<'a> {
    /// The limit that counts for it, if there is one.
    pub(super) limit: Option<Limit<'a>>,
    /// How much is left. Of what has no limit, everything.
    pub(super) remaining: u64,
    /// Whether it is above its limit.
    pub(super) over: bool,
    /// Whether its limit is only counted, and refuses nothing.
    pub(super) shadow: bool,
    /// Whether it is one of several, of which one is enough.
    pub(super) quota: bool,
    pub(super) reset: Option<Duration>,
    /// How long to wait where it is over.
    pub(super) retry_after: Option<Duration>,
    /// Why it is over.
    pub(super) reason: Option<&'static str>,
    /// Limits in shadow mode, and whether each of them would have refused.
    pub(super) would: Vec<(&'a str, bool)>,
    /// What stands in the configuration, for the proxy.
    pub(super) metadata: Option<&'a Map>,
}

/// A limit as it is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<'a> {
    /// What it is called: by its own name, or by its place.
    pub(super) name: &'a str,
    /// Its own name, if it has one.
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
            // One unit is what those understand too who do not know of more.
            unit_multiplier: (multiplier != 1).then(|| clamp(multiplier)),
        };
        let Some(window) = self.window else {
            return named(self.quota, Unit::Unknown, 1);
        };
        let seconds = window.as_secs();
        if seconds == 0 {
            // Parts of a second cannot be told: as many as come in a whole one.
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
        // The unit that it is one of; otherwise the largest that fits and is of the same length everywhere.
        let one = units.iter().find(|unit| unit.seconds() == seconds);
        let fits = |unit: &&Unit| seconds.is_multiple_of(unit.seconds());
        let unit = one.or_else(|| units[2..].iter().find(fits));
        let unit = unit.copied().unwrap_or(Unit::Second);
        named(self.quota, unit, seconds / unit.seconds())
    }
}

/// Seconds, rounded up: who comes a moment too early is refused again.
fn seconds(span: Duration) -> u64 {
    span.as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0))
}

impl Said<'_> {
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

/// How the answer is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// With the header fields of the reference server.
    pub(super) compat: bool,
    /// Nothing is refused, whatever the descriptors say.
    pub(super) all_shadow: bool,
}

/// The answer to a request, of which each descriptor was answered.
pub(super) fn response(over: bool, each: &[Said<'_>], style: Style) -> RateLimitResponse {
    let refused = over && !style.all_shadow;
    let mut headers = Vec::new();
    if refused {
        denied_headers(each, &mut headers);
    }
    if style.compat {
        compat_headers(each, &mut headers);
    }
    RateLimitResponse {
        overall_code: code(refused).into(),
        statuses: each.iter().map(Said::status).collect(),
        response_headers_to_add: headers,
        dynamic_metadata: Some(dynamic_metadata(refused, each, style)),
        ..RateLimitResponse::default()
    }
}

/// The descriptor that counts: of those that refuse the one that takes longest, otherwise the one of which least is left.
fn binding<'s, 'a>(refused: bool, each: &'s [Said<'a>]) -> Option<&'s Said<'a>> {
    if refused {
        let over = each.iter().filter(|said| said.over && !said.shadow);
        return over.max_by_key(|said| said.retry_after);
    }
    let enforced = each
        .iter()
        .filter(|said| said.limit.is_some() && !said.shadow);
    enforced.min_by_key(|said| said.remaining)
}

/// `Retry-After`, which Envoy adds by itself from 1.40 on only, and the fields of the draft.
fn denied_headers(each: &[Said<'_>], headers: &mut Vec<HeaderValue>) {
    if let Some(wait) = binding(true, each).and_then(|said| said.retry_after) {
        let value = seconds(wait).max(1).to_string();
        headers.push(header("retry-after", value));
    }
    let told = each.iter().filter(|said| !said.shadow);
    let statuses: Vec<LimitStatus<'_>> = told
        .filter_map(|said| {
            let limit = said.limit.as_ref()?;
            let mut standing = Standing::new(limit.quota, said.remaining.min(limit.quota));
            standing.window = limit.window;
            (standing.reset, standing.more_after) = (said.reset, said.reset);
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

/// The three fields of the reference server: of the last ordinary descriptor that refuses, otherwise of the first of
/// those of which least is left.
fn compat_headers(each: &[Said<'_>], headers: &mut Vec<HeaderValue>) {
    let refusing = |said: &&Said<'_>| said.over && !said.shadow && !said.quota;
    let told = each.iter().rev().find(refusing);
    let limited = each.iter().filter(|said| said.limit.is_some());
    let told = told.or_else(|| limited.min_by_key(|said| said.remaining));
    let Some((said, limit)) = told.and_then(|said| Some((said, said.limit.as_ref()?))) else {
        return;
    };
    let reset = said.reset.map_or(0, seconds);
    headers.extend([
        header("RateLimit-Limit", limit.quota.to_string()),
        header("RateLimit-Remaining", said.remaining.to_string()),
        header("RateLimit-Reset", reset.to_string()),
    ]);
}

pub(super) fn header(key: &str, value: String) -> HeaderValue {
    HeaderValue {
        key: key.to_owned(),
        value,
    }
}

/// What stands in Envoy's own log: the verdict and its limit, and what limits in shadow mode would have said. Beside it
/// the metadata of descriptors that passed, where the first one counts.
fn dynamic_metadata(refused: bool, each: &[Said<'_>], style: Style) -> Map {
    let mut own = Map::with_capacity(4);
    own.push("verdict", verdict(refused));
    if let Some(said) = binding(refused, each) {
        own.push("limit", Value::text(said.name().to_owned()));
        own.push("remaining", Value::number(said.remaining));
        if let Some(reason) = said.reason.filter(|_| refused) {
            own.push("reason", Value::text(reason));
        }
        if let Some(wait) = said.retry_after.filter(|_| refused) {
            own.push("retry_after", Value::number(seconds(wait).max(1)));
        }
    }
    let shadows: Vec<(&str, bool)> = match style.all_shadow {
        true => each.iter().map(|said| (said.name(), said.over)).collect(),
        false => each.iter().flat_map(|said| &said.would).copied().collect(),
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
    let passed = each.iter().filter(|said| !said.over);
    for more in passed.filter_map(|said| said.metadata) {
        all.add_missing(more);
    }
    all
}

fn verdict(over: bool) -> Value {
    Value::text(if over { "over_limit" } else { "ok" })
}
