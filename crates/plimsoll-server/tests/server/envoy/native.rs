//! Descriptors for the limits of our own file.

use tonic::Code;

use super::{Answer, Descriptor, Dir, METHOD, OK, OVER, Request, descriptor};
use crate::Running;
use crate::grpc::Client;

const FILE: &str = "
limits:
  per_user: { kind: sliding_log, limit: 3, window: 30s, key: descriptor:user }
  bucket: { kind: token_bucket, burst: 5, refill: 5, every: 10m, key: client }
  writes: { kind: fixed_window, limit: 1, window: 1h }
  tomorrow: { kind: fixed_window, limit: 1, window: 1h, key: descriptor:user, mode: shadow }
  slots: { kind: concurrency, limit: 2, key: descriptor:tenant }
  tokens: { kind: token_bucket, burst: 100, refill: 1, every: 1h, key: descriptor:account, cost: usage }
  costly: { kind: fixed_window, limit: 100, window: 1h, cost: 10 }
  plans: { kind: fixed_window, limit: 1, window: 1h, key: descriptor:id, tiers: { by: header:plan, pro: { kind: fixed_window, limit: 50, window: 1h } } }
routes:
  - { match: /login, methods: [POST], limits: [bucket, writes] }
  - { match: /**, hosts: [users], limits: [per_user, tomorrow] }
  - { match: /**, hosts: [streams], headers: { tenant: present }, limits: [slots] }
  - { match: /**, hosts: [models], limits: [tokens] }
  - { match: /**, hosts: [costs], limits: [costly] }
  - { match: /**, hosts: [plans], limits: [plans] }
";

struct Own {
    server: Running,
    client: Client,
    _dir: Dir,
}

impl Own {
    async fn new() -> Self {
        let dir = Dir::new(&[("limits.yaml", FILE)]);
        let file = dir.0.join("limits.yaml");
        let server = Running::start(file.to_str(), None).await;
        Self {
            client: Client::new(&server).await,
            server,
            _dir: dir,
        }
    }

    async fn ask(&mut self, domain: &str, descriptors: Vec<Descriptor>) -> Answer {
        let request = Request {
            domain: domain.to_owned(),
            descriptors,
            hits_addend: 0,
        };
        self.client.call(METHOD, request).await.expect("an answer")
    }
}

#[tokio::test]
async fn every_algorithm_and_window_stands_behind_a_descriptor() {
    let mut own = Own::new().await;
    let first = own.ask("users", vec![descriptor("user=anna")]).await;
    let limit = first.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!(
        (limit.requests_per_unit, limit.unit, limit.unit_multiplier),
        (3, 1, Some(30))
    );
    assert_eq!(
        (limit.name.as_str(), first.remaining()),
        ("per_user", vec![2])
    );
    let shadow = |answer: &Answer, name| answer.said(&["plimsoll", "shadow", name]);
    assert_eq!(shadow(&first, "verdict").as_deref(), Some("ok"));
    let second = own
        .ask("users", vec![descriptor("user=anna").hits(2)])
        .await;
    assert_eq!((second.overall_code, second.remaining()), (OK, vec![0]));
    assert_eq!(shadow(&second, "verdict").as_deref(), Some("over_limit"));
    assert_eq!(shadow(&second, "limit").as_deref(), Some("tomorrow"));
    let refused = own.ask("users", vec![descriptor("user=anna")]).await;
    assert_eq!((refused.overall_code, refused.codes()), (OVER, vec![OVER]));
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    let body: serde_json::Value = serde_json::from_slice(&refused.raw_body).expect("JSON");
    assert_eq!(body["status"], 429);
    let wait: u64 = refused
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("a number");
    assert!((1..=30).contains(&wait));
    let nothing = own.ask("elsewhere", vec![descriptor("user=anna")]).await;
    assert_eq!(
        (
            nothing.overall_code,
            nothing.statuses[0].current_limit.clone()
        ),
        (OK, None)
    );
    own.server.stop().await;
}

#[tokio::test]
async fn entries_are_parts_of_a_request_and_several_descriptors_one_decision() {
    let mut own = Own::new().await;
    let login =
        |address: &str| descriptor(&format!("path=/login,method=POST,remote_address={address}"));
    let first = own.ask("any", vec![login("10.0.0.1")]).await;
    assert_eq!(
        (first.overall_code, first.remaining()),
        (OK, vec![0]),
        "the one of which least is left"
    );
    let second = own
        .ask("users", vec![descriptor("user=bob"), login("10.0.0.2")])
        .await;
    assert_eq!(
        (second.overall_code, second.codes()),
        (OVER, vec![OK, OVER])
    );
    assert_eq!(
        second.said(&["plimsoll", "limit"]).as_deref(),
        Some("writes")
    );
    let looked = own.ask("users", vec![descriptor("user=bob").hits(0)]).await;
    assert_eq!(looked.remaining(), [3], "nothing was taken");
    // A limit that has its key from an entry refuses a descriptor without it.
    let without = own.ask("users", vec![descriptor("other=bob")]).await;
    assert_eq!(without.overall_code, OVER);
    assert_eq!(
        without.said(&["plimsoll", "reason"]).as_deref(),
        Some("no_key")
    );
    let tier = own.ask("plans", vec![descriptor("id=1,plan=pro")]).await;
    assert_eq!(tier.remaining(), [49]);
    own.server.stop().await;
}

#[tokio::test]
async fn hits_multiply_what_the_file_says_and_go_back() {
    let mut own = Own::new().await;
    let costs = |hits| vec![descriptor("a=b").hits(hits)];
    assert_eq!(
        own.ask("costs", vec![descriptor("a=b")]).await.remaining(),
        [90]
    );
    assert_eq!(own.ask("costs", costs(3)).await.remaining(), [60]);
    own.ask("costs", vec![descriptor("a=b").hits(2).negative()])
        .await;
    assert_eq!(own.ask("costs", costs(0)).await.remaining(), [80]);
    assert_eq!(own.ask("costs", costs(9)).await.overall_code, OVER);
    assert_eq!(
        own.ask("costs", costs(8)).await.remaining(),
        [0],
        "what was refused was not charged"
    );
    // Ours: a look says what 1 would be told.
    assert_eq!(own.ask("costs", costs(0)).await.overall_code, OVER);
    own.server.stop().await;
}

/// What is known only at the end of a stream is charged in full, and the next look sees it.
#[tokio::test]
async fn a_cost_that_is_known_later_is_a_debt() {
    let mut own = Own::new().await;
    let look = || vec![descriptor("account=7")];
    let mut passed = 0;
    while own.ask("models", look()).await.overall_code == OK && passed < 10 {
        passed += 1;
        own.ask("models", vec![descriptor("account=7").hits(60)])
            .await;
    }
    assert_eq!(passed, 2);
    own.server.stop().await;
}

#[tokio::test]
async fn slots_are_held_for_the_life_of_a_stream() {
    let mut own = Own::new().await;
    let open = || vec![descriptor("tenant=t")];
    let close = || vec![descriptor("tenant=t").negative()];
    assert_eq!(own.ask("streams", open()).await.remaining(), [1]);
    assert_eq!(own.ask("streams", open()).await.remaining(), [0]);
    assert_eq!(own.ask("streams", open()).await.overall_code, OVER);
    assert_eq!(
        own.ask("streams", vec![descriptor("tenant=u")])
            .await
            .overall_code,
        OK
    );
    own.ask("streams", close()).await;
    assert_eq!(own.ask("streams", open()).await.overall_code, OK);
    assert_eq!(own.ask("streams", open()).await.overall_code, OVER);
    for _ in 0..5 {
        own.ask("streams", close()).await;
    }
    for _ in 0..2 {
        assert_eq!(own.ask("streams", open()).await.overall_code, OK);
    }
    assert_eq!(
        own.ask("streams", open()).await.overall_code,
        OVER,
        "no more than there are"
    );
    own.server.stop().await;
}

#[tokio::test]
async fn a_limit_of_its_own_needs_a_configured_domain() {
    let mut own = Own::new().await;
    let request = Request {
        domain: "users".to_owned(),
        descriptors: vec![descriptor("user=a").own(1, 4, None)],
        hits_addend: 0,
    };
    let status = own.client.call::<_, Answer>(METHOD, request).await;
    assert_eq!(status.expect_err("an error").code(), Code::InvalidArgument);
    own.server.stop().await;
}
