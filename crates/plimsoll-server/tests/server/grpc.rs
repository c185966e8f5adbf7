//! The gRPC port: health, tokens, what is not there.

use http::uri::PathAndQuery;
use prost::Message;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::Running;

/// A client without generated code.
pub(crate) struct Client(tonic::client::Grpc<Channel>);

impl Client {
    pub(crate) async fn new(server: &Running) -> Self {
        let channel = Channel::from_shared(format!("http://{}", server.grpc));
        let channel = channel.expect("an address").connect().await;
        Self::over(channel.expect("it listens"))
    }

    pub(crate) fn over(channel: Channel) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    /// One message for one message.
    pub(crate) async fn call<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call_as(path, tonic::Request::new(question)).await
    }

    pub(crate) async fn call_as<Q, A>(
        &mut self,
        path: &'static str,
        question: tonic::Request<Q>,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.expect("it listens");
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = self.0.unary(question, path, codec).await?;
        Ok(answer.into_inner())
    }

    async fn watch(&mut self, path: &'static str) -> Streaming<Answer> {
        self.0.ready().await.expect("it listens");
        let codec = ProstCodec::<Question, Answer>::default();
        let path = PathAndQuery::from_static(path);
        let question = tonic::Request::new(Question::default());
        let answer = self.0.server_streaming(question, path, codec).await;
        answer.expect("it is served").into_inner()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

const CHECK: &str = "/grpc.health.v1.Health/Check";

fn about(service: &str) -> Question {
    Question {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn health_is_known_by_service_and_needs_no_token() {
    let server = Running::start(None, Some("secret")).await;
    let mut client = Client::new(&server).await;
    for known in ["", "ratelimit"] {
        let answer: Answer = client.call(CHECK, about(known)).await.expect("known");
        assert_eq!(answer.status, 1);
    }
    let unknown = client.call::<_, Answer>(CHECK, about("other")).await;
    assert_eq!(unknown.expect_err("unknown").code(), Code::NotFound);
    let path = "/some.Service/Method";
    let unknown = client.call::<_, Answer>(path, about("")).await;
    assert_eq!(unknown.expect_err("unknown").code(), Code::Unimplemented);
    server.stop().await;
}

#[tokio::test]
async fn who_watches_health_is_told_of_the_end_and_does_not_delay_it() {
    let server = Running::start(None, None).await;
    let mut client = Client::new(&server).await;
    let mut watched = client.watch("/grpc.health.v1.Health/Watch").await;
    let first = watched.message().await.expect("a message");
    assert_eq!(first, Some(Answer { status: 1 }));
    let stopping = tokio::spawn(server.stop());
    let last = watched.message().await.expect("a message");
    assert_eq!(last, Some(Answer { status: 2 }));
    assert_eq!(watched.message().await.expect("an end"), None);
    stopping.await.expect("it ends");
}

#[tokio::test]
async fn what_is_served_is_described_whole() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let server = Running::start(None, None).await;
    let channel = Channel::from_shared(format!("http://{}", server.grpc));
    let channel = channel.expect("an address").connect().await;
    let mut client = ServerReflectionClient::new(channel.expect("it listens"));
    let mut ask = async |question: MessageRequest| {
        let question = tonic_reflection::pb::v1::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(question),
        };
        let answers = client
            .server_reflection_info(tokio_stream::once(question))
            .await;
        let mut answers = answers.expect("it is served").into_inner();
        let answer = answers.message().await.expect("an answer");
        answer
            .and_then(|it| it.message_response)
            .expect("an answer")
    };
    let listed = match ask(MessageRequest::ListServices(String::new())).await {
        MessageResponse::ListServicesResponse(listed) => listed,
        other => panic!("{other:?}"),
    };
    let services: Vec<String> = listed.service.into_iter().map(|it| it.name).collect();
    for service in [
        "envoy.service.ratelimit.v3.RateLimitService",
        "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
        "grpc.health.v1.Health",
    ] {
        assert!(services.iter().any(|it| it == service), "{services:?}");
    }
    // Every file that is imported is there, and every type that a field has.
    let mut wanted = vec![
        "envoy/service/ratelimit/v3/rls.proto".to_owned(),
        "envoy/service/rate_limit_quota/v3/rlqs.proto".to_owned(),
        "grpc/health/v1/health.proto".to_owned(),
    ];
    let (mut known, mut used) = (Vec::new(), Vec::new());
    let mut seen = Vec::new();
    while let Some(name) = wanted.pop() {
        if seen.contains(&name) {
            continue;
        }
        let bytes = match ask(MessageRequest::FileByFilename(name.clone())).await {
            MessageResponse::FileDescriptorResponse(files) => files.file_descriptor_proto,
            other => panic!("{name}: {other:?}"),
        };
        seen.push(name);
        let file = prost_types::FileDescriptorProto::decode(bytes[0].as_slice()).expect("a file");
        wanted.extend(file.dependency.iter().cloned());
        let package = format!(".{}", file.package());
        let enums = file
            .enum_type
            .iter()
            .map(|it| format!("{package}.{}", it.name()));
        known.extend(enums);
        let mut messages: Vec<_> = file
            .message_type
            .iter()
            .map(|it| (package.clone(), it))
            .collect();
        while let Some((above, message)) = messages.pop() {
            let own = format!("{above}.{}", message.name());
            used.extend(message.field.iter().filter_map(|it| it.type_name.clone()));
            known.extend(
                message
                    .enum_type
                    .iter()
                    .map(|it| format!("{own}.{}", it.name())),
            );
            messages.extend(message.nested_type.iter().map(|it| (own.clone(), it)));
            known.push(own);
        }
        for method in file.service.iter().flat_map(|service| &service.method) {
            used.extend([
                method.input_type().to_owned(),
                method.output_type().to_owned(),
            ]);
        }
    }
    for name in used {
        assert!(known.contains(&name), "{name}");
    }
    server.stop().await;
}
