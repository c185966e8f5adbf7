//! The types of a configuration file, from which the JSON Schema is generated.

use std::borrow::Cow;

use plimsoll_spec::{Kind, Limiter, Name, Named, PolicySettings, Store};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::client::Network;
use crate::gateway::GatewaySpec;
use crate::partner::PartnerSpec;
use crate::serve::ServeSpec;
use crate::uses::{AnswerSpec, PrioritySpec, Use, WithoutKey};

/// A file of limits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a configuration file: a map with `limits` or `limiters`"
)]
#[schemars(
    title = "Plimsoll configuration",
    extend("patternProperties" = { "^x-": {} })
)]
pub(crate) struct File {
    /// Other files whose sections are added to those of this one: their paths, relative to this file.
    #[serde(default, skip_serializing_if = "is_done")]
    pub(crate) include: Option<Paths>,
    /// Weights in addition to `request_count`, `request_items`, `network_bytes` and `memory_size`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) weights: Vec<Name>,
    /// The stores of limiters with a `store`, by name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) stores: Named<Store>,
    /// The limiters, by name.
    #[serde(default)]
    pub(crate) limiters: Named<Limit>,
    /// More limiters, by name: another name for `limiters`.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) limits: Named<Limit>,
    /// Defaults of all policies: of limits, and of handlers in the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policies: Option<PolicySettings>,
    /// Providers: limiters by weight, for code that measures several weights.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) providers: Named<Provider>,
    /// Named lists of limiters, providers and other lists, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) middleware: Named<Vec<Name>>,
    /// The routes of requests to limits. The first route that matches counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<RouteEntry>,
    /// Trusted proxies, whose header field names the client, such as `10.0.0.0/8` or `::1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) proxies: Vec<Network>,
    /// The number of leading bits of an IPv6 address that identify a client: 64 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ipv6_prefix: Option<u32>,
    /// The header field in which trusted proxies name the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Client>,
    /// The response to refused requests, unless the limit or the route has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<AnswerSpec>,
    /// A gateway in front of servers, for `plimsoll gateway`: its addresses and its upstreams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gateway: Option<GatewaySpec>,
    /// Settings of `plimsoll serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) serve: Option<ServeSpec>,
    /// Partners that the program calls, by name, and the limits of these calls: for the client layer of a program.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) partners: Named<PartnerSpec>,
}

/// The sections that hold limiters.
pub(crate) const SECTIONS: [&str; 2] = ["limiters", "limits"];

impl File {
    /// All limiters, each with the section it is in and its name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str, &Limit)> {
        let [limiters, limits] = SECTIONS;
        let limiters = self
            .limiters
            .iter()
            .map(move |(name, it)| (limiters, name, it));
        let limits = self.limits.iter().map(move |(name, it)| (limits, name, it));
        limiters.chain(limits)
    }

    /// The limiter of this name.
    pub(crate) fn limit(&self, name: &str) -> Option<&Limit> {
        self.limiters.get(name).or_else(|| self.limits.get(name))
    }

    /// Removes the stores of all limiters.
    pub(crate) fn forget_stores(&mut self) {
        self.stores = Named::default();
        for limit in self.limiters.values_mut().chain(self.limits.values_mut()) {
            limit.limiter.common.forget_store();
            limit
                .uses
                .limits_mut()
                .for_each(|tier| tier.common.forget_store());
        }
    }

    /// Skips limits that would refuse a request because it lacks their key.
    pub(crate) fn skip_without_key(&mut self) {
        for limit in self.limiters.values_mut().chain(self.limits.values_mut()) {
            if limit.uses.key.is_some() && limit.uses.without_key == WithoutKey::Refuse {
                limit.uses.without_key = WithoutKey::Skip;
            }
        }
    }

    /// Everything but its limiters.
    pub(crate) fn without_limiters(&self) -> Self {
        Self {
            limiters: Named::default(),
            limits: Named::default(),
            ..self.clone()
        }
    }

    /// Fills in the defaults that depend on other fields.
    pub(crate) fn fill(&mut self) {
        let all = self.policies.clone().unwrap_or_default();
        let limits = self.limiters.values_mut().chain(self.limits.values_mut());
        for limit in limits {
            if let Kind::Policies(policies) = &mut limit.limiter.kind {
                policies.fill_from(&all);
                let most = &mut limit.limiter.common.max_keys;
                *most = most.or(all.max_subjects);
            }
            limit.fill();
        }
    }
}

