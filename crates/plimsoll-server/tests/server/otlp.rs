//! Traces of decisions, as a collector receives them.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::routing::post;
use http::HeaderMap;
use prost::Message;
use serde_json::json;
use tokio::net::TcpListener;

use crate::Running;
use crate::envoy::{Answer, METHOD, Request, descriptor};
use crate::grpc::Client;
use crate::http::send;

#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<OfResource>,
}

#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(oneof = "Is", tags = "1, 2, 3, 4, 5")]
    is: Option<Is>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Is {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    List(List),
}

#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Any>,
}

fn found(attributes: &[Pair], key: &str) -> Option<Is> {
    let pair = attributes.iter().find(|pair| pair.key == key)?;
    pair.value.clone()?.is
}

impl Span {
    fn is(&self, key: &str) -> Option<Is> {
        found(&self.attributes, key)
    }
}

fn text(text: &str) -> Option<Is> {
    Some(Is::Text(text.to_owned()))
}

/// A collector: what it was sent, with the header fields of each time.
#[derive(Clone)]
struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<(HeaderMap, Export)>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let collector = Self {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
        };
        let received = Arc::clone(&collector.received);
        let take = post(move |headers: HeaderMap, body: Bytes| async move {
            let export = Export::decode(body).expect("traces");
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.push((headers, export));
        });
        let router = axum::Router::new().route("/v1/traces", take);
        tokio::spawn(async move { axum::serve(listener, router).await });
        collector
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn received(&self) -> Vec<(HeaderMap, Export)> {
        let received = self.received.lock();
        received.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn spans(&self) -> Vec<Span> {
        let received = self.received();
        let resources = received.iter().flat_map(|(_, export)| &export.resources);
        let scopes = resources.flat_map(|it| &it.scopes);
        scopes.flat_map(|it| it.spans.clone()).collect()
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A span of a request and that of its decision, which is below it.
fn pair<'s>(spans: &'s [Span], name: &str) -> (&'s Span, &'s Span) {
    let of = |wanted: &dyn Fn(&Span) -> bool| {
        let mut all = spans.iter().filter(|span| wanted(span));
        let first = all.next().unwrap_or_else(|| panic!("{name} in {spans:?}"));
        assert_eq!(all.next(), None, "{name}");
        first
    };
    let request = of(&|span| span.name == name);
    let decision = of(&|span| span.name == "decide" && span.parent == request.id);
    assert_eq!(request.trace, decision.trace);
    assert!(request.start <= decision.start && decision.end <= request.end);
    (request, decision)
}

async fn check(server: &Running, key: &str, cost: u64, more: &str) -> u16 {
    let ask = json!({ "limit": "logins", "key": key, "cost": cost });
    send(server.http, "POST", "/v1/check", Some(&ask), more)
        .await
        .status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_are_spans_below_those_of_their_callers() {
    let collector = Collector::start().await;
    let server = Running::changed(|settings| settings.otlp = Some(collector.url())).await;
    let said = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    assert_eq!(check(&server, "a secret", 9, &said).await, 413);
    let mut client = Client::new(&server).await;
    let request = Request {
        domain: "any".to_owned(),
        descriptors: vec![descriptor("user=anna")],
        hits_addend: 0,
    };
    let mut request = tonic::Request::new(request);
    let parent = format!("00-{}-{CALLER}-01", TRACE.replace('0', "1"));
    let parent = parent.parse().expect("a value");
    request.metadata_mut().insert("traceparent", parent);
    let _: Answer = client.call_as(METHOD, request).await.expect("an answer");
    // Who takes no traces is believed, and health is no decision.
    let unsampled = format!(
        "traceparent: 00-{}-{CALLER}-00\r\n",
        TRACE.replace('a', "b")
    );
    assert_eq!(check(&server, "b", 1, &unsampled).await, 200);
    assert_eq!(
        send(server.http, "GET", "/openapi.json", None, "")
            .await
            .status,
        200
    );
    drop(client);
    server.stop().await;

    let spans = collector.spans();
    assert_eq!(spans.len(), 4, "{spans:?}");
    let (request, decision) = pair(&spans, "POST /v1/check");
    assert_eq!((hex(&request.trace).as_str(), request.kind), (TRACE, 2));
    assert_eq!(hex(&request.parent), CALLER);
    assert_eq!(request.is("http.route"), text("/v1/check"));
    assert_eq!(
        request.is("http.response.status_code"),
        Some(Is::Whole(413))
    );
    assert_eq!(decision.is("plimsoll.allowed"), Some(Is::Truth(false)));
    assert_eq!(decision.is("plimsoll.limit"), text("logins"));
    assert_eq!(decision.is("plimsoll.reason"), text("too_large"));
    let limits = match decision.is("plimsoll.limits") {
        Some(Is::List(list)) => list.values,
        other => panic!("{other:?}"),
    };
    assert_eq!(limits, [Any { is: text("logins") }]);
    assert!(!format!("{spans:?}").contains("a secret"), "{spans:?}");

    let name = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let (request, decision) = pair(&spans, name);
    assert_eq!(hex(&request.trace), TRACE.replace('0', "1"));
    assert_eq!(request.is("rpc.method"), text("ShouldRateLimit"));
    assert_eq!(request.is("rpc.grpc.status_code"), Some(Is::Whole(0)));
    assert_eq!(decision.is("plimsoll.allowed"), Some(Is::Truth(true)));

    let received = collector.received();
    let resource = received[0].1.resources[0].resource.as_ref();
    let attributes = &resource.expect("a resource").attributes;
    assert_eq!(found(attributes, "service.name"), text("plimsoll"));
}

/// Nobody answers there, and one takes everything and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_down_hurts_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addresses = [&silent, &gone].map(|it| it.local_addr().expect("an address"));
    drop(gone);
    for address in addresses {
        let server = Running::changed(|settings| {
            settings.otlp = Some(format!("http://{address}/"));
            settings.drain = Duration::from_millis(200);
        })
        .await;
        // More than are kept for the collector.
        let mut kept = crate::wire::Kept::new(server.http).await;
        for key in 0..3000 {
            let ask = format!(r#"{{"limit":"logins","key":"{key}"}}"#);
            let (status, _) = kept.post("/v1/check", &ask).await.expect("an answer");
            assert_eq!(status, 200);
        }
        drop(kept);
        let stopped = tokio::time::timeout(Duration::from_secs(60), server.stop());
        assert!(stopped.await.is_ok(), "it waits for the collector");
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    for endpoint in ["https://collector.example", "127.0.0.1:4318", "http://a b"] {
        let mut settings = plimsoll_server::Settings::default();
        settings.otlp = Some(endpoint.to_owned());
        let error = plimsoll_server::Server::start(settings).await;
        let error = error.expect_err("it is refused").to_string();
        assert!(error.starts_with("cannot send traces: "), "{error}");
        assert!(error.contains(endpoint), "{error}");
    }
}

/// Runs this program again as [`another_process`], with these variables.
async fn with_variables(variables: &[(&str, &str)]) -> (bool, String) {
    let program = std::env::current_exe().expect("it runs");
    let mut command = tokio::process::Command::new(program);
    command.args([
        "--exact",
        "otlp::another_process",
        "--ignored",
        "--nocapture",
    ]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().await.expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Variables belong to a process, so this is one: it serves ten checks.
#[tokio::test]
#[ignore = "started by `the_variables_of_opentelemetry_are_honoured`"]
async fn another_process() {
    let server = Running::changed(|settings| settings.otlp = Some(String::new())).await;
    for key in 0..10 {
        assert_eq!(check(&server, &key.to_string(), 1, "").await, 200);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_variables_of_opentelemetry_are_honoured() {
    let run = async |more: &[(&str, &str)]| {
        let collector = Collector::start().await;
        let url = collector.url();
        let mut variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())];
        variables.extend(more);
        let (went_well, said) = with_variables(&variables).await;
        (collector, went_well, said)
    };
    let all = [
        ("OTEL_SERVICE_NAME", "gate"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment=test,team=limits",
        ),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20abc,x-team=limits",
        ),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    ];
    let (collector, went_well, said) = run(&all).await;
    assert!(went_well, "{said}");
    assert_eq!(collector.spans().len(), 20);
    let received = collector.received();
    let (headers, export) = &received[0];
    assert_eq!(headers["authorization"], "Bearer abc");
    assert_eq!(headers["x-team"], "limits");
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let resource = export.resources[0].resource.as_ref();
    let attributes = &resource.expect("a resource").attributes;
    assert_eq!(found(attributes, "service.name"), text("gate"));
    assert_eq!(found(attributes, "team"), text("limits"));

    for (variables, spans) in [
        (&[("OTEL_SDK_DISABLED", "true")][..], 0),
        (&[("OTEL_TRACES_EXPORTER", "none")], 0),
        (&[("OTEL_TRACES_SAMPLER", "always_off")], 0),
        (
            &[
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", "0"),
            ],
            0,
        ),
        (
            &[
                ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", "1"),
            ],
            20,
        ),
    ] {
        let (collector, went_well, said) = run(variables).await;
        assert!(went_well, "{variables:?}: {said}");
        assert_eq!(collector.spans().len(), spans, "{variables:?}");
    }
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ] {
        let (_, went_well, said) = run(&[(name, value)]).await;
        assert!(!went_well);
        let expected = format!("{name} is {value:?}: expected ");
        assert!(said.contains(&expected), "{said}");
    }
}
