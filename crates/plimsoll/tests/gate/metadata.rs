//! What limiters say about themselves with their refusals and grants.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    All, Concurrency, Demand, Denied, Gate, Keyed, Limiter, ManualClock, Metadata, MetadataValue,
    Partitions, PerKey, Reason, TokenBucket,
};

fn about() -> Metadata {
    Metadata::new()
        .phrase("Too many bookings")
        .code(4290)
        .pair("plan", "free")
        .pair("window", Duration::from_secs(60))
        .pair("trial", true)
}

fn is_about(metadata: Option<&Metadata>) {
    assert_eq!(metadata, Some(&about()));
}

#[test]
fn refusals_and_permits_carry_the_metadata_of_their_limiter() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .clock(time.clock())
        .metadata(about())
        .build();
    is_about(gate.metadata());
    is_about(Limiter::metadata(&gate));
    let permit = gate.try_acquire(1).expect("there is one");
    is_about(permit.metadata());
    is_about(permit.into_owned().metadata());

    let denied = gate.try_acquire(1).expect_err("there was one");
    is_about(denied.metadata());
    assert_eq!(denied.limiter(), None);
    assert_eq!(denied.phrase(), "Too many bookings");
    assert_eq!(denied.to_string(), "Too many bookings, retry after 1s");
    for (name, value) in [
        (Metadata::RETRY_AFTER, Duration::from_secs(1).into()),
        (Metadata::REASON_PHRASE, "Too many bookings".into()),
        (Metadata::CODE, 4290.into()),
        ("plan", "free".into()),
        ("window", Duration::from_secs(60).into()),
        ("trial", true.into()),
    ] {
        assert_eq!(denied.get(name), Some(value), "{name}");
    }
    assert_eq!(denied.get("other"), None);
    for refused in [
        gate.try_acquire(2).expect_err("above the limit"),
        gate.estimate(1).expect_err("nothing is left"),
        gate.check_saturation().expect_err("nothing is left"),
    ] {
        is_about(refused.metadata());
    }
}

#[test]
fn without_metadata_the_reason_speaks() {
    let denied = Denied::new(Reason::Exhausted);
    let phrase = Reason::Exhausted.phrase();
    assert_eq!((denied.metadata(), denied.phrase()), (None, phrase));
    assert_eq!(denied.get(Metadata::REASON_PHRASE), Some(phrase.into()));
    assert_eq!(denied.get(Metadata::RETRY_AFTER), None);
    let named = denied.with_metadata(&about()).with_limiter("api");
    assert_eq!(named.limiter(), Some("api"));
    is_about(named.metadata());
}

#[test]
fn keys_partitions_and_joint_limits_carry_it_too() {
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(1))
        .clock(ManualClock::new().clock())
        .metadata(about())
        .name("tenants")
        .build();
    is_about(PerKey::<str>::metadata(&keyed));
    assert!(keyed.try_acquire("red", 1).is_ok());
    let denied = keyed.try_acquire("red", 1).expect_err("there was one");
    assert_eq!(denied.limiter(), Some("tenants"));
    is_about(denied.metadata());

    let gate = || Gate::builder(Concurrency::new(1)).metadata(about()).build();
    let shares = Partitions::try_new(gate(), [("live", 1), ("batch", 1)]).expect("two shares");
    let live = shares.get("live").expect("it is there");
    let permit = live.try_acquire(Demand::ONE).expect("there is one");
    is_about(permit.metadata());
    is_about(
        live.try_acquire(Demand::ONE)
            .expect_err("there was one")
            .metadata(),
    );

    let all = All::new([Arc::new(gate()) as Arc<dyn Limiter>]).with_name("all");
    let _one = all.try_acquire(1).expect("there is one");
    let denied = all.try_acquire(1).expect_err("there was one");
    assert_eq!(denied.limiter(), Some("all"));
    is_about(denied.metadata());
}

#[test]
fn metadata_is_small_and_its_names_are_words() {
    let long = "x".repeat(257);
    let mistake = |made: Result<Metadata, plimsoll::InvalidLimit>| {
        made.expect_err("it is not valid").to_string()
    };
    for (made, message) in [
        (
            Metadata::new().try_phrase(""),
            "`phrase` is 0 bytes long: expected 1 to 256 bytes",
        ),
        (
            Metadata::new().try_phrase(&long),
            "`phrase` is 257 bytes long: expected 1 to 256 bytes",
        ),
        (
            Metadata::new().try_code(&long),
            "`code` is 257 bytes long: expected 1 to 256 bytes",
        ),
        (
            Metadata::new().try_pair(&long[..65], 1),
            "`metadata` is 65 bytes long: expected 1 to 64 bytes",
        ),
        (
            Metadata::new().try_pair("Plan", 1),
            "`metadata` is Plan: expected a name of a-z, 0-9, _ and -, beginning with a letter",
        ),
        (
            Metadata::new().try_pair("status", 1),
            "`metadata` is status: expected a name that refusals do not use themselves",
        ),
    ] {
        assert_eq!(mistake(made), message);
    }
    let full = (0..16).fold(Metadata::new(), |about, i| about.pair(&format!("p{i}"), i));
    assert_eq!(full.pairs().count(), Metadata::MAX_PAIRS);
    let one_more = mistake(full.clone().try_pair("more", 1));
    assert_eq!(one_more, "`metadata` is more: expected at most 16 pairs");
    let changed = full.pair("p3", "other");
    assert_eq!(changed.get("p3"), Some(MetadataValue::Text("other")));
    assert!(std::panic::catch_unwind(|| Metadata::new().pair("type", 1)).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn a_refusal_is_written_with_its_metadata() {
    let denied = Denied::new(Reason::Shed).with_metadata(&about());
    let form = serde_json::to_value(&denied).expect("it has a form");
    assert_eq!(form["metadata"]["phrase"], "Too many bookings");
    assert_eq!(form["metadata"]["code"], 4290);
    assert_eq!(form["metadata"]["plan"], "free");
    let plain = serde_json::to_value(Denied::new(Reason::Shed)).expect("it has a form");
    assert_eq!(plain.get("metadata"), None);
}
