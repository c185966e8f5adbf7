//! How requests use limits, as a file says it: read, printed, and read again.

use plimsoll_config::uses::{
    CostPart, CostSpec, KeyPart, KeySpec, Mode, PrioritySpec, Tier, Use, WithoutKey,
};
use plimsoll_config::{Config, Format};

#[track_caller]
fn config(text: &str) -> Config {
    let config = Config::from_str("limits.yaml", text, Format::Yaml);
    config.unwrap_or_else(|error| panic!("{error}"))
}

const RATE: &str = "kind: fixed_window, limit: 10, window: 1s";

#[track_caller]
fn use_of(fields: &str) -> Use {
    let text = format!("limits: {{ a: {{ {RATE}, {fields} }} }}");
    let config = config(&text);
    let printed = config.to_string();
    let again = self::config(&printed);
    assert_eq!(again.use_of("a"), config.use_of("a"), "{printed}");
    assert_eq!(again.to_string(), printed);
    config.use_of("a").expect("there").clone()
}

#[test]
fn keys() {
    let header = |name: &str| KeyPart::Header(name.to_owned());
    for (text, wanted) in [
        ("client", vec![KeyPart::Client]),
        ("peer", vec![KeyPart::Peer]),
        ("method", vec![KeyPart::Method]),
        ("host", vec![KeyPart::Host]),
        ("path", vec![KeyPart::Path]),
        ("route", vec![KeyPart::Route]),
        ("header:Authorization", vec![header("authorization")]),
        ("cookie:Sid", vec![KeyPart::Cookie("Sid".to_owned())]),
        ("query:user", vec![KeyPart::Query("user".to_owned())]),
        ("segment:2", vec![KeyPart::Segment(2)]),
        ("metadata:x-a", vec![KeyPart::Metadata("x-a".to_owned())]),
        ("descriptor:k", vec![KeyPart::Descriptor("k".to_owned())]),
        ("claim:sub", vec![KeyPart::Claim("sub".to_owned())]),
        ("form:user", vec![KeyPart::Form("user".to_owned())]),
        ("json:/a/b", vec![KeyPart::Json("/a/b".to_owned())]),
        ("'constant:a b'", vec![KeyPart::Constant("a b".to_owned())]),
        (
            "[client, form:user]",
            vec![KeyPart::Client, KeyPart::Form("user".to_owned())],
        ),
    ] {
        assert_eq!(use_of(&format!("key: {text}")).key, Some(KeySpec(wanted)));
    }
}

#[test]
fn a_limit_with_a_key_has_a_state_for_each() {
    let config = config(&format!("limits: {{ a: {{ {RATE}, key: client }} }}"));
    let limits = config.build(&plimsoll::Clock::system()).expect("builds");
    assert!(limits.keyed("a").is_some());
}

#[test]
fn costs() {
    let measured = CostSpec::Measured;
    let header = |name: &str| CostPart::Header(name.to_owned());
    assert_eq!(use_of("mode: enforce").cost, CostSpec::Fixed(1));
    assert_eq!(use_of("cost: 2").cost, CostSpec::Fixed(2));
    assert_eq!(use_of("cost: 2k").cost, CostSpec::Fixed(2000));
    assert_eq!(
        use_of("cost: header:X-Cost").cost,
        measured(header("x-cost"))
    );
    for (text, part) in [
        ("content_length", CostPart::ContentLength),
        ("request_bytes", CostPart::RequestBytes),
        ("response_bytes", CostPart::ResponseBytes),
        ("usage", CostPart::Usage),
        (
            "response_header:a",
            CostPart::ResponseHeader("a".to_owned()),
        ),
        ("json:/a", CostPart::Json("/a".to_owned())),
        ("response_json:/a", CostPart::ResponseJson("/a".to_owned())),
    ] {
        assert_eq!(use_of(&format!("cost: '{text}'")).cost, measured(part));
    }
    let estimated = use_of("cost: { estimate: 'json:/max_tokens', actual: usage, max: 100k }");
    let wanted = CostSpec::Estimated {
        estimate: CostPart::Json("/max_tokens".to_owned()),
        actual: Some(CostPart::Usage),
        default: 1,
        max: Some(100_000),
    };
    assert_eq!(estimated.cost, wanted);
    let CostSpec::Status(statuses) = use_of("cost: { status: [401, 403, 5xx, 410-420] }").cost
    else {
        panic!("not by status");
    };
    let counts = |status| statuses.iter().any(|range| range.contains(status));
    let all: Vec<u16> = (100..600).filter(|status| counts(*status)).collect();
    let wanted: Vec<u16> = [401, 403]
        .into_iter()
        .chain(410..=420)
        .chain(500..600)
        .collect();
    assert_eq!(all, wanted);
}

