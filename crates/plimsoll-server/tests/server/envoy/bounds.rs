//! Whatever is sent, it is answered: too much, too long, garbage.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use prost::Message;
use tonic::Code;

use super::{Descriptor, Entry, METHOD, Override, Request, Served, descriptor};

const CONFIG: &str = "
domain: d
descriptors:
  - { key: k, rate_limit: { unit: year, requests_per_unit: 10 } }
  - { key: k, value: '*a*b*', rate_limit: { unit: second, requests_per_unit: 4294967295 } }
  - { key: s, value: x*, share_threshold: true, shadow_mode: true, rate_limit: { unit: month, requests_per_unit: 1 } }
  - { key: q, quota_mode: true, detailed_metric: true, rate_limit: { unit: day, requests_per_unit: 0 } }
";

#[tokio::test]
async fn what_is_too_large_is_said() {
    let mut served = Served::new(CONFIG).await;
    let long = |length| "x".repeat(length);
    let many = descriptor(&vec!["k=v"; 33].join(","));
    let cases = [
        (
            long(257),
            vec![descriptor("k=v")],
            "domain: expected at most 256 bytes, found 257",
        ),
        (
            "d".into(),
            vec![descriptor("k=v"); 65],
            "descriptors: expected at most 64 of them, found 65",
        ),
        (
            "d".into(),
            vec![many],
            "descriptors[0].entries: expected at most 32 of them, found 33",
        ),
        (
            "d".into(),
            vec![descriptor("k=v"), descriptor(&format!("{}=v", long(1025)))],
            "descriptors[1].entries[0].key: expected at most 1024 bytes, found 1025",
        ),
        (
            "d".into(),
            vec![descriptor(&format!("k=v,k={}", long(8193)))],
            "descriptors[0].entries[1].value: expected at most 8192 bytes, found 8193",
        ),
    ];
    for (domain, descriptors, expected) in cases {
        let status = served
            .try_ask(&domain, descriptors, 0)
            .await
            .expect_err(expected);
        assert_eq!(
            (status.code(), status.message()),
            (Code::InvalidArgument, expected)
        );
    }
    let huge = vec![descriptor(&format!("k={}", long(300_000)))];
    let status = served.try_ask("d", huge, 0).await.expect_err("too long");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    served
        .ask(vec![descriptor(&format!("k={}", long(8192)))])
        .await;
    served.stop().await;
}

#[tokio::test]
async fn limits_that_come_with_requests_are_bounded() {
    let mut served = Served::new(CONFIG).await;
    // As many limits as there are numbers, but not as many windows.
    for limit in 5..200 {
        let own = descriptor("k=v").own(limit, 4, None);
        assert_eq!(served.ask(vec![own]).await.remaining(), [4], "{limit}");
    }
    let window = |times| vec![descriptor("k=v").own(7, 2, Some(times))];
    let mut known = 0;
    let status = loop {
        match served.try_ask("d", window(known + 2), 0).await {
            Ok(_) => known += 1,
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), known), (Code::ResourceExhausted, 57));
    assert!(served.try_ask("d", window(2), 0).await.is_ok());
    served.stop().await;
}

/// Bytes as a message.
#[derive(Clone, Default, Debug)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buf: &mut impl prost::bytes::BufMut) {
        buf.put_slice(&self.0);
    }
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buf: &mut impl prost::bytes::Buf,
        ctx: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buf, ctx)
    }
    fn encoded_len(&self) -> usize {
        self.0.len()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("k".to_owned()),
        Just("s".to_owned()),
        Just("q".to_owned()),
        Just("xab".to_owned()),
        Just(String::new()),
        "[*_|=\\\\.\u{0}\u{e9}a-c]{0,6}",
        any::<String>(),
    ]
}

fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    let entry = (any_text(), any_text()).prop_map(|(key, value)| Entry { key, value });
    let hits = prop_oneof![
        Just(None),
        Just(Some(0)),
        Just(Some(1)),
        any::<u64>().prop_map(Some)
    ];
    // Few different rates: there may not be many.
    let times = prop_oneof![
        Just(None),
        Just(Some(0)),
        Just(Some(3)),
        Just(Some(u32::MAX))
    ];
    let own = prop_oneof![
        3 => Just(None),
        1 => (0..3_u32, -1..9_i32, times).prop_map(|(requests_per_unit, unit, unit_multiplier)| {
            Some(Override { requests_per_unit, unit, unit_multiplier })
        }),
    ];
    (prop::collection::vec(entry, 0..4), own, hits, any::<bool>()).prop_map(
        |(entries, limit, hits_addend, is_negative_hits)| Descriptor {
            entries,
            limit,
            hits_addend,
            is_negative_hits,
        },
    )
}

fn any_request() -> impl Strategy<Value = Request> {
    let domain = prop_oneof![3 => Just("d".to_owned()), 1 => any_text()];
    let descriptors = prop::collection::vec(any_descriptor(), 0..5);
    (domain, descriptors, prop_oneof![Just(0), any::<u32>()]).prop_map(
        |(domain, descriptors, hits_addend)| Request {
            domain,
            descriptors,
            hits_addend,
        },
    )
}

/// Values that a strategy makes, so many of them.
fn made<T: std::fmt::Debug>(strategy: &impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = proptest::test_runner::TestRunner::default();
    let value = |_| strategy.new_tree(&mut runner).expect("a value").current();
    (0..count).map(value).collect()
}

#[tokio::test]
async fn garbage_and_weird_descriptors_are_answered() {
    let mut served = Served::new(CONFIG).await;
    for request in made(&any_request(), 400) {
        let count = request.descriptors.len();
        let answer = served
            .client
            .call::<_, super::Answer>(METHOD, request.clone())
            .await;
        match answer {
            Ok(answer) => {
                assert_eq!(answer.statuses.len(), count, "{request:?}");
                assert!(matches!(answer.overall_code, 1 | 2));
                assert!(answer.codes().iter().all(|code| matches!(code, 1 | 2)));
                let told = |status: &super::DescriptorStatus| {
                    status.current_limit.is_none() || status.duration_until_reset.is_some()
                };
                assert!(answer.statuses.iter().all(told), "{request:?}");
            }
            Err(status) => {
                let known = matches!(status.code(), Code::InvalidArgument | Code::Unknown);
                assert!(
                    known && !status.message().is_empty(),
                    "{status} {request:?}"
                );
            }
        }
    }
    // Whole garbage, and messages in which something is changed or cut off.
    let garbage = made(&prop::collection::vec(any::<u8>(), 0..200), 200);
    let requests = made(
        &(any_request(), any::<prop::sample::Index>(), any::<u8>()),
        200,
    );
    let broken = requests.into_iter().map(|(request, at, byte)| {
        let mut bytes = request.encode_to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if byte % 2 == 0 {
                bytes.truncate(at);
            }
        }
        bytes
    });
    for bytes in garbage.into_iter().chain(broken) {
        let _ = served
            .client
            .call::<_, super::Answer>(METHOD, Raw(bytes))
            .await;
    }
    let after = served.ask(vec![descriptor("k=after")]).await;
    assert_eq!(after.remaining(), [9]);
    served.stop().await;
}
