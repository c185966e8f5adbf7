//! Configurations that change while they are served.

use std::time::Duration;

use plimsoll_server::Settings;

use super::{Answer, DAY, Dir, METHOD, OK, OVER, Request, Served, descriptor};
use crate::Running;
use crate::grpc::Client;
use crate::http::send;

/// Looks for something until it is there. The configuration is looked at twice a second.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..400 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{what} did not come");
}

fn text(limit: u32) -> String {
    format!(
        "{{ domain: d, descriptors: [{{ key: k, rate_limit: {{ unit: year, requests_per_unit: {limit} }} }}] }}"
    )
}

#[tokio::test]
async fn counters_stay_and_a_bad_configuration_changes_nothing() {
    let mut served = Served::with(&[("a.yaml", &text(3))], |envoy| envoy.compat = true).await;
    served.ask(vec![descriptor("k=v").hits(2)]).await;
    served.dir.write("a.yaml", &text(5));
    until("the new limit", async || {
        let answer = served.ask(vec![descriptor("k=v").hits(0)]).await;
        (answer.remaining() == [3]).then_some(())
    })
    .await;
    served.dir.write("b.yaml", "domain: [");
    let admin = served.server.admin;
    until("the mistake", async || {
        let stats = send(admin, "GET", "/stats", None, "").await.body;
        stats.contains("config_load_error: 1").then_some(())
    })
    .await;
    assert_eq!(served.ask(vec![descriptor("k=v")]).await.remaining(), [2]);
    served.dir.write("b.yaml", "{ domain: e, descriptors: [{ key: k, rate_limit: { unit: year, requests_per_unit: 1 } }] }");
    until("the other domain", async || {
        let answer = served
            .try_ask("e", vec![descriptor("k=v").hits(0)], 0)
            .await;
        answer.expect("an answer").statuses[0].current_limit.clone()
    })
    .await;
    // A configuration in which the limit is not there any more.
    served.dir.write("a.yaml", "domain: d");
    until("no limit", async || {
        let answer = served.ask(vec![descriptor("k=v").hits(0)]).await;
        answer.statuses[0].current_limit.is_none().then_some(())
    })
    .await;
    served.stop().await;
}

#[tokio::test]
async fn nothing_fails_while_configurations_change() {
    let both = |limit: u32| {
        format!(
            "{{ domain: d, descriptors: [{{ key: k, rate_limit: {{ unit: year, requests_per_unit: 1000000 }} }}, {{ key: x{limit}, rate_limit: {{ unit: year, requests_per_unit: {limit} }} }}] }}"
        )
    };
    let mut served = Served::with(&[("a.yaml", &both(1))], |envoy| envoy.compat = true).await;
    let (mut asked, mut round) = (0, 1);
    let admin = served.server.admin;
    while round < 4 {
        for _ in 0..200 {
            let answer = served
                .try_ask(
                    "d",
                    vec![descriptor("k=v"), descriptor("x1=v"), descriptor("x2=v")],
                    0,
                )
                .await;
            let answer = answer.expect("no call fails");
            assert!(matches!(answer.overall_code, OK | OVER));
            asked += 1;
        }
        let stats = send(admin, "GET", "/stats", None, "").await.body;
        if stats.contains(&format!("config_load_success: {round}\n")) {
            round += 1;
            served.dir.write("a.yaml", &both(round));
        }
    }
    assert!(asked >= 600);
    served.stop().await;
}

#[tokio::test]
async fn files_of_one_domain_are_merged_where_that_is_wanted() {
    let limit = |key: &str| {
        format!(
            "{{ domain: d, descriptors: [{{ key: {key}, rate_limit: {{ unit: year, requests_per_unit: 2 }} }}] }}"
        )
    };
    let files = [("a.yaml", limit("a")), ("b.txt", limit("b"))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let mut served = Served::with(&files, |envoy| envoy.merge = true).await;
    let both = served.ask(vec![descriptor("a=x"), descriptor("b=x")]).await;
    assert_eq!(both.remaining(), [1, 1]);
    served.stop().await;
}

#[tokio::test]
async fn what_was_counted_outlives_the_process() {
    let dir = Dir::new(&[("config/a.yaml", &text(5))]);
    let ask = async |hits| {
        let mut settings = Settings::default();
        settings.envoy.config = vec![dir.0.join("config")];
        settings.state_dir = Some(dir.0.join("state"));
        let server = Running::with(settings).await;
        let request = Request {
            domain: "d".to_owned(),
            descriptors: vec![descriptor("k=v").hits(hits)],
            hits_addend: 0,
        };
        let mut client = Client::new(&server).await;
        let answer: Answer = client.call(METHOD, request).await.expect("an answer");
        server.stop().await;
        (answer.overall_code, answer.remaining())
    };
    assert_eq!(ask(3).await, (OK, vec![2]));
    assert_eq!(ask(1).await, (OK, vec![1]), "a restart is not a free burst");
    assert_eq!(ask(2).await, (OVER, vec![0]));
    assert_eq!(ask(0).await, (OVER, vec![0]), "nor is the mark forgotten");
}

/// Windows that came with requests are known after a restart too.
#[tokio::test]
async fn limits_that_came_with_requests_outlive_the_process() {
    let dir = Dir::new(&[("config/a.yaml", &text(5))]);
    let ask = async || {
        let mut settings = Settings::default();
        settings.envoy.config = vec![dir.0.join("config")];
        settings.state_dir = Some(dir.0.join("state"));
        let server = Running::with(settings).await;
        let request = Request {
            domain: "d".to_owned(),
            // Three in seven days.
            descriptors: vec![descriptor("k=own").own(3, DAY, Some(7))],
            hits_addend: 0,
        };
        let mut client = Client::new(&server).await;
        let answer: Answer = client.call(METHOD, request).await.expect("an answer");
        server.stop().await;
        (answer.overall_code, answer.remaining())
    };
    for left in [2, 1, 0] {
        assert_eq!(ask().await, (OK, vec![left]));
    }
    assert_eq!(ask().await, (OVER, vec![0]));
}
