//! What is shipped beside the server agrees with it.

use std::collections::BTreeSet;

use crate::Running;
use crate::http::send;

const DASHBOARD: &str = include_str!("../../../../packaging/grafana/plimsoll.json");
const ALERTS: &str = include_str!("../../../../packaging/grafana/alerts.yaml");
const MANIFESTS: &str = include_str!("../../../../packaging/kubernetes/plimsoll.yaml");
const SYSTEMD: &str = include_str!("../../../../packaging/systemd/plimsoll.yaml");

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    words.filter(|it| it.starts_with("plimsoll_")).collect()
}

#[tokio::test]
async fn every_metric_of_the_dashboard_and_the_alerts_is_exported() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
    assert_eq!(dashboard["uid"], "plimsoll");
    assert!(dashboard["id"].is_null(), "Grafana gives it one");
    let server = Running::start(None, None).await;
    let metrics = send(server.admin, "GET", "/metrics", None, "").await.body;
    let exported: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let wanted: BTreeSet<&str> = named(DASHBOARD).union(&named(ALERTS)).copied().collect();
    assert!(wanted.len() >= 8, "{wanted:?}");
    let missing: Vec<_> = wanted.difference(&exported).collect();
    assert!(
        missing.is_empty(),
        "not exported: {missing:?}; there are {exported:?}"
    );
    server.stop().await;
}

#[test]
fn limits_that_are_shipped_are_limits() {
    let start = MANIFESTS
        .find("  limits.yaml: |\n")
        .expect("a file in the ConfigMap");
    let lines = MANIFESTS[start..].lines().skip(1);
    let file: String = lines
        .take_while(|line| line.starts_with("    "))
        .map(|line| format!("{}\n", &line[4..]))
        .collect();
    for text in [file.as_str(), SYSTEMD] {
        let limits =
            plimsoll_engine::Limits::from_yaml(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(limits.names(), ["default", "slots"]);
    }
}
