//! A real browser, by the `WebDriver` protocol: JSON over HTTP, of which a test needs eight commands.

use std::io::Write as _;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A browser without a window, ended when it is dropped.
pub(crate) struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
    profile: PathBuf,
}

impl Browser {
    /// `None`, said aloud, where there is no browser.
    pub(crate) async fn start() -> Option<Self> {
        let has = |program: &str| {
            let version = Command::new(program).arg("--version").output();
            version.is_ok_and(|it| it.status.success())
        };
        if !(has("chromedriver") && has("chromium")) {
            assert!(
                std::env::var_os("PLIMSOLL_REQUIRE_BROWSER").is_none(),
                "no chromium and chromedriver, which PLIMSOLL_REQUIRE_BROWSER asks for"
            );
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: no chromium and chromedriver (Debian: chromium, chromium-driver)"
            );
            return None;
        }
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let out = driver.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let port = line.split("started successfully on port ").nth(1)?;
            port.trim_end_matches('.').parse().ok()
        });
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port.expect("it says its port")));
        // What it says beside is read, or it would wait for somebody who does.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = std::env::temp_dir().join(format!("plimsoll-browser-{}", driver.id()));
        let mut browser = Self {
            driver,
            at,
            session: String::new(),
            profile,
        };
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            format!("--user-data-dir={}", browser.profile.display()),
        ]);
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "timeouts": { "script": 120_000 },
            "goog:chromeOptions": { "binary": "/usr/bin/chromium", "args": arguments },
        } } });
        let session = browser.send("POST", "/session", &wanted).await;
        browser.session = format!(
            "/session/{}",
            session["sessionId"].as_str().expect("a session")
        );
        Some(browser)
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = TcpStream::connect(self.at)
            .await
            .expect("chromedriver listens");
        let head = format!(
            "{method} {}{path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.session,
            self.at,
            body.len()
        );
        stream
            .write_all((head + &body).as_bytes())
            .await
            .expect("it is sent");
        // The driver does not close the connection: its answer is as long as it says.
        let mut text = Vec::new();
        let body = loop {
            let read = stream.read_buf(&mut text).await.expect("an answer");
            let whole = String::from_utf8_lossy(&text);
            assert!(read > 0, "the driver hung up: {whole}");
            let Some((head, body)) = whole.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_lowercase();
            let length = head.split("content-length:").nth(1).expect("a length");
            let length = length.lines().next().expect("a line").trim();
            if body.len() >= length.parse().expect("a number") {
                break body.to_owned();
            }
        };
        let mut answer: Value = serde_json::from_str(&body).expect("JSON");
        let value = answer["value"].take();
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }

    pub(crate) async fn open(&self, url: &str) {
        self.send("POST", "/url", &json!({ "url": url })).await;
    }

    /// What `script` returns, on the page.
    pub(crate) async fn run(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.send("POST", "/execute/sync", &body).await
    }

    /// What `script` passes to its last argument, on the page.
    async fn run_async(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.send("POST", "/execute/async", &body).await
    }

    /// Waits until `script` returns something that is true; at most a minute: machines are busy.
    pub(crate) async fn until(&self, script: &str) -> Value {
        for _ in 0..600 {
            let value = self.run(script).await;
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "this never became true: {script}\n{}",
            self.run("return document.body.innerText").await
        );
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let body = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false } });
        self.send("POST", "/goog/cdp/execute", &body).await;
    }

    /// `light` or `dark`.
    pub(crate) async fn theme(&self, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        let body =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.send("POST", "/goog/cdp/execute", &body).await;
    }

    /// Presses keys one after the other. `WebDriver` names Tab U+E004 and Enter U+E007.
    pub(crate) async fn press(&self, keys: &str) {
        let press = |key: char| {
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let body = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        self.send("POST", "/actions", &body).await;
    }

    pub(crate) async fn screenshot(&self, to: &Path) {
        let picture = self.send("GET", "/screenshot", &Value::Null).await;
        let picture = BASE64_STANDARD.decode(picture.as_str().expect("a picture"));
        std::fs::write(to, picture.expect("base64")).expect("it is written");
    }

    /// No rule of axe-core is broken. The program is not part of this project: `PLIMSOLL_AXE` says where it is.
    pub(crate) async fn accessible(&self, what: &str) {
        let Some(axe) = std::env::var_os("PLIMSOLL_AXE") else {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: accessibility, {what}: set PLIMSOLL_AXE to axe.min.js of the npm package axe-core"
            );
            return;
        };
        let axe = std::fs::read_to_string(axe).expect("PLIMSOLL_AXE can be read");
        let script = format!(
            "const done = arguments[arguments.length - 1]; {axe}; \
             axe.run().then((it) => done(it.violations.map((it) => it.id + ': ' + it.nodes.map((it) => it.html).join(' '))))"
        );
        assert_eq!(self.run_async(&script).await, json!([]), "{what}");
    }

    pub(crate) async fn quit(self) {
        self.send("DELETE", "", &json!({})).await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