#[test]
fn words() {
    assert_eq!(use_of("mode: shadow").mode, Mode::Shadow);
    assert_eq!(use_of("mode: enforce").mode, Mode::Enforce);
    let without = |word| use_of(&format!("key: client, without_key: {word}")).without_key;
    assert_eq!(without("skip"), WithoutKey::Skip);
    assert_eq!(without("share"), WithoutKey::Share);
    assert_eq!(without("refuse"), WithoutKey::Refuse);
    let priority = |word| use_of(&format!("priority: {word}")).priority;
    let constant = |priority| Some(PrioritySpec::Constant(priority));
    assert_eq!(priority("critical"), constant(plimsoll::Priority::Critical));
    assert_eq!(
        priority("non-critical"),
        constant(plimsoll::Priority::NonCritical)
    );
    let header = Some(PrioritySpec::Header("x-priority".to_owned()));
    assert_eq!(priority("header:X-Priority"), header);
}

#[test]
fn tiers_and_overrides() {
    let text = format!(
        "key: client, tiers: {{ by: header:x-plan, pro: {{ {RATE} }}, internal: unlimited, default: blocked }}, \
         overrides: {{ 10.0.0.7: {{ kind: token_bucket, burst: 1, refill: 1, every: 1s }}, bot: blocked }}"
    );
    let uses = use_of(&text);
    let tiers = uses.tiers.as_ref().expect("tiers");
    assert_eq!(tiers.by, KeyPart::Header("x-plan".to_owned()));
    assert_eq!(tiers.of.get("internal"), Some(&Tier::Unlimited));
    assert_eq!(tiers.default, Some(Tier::Blocked));
    assert!(
        matches!(tiers.of.get("pro"), Some(Tier::Limit(limiter)) if limiter.kind.word() == "fixed_window")
    );
    let own = uses.overrides.get("10.0.0.7");
    assert!(matches!(own, Some(Tier::Limit(limiter)) if limiter.common.keyed));
    let names: Vec<(&str, &str)> = uses.tiers().map(|(field, name, _)| (field, name)).collect();
    let wanted = [
        ("tiers", "pro"),
        ("tiers", "internal"),
        ("tiers", "default"),
        ("overrides", "10.0.0.7"),
        ("overrides", "bot"),
    ];
    assert_eq!(names, wanted);
}

#[test]
fn answers() {
    let uses = use_of(
        "answer: { status: 503, body: 'later, please', content_type: text/plain, headers: { X-Why: limit, x-n: 3 } }",
    );
    let answer = uses.answer.expect("an answer");
    assert_eq!(answer.status.map(|status| status.code()), Some(503));
    assert_eq!(answer.headers.get("x-n").map(String::as_str), Some("3"));
    let uses =
        use_of("answer: { problem: { type: 'https://a/b', title: slow down, detail: 'n: 1' } }");
    let problem = uses
        .answer
        .and_then(|answer| answer.problem)
        .expect("a problem");
    assert_eq!(problem.kind.as_deref(), Some("https://a/b"));
}

#[test]
fn limits_and_limiters_are_one_namespace() {
    let config = config(&format!(
        "limiters: {{ a: {{ {RATE} }} }}\nlimits: {{ b: {{ {RATE}, mode: shadow }} }}\nroutes: [{{ match: /, middleware: [a, b] }}]\n"
    ));
    assert_eq!(config.limiters().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        config.uses().map(|(name, _)| name).collect::<Vec<_>>(),
        ["a", "b"]
    );
    let text = format!("limiters: {{ a: {{ {RATE} }} }}\nlimits: {{ a: {{ {RATE} }} }}\n");
    let error = Config::from_str("a.yaml", &text, Format::Yaml).expect_err("twice");
    let says = "a.yaml:2:11: limits.a: the name `a` is here twice: first in line 1, in `limiters`";
    assert!(error.lines().any(|line| line == says), "{error}");
}