/// A limiter, and how requests use it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename = "split")]
pub(crate) struct Limit {
    pub(crate) uses: Use,
    pub(crate) limiter: Limiter,
}

impl Limit {
    /// A limit with a key has a state for each key. A tier is used in the same way as its limit.
    fn fill(&mut self) {
        let Self { uses, limiter } = self;
        limiter.common.keyed |= uses.key.is_some();
        let mut common = limiter.common.clone();
        common.name = None;
        limiter.fill();
        for tier in uses.limits_mut() {
            tier.common = common.clone();
            tier.fill();
        }
    }
}

/// Limiters by weight.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Provider(pub(crate) Named<Words>);

/// A route: the requests that it matches, and their limits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a route such as { match: /upload/**, limits: [per_client] }"
)]
#[schemars(rename = "Route")]
pub(crate) struct RouteEntry {
    /// Its name, for metrics and for the key `route`; its first path unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Name>,
    /// The paths, one or a list: `*` stands for one segment, `**` at the end for any number of them.
    #[serde(rename = "match")]
    pub(crate) paths: Paths,
    /// The methods, such as [GET, HEAD]; all of them unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) methods: Option<Vec<String>>,
    /// The hosts, such as example.com or *.example.com; all of them unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hosts: Option<Vec<String>>,
    /// Conditions on header fields: a text, or `present`.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(schema_with = "crate::uses::header_fields")]
    pub(crate) headers: Named<String>,
    /// A limiter, a provider or a list by name, or several of them in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) middleware: Option<Words>,
    /// Limits by name, which are asked after those of `middleware`, in order. A limit with keys needs a `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Words>,
    /// The pool of `gateway` that serves these requests: the first one unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<Name>,
    /// The limiter of body bytes. Bytes are counted and not held, so it must be a rate or a basic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<Name>,
    /// Whether a permit can be held until the work is done. If not, the route can have rate and basic limiters only.
    #[serde(default = "yes")]
    pub(crate) holds: bool,
    /// The priority of its requests: `critical`, `normal`, `non-critical` or `header:x-priority`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<PrioritySpec>,
    /// The response to requests that are refused here, unless the limit has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<AnswerSpec>,
}

/// The header field in which trusted proxies name the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "the header field with the address of a client, such as { header: cf-connecting-ip }"
)]
pub(crate) struct Client {
    /// The header field that holds it: a single address, or `forwarded`; `x-forwarded-for` unless set.
    pub(crate) header: String,
}

/// One path or several.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Paths", untagged)]
pub(crate) enum Paths {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Paths {
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }
}

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(path) => path.serialize(serializer),
            Self::Many(paths) => paths.serialize(serializer),
        }
    }
}

/// One word or several.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Words", untagged)]
pub(crate) enum Words {
    /// One.
    One(Name),
    /// Several.
    Many(Vec<Name>),
}

impl Words {
    pub(crate) fn as_slice(&self) -> &[Name] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(name) => name.serialize(serializer),
            Self::Many(names) => names.serialize(serializer),
        }
    }
}

/// Always true: included files have been merged, so the field is not written.
const fn is_done(_: &Option<Paths>) -> bool {
    true
}

const fn yes() -> bool {
    true
}

impl JsonSchema for Provider {
    fn schema_name() -> Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let limiter = generator.subschema_for::<Name>();
        let weights = plimsoll_kinds::Weight::KNOWN.map(|weight| (weight.as_str(), &limiter));
        let mut properties: serde_json::Map<String, serde_json::Value> = weights
            .into_iter()
            .map(|(weight, limiter)| (weight.to_owned(), limiter.clone().to_value()))
            .collect();
        let basic = generator.subschema_for::<Words>().to_value();
        properties.insert("basic".to_owned(), basic);
        json_schema!({
            "description": "The limiters of a place, by weight; and under `basic` those that say yes or no for all weights. None of them is kept in a store.",
            "type": "object",
            "properties": properties,
            "additionalProperties": limiter,
        })
    }
}

/// Every kind, with the fields that say how requests use it.
impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut limit = Limiter::json_schema(generator);
        plimsoll_spec::with_fields(&mut limit, &Use::json_schema(generator));
        json_schema!({
            "description": "A rate such as 100/s; or a limiter: its kind, the fields of that kind, and how requests use it.",
            "anyOf": [plimsoll_spec::rate_schema(), limit],
        })
    }
}
