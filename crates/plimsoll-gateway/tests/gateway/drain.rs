//! Stopping, and files that change.

use std::io::Write as _;

use super::*;

#[tokio::test]
async fn what_is_under_way_ends_and_nothing_new_is_accepted() {
    let (came, mut come) = tokio::sync::mpsc::channel::<()>(1);
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let may = Arc::clone(&go);
    let server = server(move |_| {
        let (may, came) = (Arc::clone(&may), came.clone());
        async move {
            let _ = came.send(()).await;
            may.acquire().await.expect("open").forget();
            text("ok")
        }
    })
    .await;
    let mut gateway = Running::to(&[server]);
    let (address, request) = (gateway.address, get("/"));
    let mut stream = gateway.connect().await;
    stream.write_all(request.as_bytes()).await.expect("written");
    within(come.recv()).await.expect("it came");
    drop(gateway.stop.take());
    // The listener is closed; how soon is up to the system.
    within(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    go.add_permits(1);
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer))
        .await
        .expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
        "{answer}"
    );
    within(&mut gateway.done).await.expect("it ends");
    assert_eq!(
        (gateway.counts.in_flight(), gateway.counts.connections()),
        (0, 0)
    );
}

#[tokio::test]
async fn idle_connections_do_not_hold_it_up() {
    let gateway = Running::to(&[server(|_| async { text("ok") }).await]);
    let mut stream = BufReader::new(gateway.connect().await);
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .expect("written");
    read_head(&mut stream).await;
    gateway.stop().await;
}

/// Pools and limits of a file that changes; a bad file changes nothing.
#[tokio::test]
async fn a_file_that_changes() {
    let (one, two) = (
        server(|_| async { text("one") }).await,
        server(|_| async { text("two") }).await,
    );
    let path = std::env::temp_dir().join(format!("plimsoll-gateway-{}.yaml", std::process::id()));
    let write = |text: String| {
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(text.as_bytes()).expect("written");
    };
    let say = |to: SocketAddr, rate: &str| {
        format!(
            "gateway:\n  listen: 127.0.0.1:0\n  upstreams: {{ app: {{ to: \"http://{to}\" }} }}\nlimits: {{ all: {{ rate: {rate} }} }}\nroutes: [{{ match: /**, limits: [all] }}]\n"
        )
    };
    write(say(one, "100000/s"));
    let mut settings = Settings::default();
    settings.file = Some(path.clone());
    let gateway = Running::run(Gateway::start(&settings).unwrap_or_else(|error| panic!("{error}")));
    assert!(gateway.get("/").await.ends_with("one"));
    write("gateway: {".to_owned());
    assert!(gateway.get("/").await.ends_with("one"));
    write(say(two, "100000/s"));
    within(async { while !gateway.get("/").await.ends_with("two") {} }).await;
    write(say(two, "1/h"));
    within(async { while !gateway.get("/").await.starts_with("HTTP/1.1 429") {} }).await;
    std::fs::remove_file(&path).expect("removed");
    gateway.stop().await;
}

#[test]
fn what_it_does_not_start_with() {
    let start = |settings: &Settings| {
        Gateway::start(settings)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let none = start(&Settings::default());
    assert!(
        none.contains("expected a file with `gateway`, or --to"),
        "{none}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut settings = Settings::default();
    settings.to = plimsoll_config::gateway::Origin::parse("http://127.0.0.1:1").ok();
    settings.listen = taken.local_addr().ok();
    let busy = start(&settings);
    assert!(
        busy.starts_with("cannot listen on 127.0.0.1:") && busy.contains("--listen"),
        "{busy}"
    );
    let with = |text: &str| {
        let config = Config::from_str("gateway.yaml", text, Format::Yaml).expect("right");
        let gateway = Gateway::with_config(&config, &Settings::default());
        gateway.map(|_| ()).unwrap_err().to_string()
    };
    let no_file = with(
        "gateway: { tls: { cert: /none.pem, key: /none.pem }, upstreams: { a: { to: http://a } } }",
    );
    assert!(no_file.starts_with("/none.pem: "), "{no_file}");
    let wrong = with(&format!(
        "gateway: {{ tls: {{ cert: {0}, key: {0} }}, upstreams: {{ a: {{ to: http://a }} }} }}",
        file("cert.pem")
    ));
    assert!(wrong.contains("cert.pem"), "{wrong}");
}
