//! Metrics of stores.

use std::fs;

use serde_json::json;

use crate::Running;
use crate::http::send;

#[tokio::test]
async fn an_outage_is_seen_by_cause_with_labels_of_the_file_only() {
    let name = format!("plimsoll-store-metrics-{}.yaml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let text = "stores: { gone: { url: 'redis://127.0.0.1:1', deadline: 1s } }
limits: { api: { rate: 10/s, key: client, store: gone } }";
    fs::write(&file, text).expect("written");
    let server = Running::start(file.to_str(), None).await;
    for key in ["anna", "bert", "a\"}\n"] {
        let body = json!({ "limit": "api", "key": key });
        send(server.http, "POST", "/v1/check", Some(&body), "").await;
    }
    let metrics = send(server.admin, "GET", "/metrics", None, "").await.body;
    let stores: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("plimsoll_store_"))
        .collect();
    assert!(!stores.is_empty(), "{metrics}");
    assert!(stores.iter().all(|line| line.contains("store=\"gone\"")));
    let failed: u64 = stores
        .iter()
        .filter(|line| line.starts_with("plimsoll_store_failures_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert!(failed >= 3, "{metrics}");
    assert!(!metrics.contains("anna"), "no key is a label");
    server.stop().await;
    let _ = fs::remove_file(&file);
}
