//! `plimsoll test --store`, through the program itself, on a real Redis.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const FILE: &str = r"
- name: a burst
  limiter: { kind: token_bucket, burst: 2, refill: 1, every: 1s, style: greedy }
  steps:
    - { try: 2, expect: granted }
    - { at: 300ms, try: 1, expect: { result: denied, reason: exhausted, retry_after: 700ms } }
    - { at: 1s, try: 1, expect: granted, available: 0, granted_total: 2 }
- name: a queue
  limiter: { kind: concurrency, limit: 1, queue: { bound: 1 } }
  steps: [{ try: 1, expect: granted }]
- name: a place
  limiter: { kind: fixed_window, limit: 1, window: 1s }
  steps: [{ reserve: 1, expect: granted }]
- name: wrong
  limiter: { kind: fixed_window, limit: 1, window: 1h, name: api }
  steps: [{ try: 1, expect: denied }]
";

/// The server to test on: what `PLIMSOLL_REDIS_SERVER` names, or `redis-server`.
fn server() -> String {
    let named = std::env::var("PLIMSOLL_REDIS_SERVER");
    named.unwrap_or_else(|_| "redis-server".to_owned())
}

/// Whether programs are there. If one is not, the test is skipped, which is said past the harness, unless
/// `PLIMSOLL_REQUIRE_REDIS` is set.
fn are_installed(programs: &[&str]) -> bool {
    let is_missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let Some(missing) = programs.iter().find(is_missing) else {
        return true;
    };
    let line = format!(
        "SKIPPED in store_option: there is no {missing}. Install it; PLIMSOLL_REQUIRE_REDIS=1 makes this an error."
    );
    assert!(
        std::env::var_os("PLIMSOLL_REQUIRE_REDIS").is_none(),
        "{line}"
    );
    let _ = writeln!(std::io::stderr(), "{line}");
    false
}

/// A `redis-server` and a directory, gone at the end of the test.
struct Redis {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Redis {
    fn start(test: &str, options: impl Fn(u16, &PathBuf) -> Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let dir =
            std::env::temp_dir().join(format!("plimsoll-store-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("limits.yaml"), FILE).expect("a file");
        let child = Command::new(server())
            .args(["--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(&dir)
            .args(options(address.port(), &dir))
            .stdout(Stdio::null())
            .spawn()
            .expect("a server");
        let mut redis = Self {
            child,
            dir,
            port: address.port(),
        };
        redis.wait(address);
        redis
    }

    fn wait(&mut self, address: SocketAddr) {
        while TcpStream::connect(address).is_err() {
            let ended = self.child.try_wait().expect("its state");
            assert!(ended.is_none(), "redis-server ended: {ended:?}");
            std::thread::yield_now();
        }
    }

    fn test(&self, url: &str, envs: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .current_dir(&self.dir)
            .args(["test", "--store", url, "limits.yaml"])
            .envs(envs.iter().copied())
            .output()
            .expect("the program runs")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn plain(port: u16, _: &PathBuf) -> Vec<String> {
    vec!["--port".to_owned(), port.to_string()]
}

const SAID: &str = "limits.yaml:16: wrong: step 1: expected denied, got granted
2 not held by Redis: queue 1, reserve 1
1 passed, 1 failed
";

#[test]
fn scenarios_run_on_redis_and_what_it_cannot_hold_is_counted_apart() {
    if !are_installed(&[&server()]) {
        return;
    }
    let redis = Redis::start("plain", plain);
    let output = redis.test(&format!("redis://127.0.0.1:{}", redis.port), &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), SAID);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_store_that_does_not_answer_is_status_2() {
    if !are_installed(&[&server()]) {
        return;
    }
    let redis = Redis::start("gone", plain);
    for (url, said) in [
        ("redis://127.0.0.1:1", "the store cannot be reached"),
        ("nonsense", "the address of the store cannot be used"),
    ] {
        let output = redis.test(url, &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            error.starts_with(&format!("plimsoll: --store: {said}: ")),
            "{error}"
        );
        assert_eq!(output.status.code(), Some(2));
    }
}

/// A certificate for 127.0.0.1 that vouches for itself.
fn encrypted(port: u16, dir: &PathBuf) -> Vec<String> {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(dir)
        .output()
        .expect("openssl");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let options = format!(
        "--port 0 --tls-port {port} --tls-cert-file cert.pem --tls-key-file key.pem \
         --tls-ca-cert-file cert.pem --tls-auth-clients no"
    );
    options.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_store_can_be_reached_by_tls_if_its_certificate_is_trusted() {
    if !are_installed(&[&server(), "openssl"]) {
        return;
    }
    let redis = Redis::start("tls", encrypted);
    let url = format!("rediss://127.0.0.1:{}", redis.port);
    let output = redis.test(&url, &[("SSL_CERT_FILE", "cert.pem")]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), SAID);

    let output = redis.test(&url, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("the store cannot be reached"), "{error}");
    assert_eq!(output.status.code(), Some(2));
}
