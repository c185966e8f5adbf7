//! `docs/howto/reload.md`.

use std::time::Duration;

use tokio::net::TcpListener;

use crate::server::{Dir, client, get, status};

#[path = "../../examples/limits_from_a_file.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod limits_from_a_file;

fn limits(burst: u64) -> String {
    format!(
        "limits: {{ all: {{ rate: 1/h, burst: {burst} }} }}
routes: [{{ match: /**, limits: [all] }}]
"
    )
}

#[tokio::test]
async fn a_changed_file_counts_and_what_was_used_stays_used() {
    let dir = Dir::new("reload");
    let file = dir.0.join("limits.yaml");
    std::fs::write(&file, limits(2)).expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let read = file.clone();
    tokio::spawn(async move {
        let ended = limits_from_a_file::run(listener, &read).await;
        ended.map_err(|error| error.to_string()).expect("it serves");
    });
    let client = client();
    for expected in [200, 200, 429] {
        assert_eq!(status(get(&client, at, "/")).await, expected);
    }

    std::fs::write(&file, "limits: [").expect("a file with a mistake");
    std::fs::write(&file, limits(5)).expect("a file");
    let mut granted = 0;
    for _ in 0..1000 {
        granted += usize::from(status(get(&client, at, "/")).await == 200);
        if granted == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(granted, 3, "two of five were used");
    assert_eq!(status(get(&client, at, "/")).await, 429);
}
