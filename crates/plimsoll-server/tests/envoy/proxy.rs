//! Envoy as a process, the service behind it, and the server that it asks.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener as Bound};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_server::{Server, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Envoy's program, if there is one.
pub(crate) fn program(test: &str) -> Option<PathBuf> {
    let program = std::env::var_os("PLIMSOLL_ENVOY").map(PathBuf::from);
    if program.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: PLIMSOLL_ENVOY does not say where Envoy's program is"
        );
    }
    program
}

/// A directory of its own, gone with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-envoy-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("config")).expect("a directory");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `plimsoll serve`, on ports that the system chose.
pub(crate) struct Running {
    pub(crate) grpc: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Running {
    /// With these settings.
    pub(crate) async fn with(mut settings: Settings) -> Self {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        (settings.http, settings.resp) = (any, any);
        (settings.grpc, settings.admin) = (any, any);
        let server = Server::start(settings).await;
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        let [_, _, Some(grpc), _] = server.addresses() else {
            panic!("all ports are open")
        };
        let (stop, stopped) = oneshot::channel();
        let done = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { grpc, stop, done }
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.done.await.expect("it ends");
    }
}

/// A service that answers everything.
pub(crate) async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                let mut byte = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut byte).await {
                    head.extend_from_slice(&byte[..read]);
                    if head.ends_with(b"\r\n\r\n") {
                        // A stream that stays open for a while, where that is asked for.
                        if head.starts_with(b"GET /slow") {
                            tokio::time::sleep(Duration::from_millis(700)).await;
                        }
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nup\n";
                        let _ = stream.write_all(answer).await;
                        head.clear();
                    }
                }
            });
        }
    });
    address
}

/// Envoy as a process. It ends with the test.
pub(crate) struct Proxy {
    process: Child,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

/// What differs from one Envoy to another.
pub(crate) struct Bootstrap<'a> {
    /// Where `plimsoll serve` is.
    pub(crate) rls: SocketAddr,
    pub(crate) upstream: SocketAddr,
    /// The fields of the filter, in YAML, between braces.
    pub(crate) filter: &'a str,
    /// The routes, in YAML, one each line.
    pub(crate) routes: &'a str,
}

/// What stands in the log for each request.
const LOG: &str = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %DYNAMIC_METADATA(envoy.filters.http.ratelimit:plimsoll:verdict)% %DYNAMIC_METADATA(envoy.filters.http.ratelimit:plimsoll:limit)% %DYNAMIC_METADATA(envoy.filters.http.ratelimit:plimsoll:shadow:verdict)% %DYNAMIC_METADATA(envoy.filters.http.ratelimit:plimsoll:shadow:limit)%";

impl Proxy {
    pub(crate) async fn start(program: &PathBuf, dir: &Dir, with: &Bootstrap<'_>) -> Self {
        let free = Bound::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let log = dir.0.join("access.log");
        let Bootstrap {
            rls,
            upstream,
            filter,
            routes,
        } = with;
        let cluster = |name: &str, to: &SocketAddr, more: &str| {
            format!(
                "    - {{ name: {name}, type: STATIC, connect_timeout: 1s, {more} load_assignment: {{ cluster_name: {name}, endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }} }}] }}] }} }}\n",
                to.ip(),
                to.port()
            )
        };
        let http2 = "typed_extension_protocol_options: { envoy.extensions.upstreams.http.v3.HttpProtocolOptions: { '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: { http2_protocol_options: {} } } },";
        let bootstrap = format!(
            "
static_resources:
  clusters:
{}{}
  listeners:
    - name: front
      address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: front
                access_log:
                  - name: envoy.access_loggers.file
                    typed_config: {{ '@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: {}, log_format: {{ text_format_source: {{ inline_string: \"{LOG}\\n\" }} }} }}
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config: {{ '@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, rate_limit_service: {{ transport_api_version: V3, grpc_service: {{ envoy_grpc: {{ cluster_name: rls }} }} }}, timeout: 10s, {filter} }}
                  - name: envoy.filters.http.router
                    typed_config: {{ '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ['*']
                      routes:
{}
",
            cluster("upstream", upstream, ""),
            cluster("rls", rls, http2),
            address.port(),
            log.display(),
            routes
                .lines()
                .map(|line| format!("                        {line}\n"))
                .collect::<String>(),
        );
        let file = dir.write("envoy.yaml", &bootstrap);
        let errors = std::fs::File::create(dir.0.join("envoy.err")).expect("a file");
        let process = Command::new(program)
            .arg("-c")
            .arg(file)
            .args([
                "--disable-hot-restart",
                "--concurrency",
                "1",
                "-l",
                "warning",
            ])
            .args(["--file-flush-interval-msec", "50"])
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("Envoy's program starts");
        let mut proxy = Self {
            process,
            address,
            log,
        };
        for _ in 0..600 {
            if TcpStream::connect(address).await.is_ok() {
                return proxy;
            }
            if let Ok(Some(status)) = proxy.process.try_wait() {
                let why = std::fs::read_to_string(dir.0.join("envoy.err")).unwrap_or_default();
                panic!("Envoy ended with {status}: {why}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("Envoy does not listen");
    }

    pub(crate) async fn get(&self, path: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n{headers}\r\n"
        );
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it listens");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// A line of the log that begins with this, as soon as it is there.
    pub(crate) async fn logged(&self, start: &str) -> String {
        for _ in 0..200 {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(line) = log.lines().rfind(|line| line.starts_with(start)) {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        panic!("no line begins with {start}: {log}");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}
