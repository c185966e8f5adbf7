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
        Self(tonic::client::Grpc::new(channel.expect("it listens")))
    }

    /// One message for one message.
    pub(crate) async fn call<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call_as(path, tonic::Request::new(question)).await
    }

    async fn call_as<Q, A>(
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
