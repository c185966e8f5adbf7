//! Programs of others: clients of Redis in several languages, and one that looks for mistakes in the HTTP port.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use crate::Running;
use crate::snapshots::Directory;

/// Runs a program while the server serves. `None` where it is not installed: then the test says so and passes.
async fn run(mut command: Command) -> Option<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("it runs");
    if output.is_err() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} is not installed");
    }
    output.ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn of_redis(program: &str, to: SocketAddr, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["-h", "127.0.0.1", "-p", &to.port().to_string()])
        .args(args);
    command
}

/// Python with the packages that `scripts/test` installs.
fn python(args: &[&str]) -> Option<Command> {
    let Some(packages) = std::env::var_os("PLIMSOLL_PYTHON") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: PLIMSOLL_PYTHON does not say where the packages redis and schemathesis are"
        );
        return None;
    };
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).args(args);
    Some(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_in_both_protocols() {
    let server = Running::start(None, None).await;
    for (key, protocol) in [("two", "-2"), ("three", "-3")] {
        let ask = ["CL.THROTTLE", key, "1", "1", "60"];
        let Some(first) = run(of_redis(
            "redis-cli",
            server.resp,
            &[&[protocol][..], &ask].concat(),
        ))
        .await
        else {
            break;
        };
        assert_eq!(text(&first), "0\n2\n1\n-1\n60\n");
        run(of_redis(
            "redis-cli",
            server.resp,
            &[&[protocol][..], &ask].concat(),
        ))
        .await;
        let third = run(of_redis(
            "redis-cli",
            server.resp,
            &[&[protocol][..], &ask].concat(),
        ))
        .await;
        assert_eq!(text(&third.expect("it is here")), "1\n2\n0\n60\n120\n");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_benchmark_pipelined_and_every_answer_counts() {
    let server = Running::start(None, None).await;
    let args = [
        "-n",
        "4000",
        "-P",
        "16",
        "-c",
        "20",
        "-q",
        "PLIMSOLL.TAKE",
        "default",
        "key:__rand_int__",
        "1",
    ];
    let random = ["-r", "1000"];
    if let Some(output) = run(of_redis(
        "redis-benchmark",
        server.resp,
        &[&random[..], &args].concat(),
    ))
    .await
    {
        assert!(output.status.success(), "{}", text(&output));
        let counts = crate::http::send(server.admin, "GET", "/limits", None, "")
            .await
            .json();
        let limit = &counts["limits"][0];
        let all = limit["granted_total"]
            .as_u64()
            .zip(limit["denied_total"].as_u64());
        let all = all.map(|(granted, denied)| granted + denied);
        assert!(all.is_some_and(|all| all >= 4000), "{limit}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_rust() {
    let server = Running::start(None, Some("s3cret")).await;
    let address = server.resp;
    let asked = tokio::task::spawn_blocking(move || {
        let mut answers = Vec::new();
        for (key, protocol) in [("two", "resp2"), ("three", "resp3")] {
            let url = format!("redis://:s3cret@{address}/?protocol={protocol}");
            let client = redis::Client::open(url).expect("an address");
            let mut connection = client.get_connection().expect("it listens");
            let mut pipe = redis::pipe();
            for _ in 0..3 {
                pipe.cmd("CL.THROTTLE").arg(key).arg(1).arg(1).arg(60);
            }
            let five: Vec<Vec<i64>> = pipe.query(&mut connection).expect("answers");
            answers.extend(five.iter().map(|it| it[0]));
            let error: Result<(), _> = redis::cmd("PLIMSOLL.TAKE")
                .arg("none")
                .arg("x")
                .query(&mut connection);
            assert!(
                error
                    .expect_err("it is not there")
                    .to_string()
                    .contains("there is no limit")
            );
        }
        answers
    });
    assert_eq!(asked.await.expect("it runs"), [0, 0, 1, 0, 0, 1]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_python() {
    let server = Running::start(None, None).await;
    let script = format!(
        "import redis
for protocol in (2, 3):
    client = redis.Redis(port={}, protocol=protocol)
    assert client.ping()
    pipe = client.pipeline(transaction=False)
    for _ in range(3):
        pipe.execute_command('CL.THROTTLE', f'py{{protocol}}', 1, 1, 60)
    assert [answer[0] for answer in pipe.execute()] == [0, 0, 1]
    try:
        client.execute_command('PLIMSOLL.TAKE', 'none', 'x')
        raise SystemExit('it is not there')
    except redis.ResponseError as error:
        assert 'there is no limit' in str(error), error
",
        server.resp.port()
    );
    if let Some(command) = python(&["-c", &script]) {
        let output = run(command).await.expect("Python is here");
        assert!(output.status.success(), "{}", text(&output));
    }
    server.stop().await;
}

/// What the document says holds, for requests that a program makes up from it, by all of its checks. Longer with
/// `PLIMSOLL_SCHEMATHESIS_SECONDS`. It speaks no gRPC (4.32.5): that is what `envoy::bounds` is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing() {
    let server = Running::start(None, None).await;
    let directory = Directory::new();
    let settings = directory.0.join("schemathesis.toml");
    // Bodies that are too large for it are refused before they are read. What is right by the document may be refused by a limit,
    // or name a limit or a lease that there is none of: everything but a mistake in the request.
    let statuses = "[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]
positive_data_acceptance.expected-statuses = [\"2xx\", 404, 409, 413, 422, 429, 503]
";
    std::fs::write(&settings, statuses).expect("a file");
    let seconds =
        std::env::var("PLIMSOLL_SCHEMATHESIS_SECONDS").unwrap_or_else(|_| "12".to_owned());
    let seed = std::env::var("PLIMSOLL_SEED").unwrap_or_else(|_| "1".to_owned());
    println!("schemathesis draws with PLIMSOLL_SEED={seed}");
    let url = format!("http://{}/openapi.json", server.http);
    let settings: &Path = &settings;
    let args = [
        "-m",
        "schemathesis.cli",
        "--config-file",
        settings.to_str().expect("text"),
        "run",
        &url,
        "--max-time",
        &seconds,
        "-n",
        "20",
        "--seed",
        &seed,
        "--no-color",
        "--warnings",
        "off",
    ];
    if let Some(mut command) = python(&args) {
        command.current_dir(&directory.0);
        let output = run(command).await.expect("Python is here");
        let mut said = text(&output);
        said.truncate(20_000);
        assert!(output.status.success(), "{said}");
    }
    server.stop().await;
}
