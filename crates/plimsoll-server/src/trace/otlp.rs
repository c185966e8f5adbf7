//! The exporter of spans, with the OpenTelemetry SDK.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    FutureExt, Span as _, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use plimsoll_engine::{Hold, Refusal};
use tokio::runtime::Handle;

use super::environment;

/// Creates spans and exports them in batches. Spans that cannot be exported are dropped and logged.
#[derive(Debug)]
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl Exporter {
    /// Exports to `endpoint`, or if it is empty to the endpoint of the variables. `None` if the variables disable tracing.
    pub(super) fn new(endpoint: &str) -> Result<Option<Self>, String> {
        if !environment::check(endpoint)? {
            tracing::info!("no traces are sent: the variables OTEL_* say so");
            return Ok(None);
        }
        let client = OnRuntime {
            runtime: Handle::current(),
            client: HyperClient::with_default_connector(environment::timeout(), None),
        };
        let mut exporter = SpanExporter::builder().with_http().with_http_client(client);
        if !endpoint.is_empty() {
            exporter =
                exporter.with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')));
        }
        let exporter = exporter.build().map_err(|error| error.to_string())?;
        let mut resource = Resource::builder();
        if !environment::names_service() {
            resource = resource.with_service_name("plimsoll");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Self {
            tracer: provider.tracer("plimsoll"),
            provider,
            propagator: TraceContextPropagator::new(),
        }))
    }

    /// The span of a decision, a child of the request's span. `None` if the trace is not sampled.
    pub(super) fn decision(&self) -> Option<Box<Span>> {
        Context::map_current(|context| {
            let taken = context.span().is_recording();
            taken.then(|| Box::new(self.tracer.start_with_context("decide", context)))
        })
    }

    /// Exports the remaining spans, within a timeout.
    pub(super) fn flush(&self, within: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(within) {
            tracing::warn!("the last traces could not be sent: {error}");
        }
    }
}

/// Runs a request in a span, a child of the caller's span if the request has a trace context.
pub(super) async fn serve(
    State(exporter): State<Arc<Exporter>>,
    request: Request,
    next: Next,
) -> Response {
    let Some((name, attributes)) = describe(&request) else {
        return next.run(request).await;
    };
    let headers = HeaderExtractor(request.headers());
    let propagator = &exporter.propagator;
    let caller = propagator.extract_with_context(&Context::new(), &headers);
    let tracer = &exporter.tracer;
    let span = tracer
        .span_builder(name)
        .with_kind(SpanKind::Server)
        .with_attributes(attributes)
        .start_with_context(tracer, &caller);
    let context = caller.with_span(span);
    let answer = next.run(request).with_context(context.clone()).await;
    let span = context.span();
    if span.is_recording() {
        span.set_attribute(status(answer.headers(), answer.status()));
        if answer.status().is_server_error() {
            span.set_status(Status::error(""));
        }
    }
    span.end();
    answer
}

/// The span name and attributes of a request. `None` for requests that make no decision.
fn describe(request: &Request) -> Option<(String, Vec<KeyValue>)> {
    let path = request.uri().path();
    if is_grpc(request.headers()) {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        // Streams last as long as proxies run, and health checks are frequent.
        if method != "ShouldRateLimit" {
            return None;
        }
        let attributes = vec![
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", service.to_owned()),
            KeyValue::new("rpc.method", method.to_owned()),
        ];
        return Some((format!("{service}/{method}"), attributes));
    }
    let route = route(path)?;
    let method = request.method();
    let attributes = vec![
        KeyValue::new("http.request.method", method.as_str().to_owned()),
        KeyValue::new("http.route", route),
    ];
    Some((format!("{method} {route}"), attributes))
}

