//! A real server for a test, on a port of its own. It ends with the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use plimsoll_redis::{Store, StoreBuilder};

/// A running `redis-server`.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts one that keeps nothing on disk.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with more options.
    pub(crate) fn with(options: &[&str]) -> Self {
        // A program of another test may have taken the port in the meantime, whatever it speaks.
        let started =
            (0..20).find_map(|_| Self::run(Command::new(program()), free_port(), options));
        started.unwrap_or_else(|| panic!("redis-server does not start with {options:?}"))
    }

    /// Starts a program that is one, if there is such a program, in its own environment.
    pub(crate) fn of(program: &str, environment: &[(&str, &Path)]) -> Option<Self> {
        let mut command = Command::new(program);
        command.envs(environment.iter().copied());
        runs(program, "--version")
            .then(|| Self::run(command, free_port(), &[]).expect("the port was free"))
    }

    pub(crate) fn on(port: u16, options: &[&str]) -> Self {
        let server = Self::try_on(port, options);
        server.unwrap_or_else(|| panic!("another server has port {port}"))
    }

    /// `None` if another program has the port.
    pub(crate) fn try_on(port: u16, options: &[&str]) -> Option<Self> {
        Self::run(Command::new(program()), port, options)
    }

    fn run(mut command: Command, port: u16, options: &[&str]) -> Option<Self> {
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        let file = format!("plimsoll-test-{port}.rdb");
        command.args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--dbfilename",
            &file,
            "--dir",
        ]);
        command.arg(std::env::temp_dir()).args(options);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("redis-server cannot be started ({error}): install the package `redis-server`")
        });
        loop {
            let ended = child.try_wait().expect("the state of the server");
            let answering = answering(port, options);
            match (ended, answering) {
                // A test that shared a server with another would find its limits used up, or its own ways refused.
                (Some(_), _) => return None,
                (None, Some(process)) if process.is_none_or(|it| it == child.id()) => {
                    return Some(Self { child, port });
                }
                (None, _) => thread::yield_now(),
            }
        }
    }

    /// Sends it a signal, by the name `kill` knows.
    pub(crate) fn signal(&self, signal: &str) {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal}");
    }

    /// How often scripts were run.
    pub(crate) fn scripts_run(&self) -> u64 {
        self.calls("eval")
    }

    /// How often commands ran whose names begin so, those in scripts included.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        let stats = self.cli(&["info", "commandstats"]);
        let calls = |line: &str| {
            let line = line.strip_prefix("cmdstat_")?.strip_prefix(name)?;
            let (_, rest) = line.split_once("calls=")?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        stats.lines().filter_map(calls).sum()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A store on it, patient enough for a machine with much to do.
    pub(crate) fn store(&self) -> StoreBuilder {
        patient(Store::builder(&self.url()))
    }

    /// What `redis-cli` says.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let port = self.port.to_string();
        let output = Command::new(&*CLIENT)
            .args(["-p", &port, "--no-auth-warning"])
            .args(arguments)
            .output();
        let output = output.unwrap_or_else(|error| {
            panic!("redis-cli cannot be started ({error}): install the package `redis-tools`")
        });
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

/// The process that answers on a port, if one does and says which it is.
fn answering(port: u16, options: &[&str]) -> Option<Option<u32>> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect(address).ok()?;
    if let ["--requirepass", password] = options {
        stream
            .write_all(format!("AUTH {password}\r\n").as_bytes())
            .ok()?;
    }
    stream.write_all(b"INFO server\r\nQUIT\r\n").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    // Another's password is not known here.
    if said.contains("NOAUTH") {
        return Some(Some(0));
    }
    let mut lines = said.lines();
    let process = lines.find_map(|line| line.strip_prefix("process_id:"));
    Some(process.and_then(|number| number.trim().parse().ok()))
}

/// The server that is tested on.
pub(crate) fn program() -> &'static str {
    &SERVER
}

static SERVER: LazyLock<String> = LazyLock::new(|| {
    found(
        "PLIMSOLL_REDIS_SERVER",
        ["redis-server", "valkey-server"],
        "redis-server",
    )
});

/// What looks into it.
static CLIENT: LazyLock<String> = LazyLock::new(|| {
    found(
        "PLIMSOLL_REDIS_CLI",
        ["redis-cli", "valkey-cli"],
        "redis-tools",
    )
});

/// The program that a variable names, which must be one that runs, or the first of `programs` that is installed. If there is none,
/// this process ends, and with it all tests that are in it: they all need it.
fn found(variable: &str, programs: [&str; 2], package: &str) -> String {
    if let Ok(named) = std::env::var(variable) {
        assert!(
            runs(&named, "--version"),
            "{variable} is {named:?}, which cannot be run"
        );
        return named;
    }
    let known = programs
        .into_iter()
        .find(|program| runs(program, "--version"));
    known.map(str::to_owned).unwrap_or_else(|| {
        let name = format!("{} (or {variable}=/path)", programs.join(" or "));
        missing(&name, package);
        std::process::exit(0)
    })
}

fn runs(program: &str, version: &str) -> bool {
    Command::new(program).arg(version).output().is_ok()
}

/// Whether a program is there that only some tests need.
pub(crate) fn is_installed(program: &str, version: &str, package: &str) -> bool {
    let found = runs(program, version);
    if !found {
        missing(program, package);
    }
    found
}

/// Says that tests are skipped, past the harness, which would hide it.
fn missing(program: &str, package: &str) {
    let tests = std::env::current_exe().unwrap_or_default();
    let line = format!(
        "SKIPPED in {}: there is no {program}. Install the package `{package}`; \
         PLIMSOLL_REQUIRE_REDIS=1 makes this an error.",
        tests.display()
    );
    assert!(
        std::env::var_os("PLIMSOLL_REQUIRE_REDIS").is_none(),
        "{line}"
    );
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(crate) fn patient(store: StoreBuilder) -> StoreBuilder {
    store.deadline(std::time::Duration::from_secs(20))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has, and that nobody else here is given. Below those that the system gives to clients, one of which
/// would otherwise have it by the time the server starts.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        // Tests of other processes begin elsewhere.
        let offset = std::process::id().wrapping_mul(131).wrapping_add(next) % COUNT;
        let port = u16::try_from(FIRST + offset).expect("below the highest");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
