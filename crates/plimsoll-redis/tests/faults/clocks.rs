//! The clocks of those who ask do not matter: none of them is ever told to the server.

use std::time::Duration;

use plimsoll::{Concurrency, Quota, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::load::once;
use crate::server::Server;

/// Everything the server is asked from now on.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    async fn on(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await;
        let mut stream = stream.expect("a connection");
        stream.write_all(b"MONITOR\r\n").await.expect("sent");
        let mut monitor = Self(BufReader::new(stream));
        assert_eq!(monitor.line().await, "+OK");
        monitor
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("a line");
        line.trim_end().to_owned()
    }

    /// The scripts that were run up to now, without when and by whom, and without the ids of leases.
    async fn scripts(&mut self, server: &Server) -> Vec<String> {
        server.cli(&["echo", "so far"]);
        let mut scripts = Vec::new();
        loop {
            let line = self.line().await;
            if line.contains("so far") {
                return scripts;
            }
            if let Some((_, command)) = line.split_once("] \"EVALSHA\" ") {
                let words = command.split(' ').map(|word| {
                    let is_id = word.len() > 34 && word.contains('-');
                    if is_id { "id" } else { word }
                });
                scripts.push(words.collect::<Vec<_>>().join(" "));
            }
        }
    }
}

fn limiters(server: &Server) -> Vec<RedisLimiter> {
    let store = server.store().raw_keys().open().expect("a store");
    let minute = Quota::per_minute(1000);
    let jobs = RedisRule::from(Concurrency::new(100)).lease(Duration::from_millis(300));
    let rules: [RedisRule; 6] = [
        once(1000).into(),
        SlidingWindow::new(minute, 6).into(),
        SlidingCounter::new(minute).into(),
        SlidingLog::new(minute).into(),
        TokenBucket::greedy(minute).into(),
        jobs,
    ];
    let limiter = |rule| store.limiter("any", rule).expect("a limiter");
    rules.into_iter().map(limiter).collect()
}

async fn ask_all(limiters: &[RedisLimiter]) {
    for limiter in limiters {
        for key in ["a", "b"] {
            let decision = limiter.decide(key, 2).await.expect("a decision");
            let Decision::Granted(permit) = decision else {
                panic!("{decision:?}");
            };
            permit.release().await.expect("an answer");
            assert!(limiter.estimate(key, 1).await.expect("an answer").is_ok());
            limiter.look(key).await.expect("a look");
        }
    }
}

#[tokio::test]
async fn who_asks_later_asks_the_same() {
    let server = Server::start();
    let limiters = limiters(&server);
    let jobs = limiters.last().expect("leases");
    // All scripts are known by now.
    ask_all(&limiters).await;
    let mut monitor = Monitor::on(&server).await;
    ask_all(&limiters).await;
    let before = monitor.scripts(&server).await;
    assert_eq!(before.len(), 6 * 2 * 3 + 2);

    // More than a second later, so that not even a clock of seconds would be the same.
    let held = jobs.decide("c", 1).await.expect("a decision");
    sleep(Duration::from_millis(1100)).await;
    drop(held);
    let mut renewals = monitor.scripts(&server).await;
    renewals.remove(0);
    renewals.retain(|script| script.ends_with(" id"));
    assert!(renewals.len() > 1, "{renewals:?}");
    assert!(
        renewals.iter().all(|renewal| *renewal == renewals[0]),
        "{renewals:?}"
    );

    ask_all(&limiters).await;
    let mut after = monitor.scripts(&server).await;
    // What was dropped is given back in the background.
    after.retain(|script| !script.contains("{c}"));
    assert_eq!(before, after);
}