/// The route of a path: the path with placeholders for ids.
fn route(path: &str) -> Option<&'static str> {
    const ROUTES: [&str; 6] = [
        "/v1/check",
        "/v1/peek",
        "/v1/charge",
        "/v1/refund",
        "/v1/leases",
        "/json",
    ];
    if let Some(lease) = path.strip_prefix("/v1/leases/") {
        return Some(match lease.split_once('/') {
            None => "/v1/leases/{id}",
            Some((_, "commit")) => "/v1/leases/{id}/commit",
            Some((_, "undo")) => "/v1/leases/{id}/undo",
            Some(_) => return None,
        });
    }
    ROUTES.into_iter().find(|route| *route == path)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"))
}

/// The attribute with the status of the response.
fn status(headers: &HeaderMap, status: http::StatusCode) -> KeyValue {
    if !is_grpc(headers) {
        return KeyValue::new("http.response.status_code", i64::from(status.as_u16()));
    }
    // A successful call has its status in the trailers.
    let code = headers.get("grpc-status").and_then(|it| it.to_str().ok());
    let code = code.and_then(|it| it.parse::<i64>().ok());
    KeyValue::new("rpc.grpc.status_code", code.unwrap_or(0))
}

/// Records a decision in its span and ends it. Keys are not recorded: they may be secrets.
pub(super) fn decided(mut span: Span, decided: &Result<Hold, Refusal>) {
    span.set_attribute(KeyValue::new("plimsoll.allowed", decided.is_ok()));
    let (mut limits, mut shadows) = (Vec::new(), Vec::new());
    let mut note = |answer: plimsoll_engine::Answer<'_>| {
        limits.push(StringValue::from(answer.limit.to_owned()));
        if answer.shadow && !answer.is_granted() {
            shadows.push(StringValue::from(answer.limit.to_owned()));
        }
    };
    match decided {
        Ok(hold) => hold.answers().for_each(&mut note),
        Err(refusal) => {
            refusal.answers().for_each(&mut note);
            let denied = refusal.denied();
            if let Some(limit) = denied.limiter() {
                span.set_attribute(KeyValue::new("plimsoll.limit", limit.to_owned()));
            }
            let reason = denied.reason().as_str();
            span.set_attribute(KeyValue::new("plimsoll.reason", reason));
            if let Some(after) = denied.retry_after() {
                let seconds = after.as_secs_f64();
                span.set_attribute(KeyValue::new("plimsoll.retry_after", seconds));
            }
        }
    }
    let list = |names| Value::Array(Array::String(names));
    span.set_attribute(KeyValue::new("plimsoll.limits", list(limits)));
    if !shadows.is_empty() {
        span.set_attribute(KeyValue::new("plimsoll.would_refuse", list(shadows)));
    }
    span.end();
}

/// Records a decision for Envoy in its span and ends it.
pub(super) fn answered(
    mut span: Span,
    refused: bool,
    field: impl Fn(&str) -> Option<serde_json::Value>,
) {
    span.set_attribute(KeyValue::new("plimsoll.allowed", !refused));
    for (name, attribute) in [
        ("limit", "plimsoll.limit"),
        ("reason", "plimsoll.reason"),
        ("retry_after", "plimsoll.retry_after"),
    ] {
        let is: Option<Value> = match field(name) {
            Some(serde_json::Value::String(text)) if !text.is_empty() => Some(text.into()),
            Some(serde_json::Value::Number(number)) => number.as_f64().map(Into::into),
            _ => None,
        };
        if let Some(is) = is {
            span.set_attribute(KeyValue::new(attribute, is));
        }
    }
    span.end();
}

/// An HTTP client that runs on the server's runtime, because the exporter thread of the SDK has none.
struct OnRuntime {
    runtime: Handle,
    client: HyperClient,
}

impl fmt::Debug for OnRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRuntime").finish_non_exhaustive()
    }
}

type Sent = Result<http::Response<Bytes>, HttpError>;

impl HttpClient for OnRuntime {
    fn send_bytes<'s, 'f>(
        &'s self,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Sent> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        let client = self.client.clone();
        let sent = self
            .runtime
            .spawn(async move { client.send_bytes(request).await });
        Box::pin(async move { sent.await? })
    }
}
