//! What the admin port tells of files that were read again.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::Running;
use crate::http::send;

/// What is told of reloads, as soon as `is` says so.
async fn told(server: &Running, is: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let told = send(server.admin, "GET", "/reload", None, "").await.json();
            if is(&told) {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(30), looking).await;
    told.expect("it is read again")
}

#[tokio::test]
async fn a_reload_tells_what_changed_and_what_was_wrong() {
    let name = format!("plimsoll-reload-{}.yaml", std::process::id());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, "limits: { api: 100/h }").expect("written");
    let server = Running::start(file.to_str(), None).await;
    assert_eq!(told(&server, |_| true).await["last"], Value::Null);

    fs::write(&file, "limits: { api: 200/h }").expect("written");
    let done = told(&server, |told| told["done"] == 1).await;
    assert_eq!(done["last"]["text"], "api: 100/h → 200/h");
    let change = &done["last"]["changes"][0];
    assert_eq!(
        (&change["limit"], &change["what"]),
        (&"api".into(), &"changed".into())
    );
    assert_eq!(change["fields"][0]["to"], "200/h");

    fs::write(&file, "limits: { api: 200/fortnight }").expect("written");
    let refused = told(&server, |told| told["refused"] == 1).await;
    assert_eq!(refused["done"], 1);
    let error = refused["last"]["errors"][0].as_str().unwrap_or_default();
    assert!(error.contains("limits.api"), "{error}");
    server.stop().await;
    let _ = fs::remove_file(&file);
}
