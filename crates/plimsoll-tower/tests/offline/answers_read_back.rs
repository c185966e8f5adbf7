//! What callers are told, read back by parsers that others wrote.

use std::time::Duration;

use plimsoll::{Denied, Metadata, MetadataValue, Moment, Reason, Standing};
use plimsoll_tower::answer::{Class, LimitStatus, grpc_refusal, problem, retry_seconds};
use proptest::option;
use proptest::prelude::*;
use sfv::{BareItem, List, ListEntry, Parser};
use tonic_types::StatusExt;

use crate::answers::{rate_limit, rate_limit_policy};

fn denied(wait: Duration) -> Denied {
    let now = Moment::ORIGIN;
    Denied::new(Reason::Exhausted).with_ready_at(now, Some(now.plus(wait)))
}

/// Any span that a refusal can carry.
fn spans() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0_u64..3_000_000_000).prop_map(Duration::from_nanos),
        (0_u64..1_000_000_000_000_000).prop_map(Duration::from_nanos),
        (0_u64..1000).prop_map(Duration::from_secs),
    ]
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..1000, any::<u64>(), Just(999_999_999_999_999)]
}

/// What another parser makes of a list.
fn parsed(value: &http::HeaderValue) -> List {
    Parser::new(value.as_bytes()).parse().unwrap()
}

fn integer(entry: &ListEntry, key: &str) -> Option<i64> {
    let ListEntry::Item(item) = entry else {
        panic!("an item");
    };
    item.params.get(key).map(|value| {
        let BareItem::Integer(number) = value else {
            panic!("an integer");
        };
        i64::from(*number)
    })
}

fn name(entry: &ListEntry) -> &str {
    match entry {
        ListEntry::Item(item) => item.bare_item.as_string().unwrap().as_str(),
        ListEntry::InnerList(_) => panic!("an item"),
    }
}

/// The name as it can stand in a header, put together another way.
fn encoded(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            0x20..=0x7e => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn clamped(number: u64) -> i64 {
    number.min(999_999_999_999_999).try_into().unwrap()
}

fn ceiling(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000_000)).unwrap()
}

type SendFields = (String, [u64; 2], [Option<Duration>; 2], Option<Vec<u8>>);

fn told() -> impl Strategy<Value = Vec<SendFields>> {
    let spans = || option::of(spans());
    let one = (
        any::<String>(),
        [numbers(), numbers()],
        [spans(), spans()],
        option::of(any::<Vec<u8>>()),
    );
    proptest::collection::vec(one, 1..5)
}

proptest! {
    #[test]
    fn fields_are_read_back_as_they_were_meant(told in told()) {
        let statuses: Vec<_> = told.iter().map(|(name, [limit, left], [window, more], key)| {
            let standing = Standing::new(*limit, *left).more_after(*more).window(*window);
            let status = LimitStatus::new(name, standing);
            key.as_deref().map_or(status, |key| status.partition(key))
        }).collect();
        let policies = parsed(&rate_limit_policy(&statuses).unwrap());
        let limits = parsed(&rate_limit(&statuses).unwrap());
        prop_assert_eq!((policies.len(), limits.len()), (told.len(), told.len()));
        for ((policy, limit), told) in policies.iter().zip(&limits).zip(&told) {
            let (written, [quota, left], [window, more], key) = told;
            prop_assert_eq!(name(policy), encoded(written));
            prop_assert_eq!(name(limit), encoded(written));
            prop_assert_eq!(integer(policy, "q"), Some(clamped(*quota)));
            let whole = window.filter(|window| window.subsec_nanos() == 0 && !window.is_zero());
            prop_assert_eq!(integer(policy, "w"), whole.map(|whole| clamped(whole.as_secs())));
            prop_assert_eq!(integer(limit, "r"), Some(clamped(*left)));
            prop_assert_eq!(integer(limit, "t"), more.map(|more| clamped(ceiling(more))));
            for entry in [policy, limit] {
                let ListEntry::Item(item) = entry else { panic!("an item") };
                let found = item.params.get("pk").map(|found| found.as_byte_sequence().unwrap());
                prop_assert_eq!(found, key.as_deref());
            }
        }
    }

    #[test]
    fn problems_are_json_whatever_a_limit_is_called(name: String, retry in option::of(numbers())) {
        let refusal = Denied::new(Reason::LockedOut).with_limiter(&name);
        let body: serde_json::Value = serde_json::from_slice(&problem(Class::of(&refusal), &refusal, retry)).unwrap();
        prop_assert_eq!(body["violated-policies"][0].as_str().unwrap(), encoded(&name));
        prop_assert_eq!(body["retry-after"].as_i64(), retry.map(clamped));
    }

    #[test]
    fn metadata_is_read_back_from_problems_and_details(
        phrase in ".{1,60}",
        pairs in prop::collection::btree_map("[a-z]{3}[a-z0-9_-]{0,8}", ".{1,60}", 0..8),
        number: i64,
        flag: bool,
        is_late: bool,
    ) {
        let mut about = Metadata::new().phrase(&phrase).code(number).pair("a-flag", flag);
        for (name, value) in &pairs {
            about = match about.clone().try_pair(name, value) {
                Ok(about) => about,
                Err(_) => return Err(TestCaseError::reject("a name that problems use")),
            };
        }
        let wait = is_late.then(|| Duration::from_millis(1500));
        let denied = wait
            .map_or_else(|| Denied::new(Reason::Exhausted), denied)
            .with_limiter("api")
            .with_metadata(&about);

        let body = problem(Class::of(&denied), &denied, Some(2));
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        prop_assert_eq!(&body["detail"], &phrase);
        prop_assert_eq!(&body["code"], number);
        prop_assert_eq!(&body["a-flag"], flag);
        prop_assert_eq!(&body["violated-policies"][0], "api");

        let headers = grpc_refusal(Class::of(&denied), &denied);
        let status = tonic::Status::from_header_map(&headers).unwrap();
        let info = status.get_details_error_info().unwrap();
        prop_assert_eq!(info.reason, number.to_string());
        prop_assert_eq!(info.domain, "api");
        let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
        prop_assert_eq!(retry, wait);
        for (name, value) in &pairs {
            prop_assert_eq!(denied.get(name), Some(MetadataValue::Text(value)));
            prop_assert_eq!(&body[name], value);
            prop_assert_eq!(info.metadata.get(name), Some(value));
        }
    }

    #[test]
    fn nobody_who_waits_as_told_comes_too_early(wait in spans()) {
        let refusal = denied(wait);
        let seconds = retry_seconds(&refusal, &[LimitStatus::of(&refusal)]).unwrap();
        prop_assert!(Duration::from_secs(seconds) >= wait);
        prop_assert!(Duration::from_secs(seconds) < wait + Duration::from_secs(1));
        let pushback = &grpc_refusal(Class::of(&refusal), &refusal)["grpc-retry-pushback-ms"];
        let millis: u64 = pushback.to_str().unwrap().parse().unwrap();
        prop_assert!(Duration::from_millis(millis) >= wait);
        prop_assert!(Duration::from_millis(millis) < wait + Duration::from_millis(1));
    }

    #[test]
    fn grpc_clients_understand_the_refusal(name: String, wait in spans()) {
        let refusal = denied(wait).with_limiter(&name);
        let status = tonic::Status::from_header_map(&grpc_refusal(Class::of(&refusal), &refusal)).unwrap();
        prop_assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        let message = format!("{name}: the limit is used up");
        prop_assert_eq!(status.message(), &message);
        let details = status.check_error_details().unwrap();
        prop_assert_eq!(details.retry_info().unwrap().retry_delay, Some(wait));
    }
}
