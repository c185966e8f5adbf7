//! The service behind the limits, which forwards requests to servers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use plimsoll_engine::Limits;
use plimsoll_tower::{Head, Usage};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use crate::connection::{Connection, Idle, SendError};
use crate::counts::GatewayCounts;
use crate::fault::Fault;
use crate::headers::{self, Peer};
use crate::outgoing::{Outgoing, Upgrade};
use crate::pool::{Lease, Pool};
use crate::request_body::{FromClient, Progress, RequestBody};
use crate::response_body::{ResponseBody, ServerBody};
use crate::table::Table;
use crate::tokens::Tokens;
use crate::tunnel;
use crate::wire::Wire;

/// The number of closed idle connections that one request replaces before it fails.
const MAX_CLOSED: u32 = 8;

/// Forwards requests to servers. Clones share its state.
#[derive(Clone)]
pub(crate) struct Proxy(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) table: Arc<ArcSwap<Table>>,
    pub(crate) counts: Arc<GatewayCounts>,
    pub(crate) idle: Arc<Idle>,
    /// Each upgraded connection owns a clone, so that the worker can wait for the last one.
    pub(crate) tunnels: mpsc::Sender<Infallible>,
}

impl Service<Request<FromClient>> for Proxy {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<FromClient>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { Ok(shared.serve(request).await) })
    }
}

/// A request in flight.
struct Exchange {
    pool: Arc<Pool>,
    progress: Option<Arc<Progress>>,
    wire: Option<Arc<Wire>>,
    upgrade: Upgrade,
}

/// A response whose head has arrived.
struct Answer {
    response: Response<Incoming>,
    connection: Connection,
    lease: Lease,
}

impl Shared {
    async fn serve(self: Arc<Self>, request: Request<FromClient>) -> Response<ResponseBody> {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let is_http1 = request.version() < Version::HTTP_2;
        match self.pass_on(request).await {
            Ok(response) => response,
            Err(fault) => {
                self.counts.note(fault);
                // Faults of servers have been logged, with the server.
                if fault == Fault::NoPool || fault.status().is_client_error() {
                    tracing::warn!(fault = fault.word(), "a request was not passed on");
                }
                let mut response = fault.response().map(ResponseBody::own);
                // Nothing more is read from a client that sends malformed requests.
                if is_http1 && response.status().is_client_error() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                response
            }
        }
    }

    async fn pass_on(
        self: &Arc<Self>,
        request: Request<FromClient>,
    ) -> Result<Response<ResponseBody>, Fault> {
        let (mut parts, body) = request.into_parts();
        let (pool, is_trusted, max_body) = {
            let table = self.table.load();
            let name = self.limits.upstream_of(&Head::from(&parts));
            let pool = table.pool(name.as_deref()).cloned().ok_or(Fault::NoPool)?;
            let peer = parts.extensions.get::<Arc<Peer>>();
            let is_trusted = peer.is_some_and(|peer| table.trusts(peer.address.ip()));
            (pool, is_trusted, table.max_body)
        };
        let outgoing = Outgoing::new(&mut parts, is_trusted)?;
        if outgoing.length().is_some_and(|length| length > max_body) {
            return Err(Fault::BodyTooLarge);
        }
        let (body, progress) = match outgoing.upgrade {
            // The body is the stream of another protocol.
            Upgrade::Connect => (RequestBody::Empty, None),
            _ => RequestBody::new(body, max_body, pool.idle, outgoing.expects),
        };
        let exchange = Exchange {
            upgrade: outgoing.upgrade,
            wire: parts.extensions.remove::<Arc<Wire>>(),
            pool,
            progress,
        };
        let answer = self.ask(&exchange, outgoing, body).await?;
        if answer.response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let client = parts.extensions.remove::<OnUpgrade>();
            return self.switch(&exchange, answer, client);
        }
        let usage = parts.extensions.remove::<Usage>();
        Ok(self.answered(answer, usage))
    }

    /// Sends the request to servers of the pool until one responds.
    async fn ask(
        &self,
        exchange: &Exchange,
        outgoing: Outgoing,
        body: RequestBody,
    ) -> Result<Answer, Fault> {
        let pool = &exchange.pool;
        pool.budget.request();
        let is_upgrade = exchange.upgrade != Upgrade::No;
        // A request that was sent is retried only if its method is idempotent and it has no body.
        let again = exchange.progress.is_none()
            && pool.max_retries > 0
            && outgoing.method().is_idempotent();
        let (mut next, mut tried) = (Some((outgoing, body)), Vec::new());
        let (mut closed, mut resent) = (0, false);
        loop {
            let Some((outgoing, body)) = next.take() else {
                return Err(Fault::BrokenAnswer);
            };
            let lease = pool.pick(&tried, &self.counts).ok_or(Fault::NoPool)?;
            let kept = (!is_upgrade)
                .then(|| self.idle.take(&lease.endpoint))
                .flatten();
            let dialled = match kept {
                Some(connection) => Ok(connection),
                None => {
                    // Boxed, because it is rare and large, and the future of a request is moved.
                    let dialled = Box::pin(dial(&lease, is_upgrade)).await;
                    dialled.inspect(|it| self.idle.share(it, &lease))
                }
            };
            let mut connection = match dialled {
                Ok(connection) => connection,
                Err(fault) => {
                    // Nothing was sent, so every request can go to another server.
                    self.retry(&lease, fault, &mut tried)?;
                    next = Some((outgoing, body));
                    continue;
                }
            };
            let spare = again.then(|| outgoing.clone());
            let mut request = outgoing.request(&lease, body);
            exchange.listen(&mut request);
            let sent = within(
                connection.send(request),
                exchange.progress.as_deref(),
                pool.response,
            )
            .await;
            let failed = match sent {
                Some(Ok(response)) => {
                    if response.status().is_server_error() {
                        lease.failed();
                    } else {
                        lease.succeeded();
                    }
                    return Ok(Answer {
                        response,
                        connection,
                        lease,
                    });
                }
                Some(Err(SendError::NotSent(request)))
                    if closed < MAX_CLOSED && connection.is_used =>
                {
                    closed += 1;
                    next = Some(Outgoing::back(*request, exchange.upgrade));
                    continue;
                }
                Some(Err(SendError::NotSent(_))) => Fault::BrokenAnswer,
                Some(Err(SendError::Failed(error))) => {
                    // A request body that fails also ends the exchange. Then the fault is that of the client.
                    if let Some(fault) = exchange.progress.as_ref().and_then(|it| it.fault()) {
                        return Err(fault);
                    }
                    tracing::debug!(server = %lease.endpoint.origin, %error, "no answer");
                    Fault::BrokenAnswer
                }
                None => Fault::SlowAnswer,
            };
            // The server may have closed an idle connection just when the request was sent. That is no failure of the server.
            if connection.is_used && failed == Fault::BrokenAnswer && spare.is_some() && !resent {
                resent = true;
            } else if spare.is_some() && failed == Fault::BrokenAnswer {
                self.retry(&lease, failed, &mut tried)?;
            } else {
                return Err(self.fail(&lease, failed));
            }
            next = spare.map(|outgoing| (outgoing, RequestBody::Empty));
        }
    }

    /// Counts a failure of a server. Returns the fault if the request may not be retried.
    fn retry(&self, lease: &Lease, fault: Fault, tried: &mut Vec<usize>) -> Result<(), Fault> {
        let (pool, so_far) = (&lease.pool, tried.len());
        tried.push(lease.endpoint.id);
        let may = u32::try_from(so_far).is_ok_and(|so_far| so_far < pool.max_retries);
        if !may || !pool.budget.retry(Instant::now()) {
            return Err(self.fail(lease, fault));
        }
        lease.failed();
        self.counts.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn fail(&self, lease: &Lease, fault: Fault) -> Fault {
        lease.failed();
        tracing::warn!(pool = lease.pool.name, server = %lease.endpoint.origin, fault = fault.word(), "a request failed");
        fault
    }

    /// The response of a server, as the client gets it.
    fn answered(&self, answer: Answer, usage: Option<Usage>) -> Response<ResponseBody> {
        let Answer {
            response,
            connection,
            lease,
        } = answer;
        let (mut parts, body) = response.into_parts();
        if parts.headers.contains_key(TRANSFER_ENCODING) {
            // `Transfer-Encoding` determines the length, and overrides `Content-Length` (RFC 9112, 6.3).
            parts.headers.remove(CONTENT_LENGTH);
        }
        headers::strip(&mut parts.headers);
        headers::via(&mut parts.headers, parts.version);
        // A request that the server refused has no usage.
        let tokens = usage.filter(|_| parts.status.is_success());
        let tokens = tokens.and_then(|usage| Tokens::of(&parts.headers, usage));
        let body = ServerBody::new(body, connection, lease, Arc::clone(&self.idle), tokens);
        let mut response = Response::new(ResponseBody::server(body));
        *response.status_mut() = parts.status;
        *response.headers_mut() = parts.headers;
        response
    }

    /// Upgrades the connection after `101 Switching Protocols` of the server.
    fn switch(
        &self,
        exchange: &Exchange,
        answer: Answer,
        client: Option<OnUpgrade>,
    ) -> Result<Response<ResponseBody>, Fault> {
        let Answer {
            mut response,
            connection,
            lease,
        } = answer;
        let Some(client) = client.filter(|_| exchange.upgrade != Upgrade::No) else {
            return Err(self.fail(&lease, Fault::BrokenAnswer));
        };
        let (server, idle) = (hyper::upgrade::on(&mut response), lease.pool.idle);
        connection.detach();
        let mut headers = std::mem::take(response.headers_mut());
        let protocol = headers.get(UPGRADE).cloned();
        headers::strip(&mut headers);
        headers::via(&mut headers, response.version());
        let mut response = Response::new(ResponseBody::own(bytes::Bytes::new()));
        if exchange.upgrade == Upgrade::Connect {
            headers.remove(SEC_WEBSOCKET_ACCEPT);
        } else {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            if let Some(protocol) = protocol {
                headers.insert(UPGRADE, protocol);
            }
        }
        *response.headers_mut() = headers;
        let held = (lease, self.tunnels.clone());
        tunnel::spawn(client, server, idle, Arc::clone(&self.counts), held);
        Ok(response)
    }
}

impl Exchange {
    /// Forwards interim responses of the server.
    fn listen(&self, request: &mut Request<RequestBody>) {
        let (wire, progress) = (self.wire.clone(), self.progress.clone());
        if wire.is_none() && progress.is_none() {
            return;
        }
        hyper::ext::on_informational(request, move |response| {
            if response.status() == StatusCode::CONTINUE {
                // hyper sends it to the client when the body is polled.
                if let Some(progress) = &progress {
                    progress.wanted.notify_one();
                }
            } else if let Some(wire) = &wire {
                wire.inform(response.status(), response.headers());
            }
        });
    }
}

async fn dial(lease: &Lease, is_upgrade: bool) -> Result<Connection, Fault> {
    let dialled =
        tokio::time::timeout(lease.pool.connect, Connection::dial(lease, is_upgrade)).await;
    match dialled {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => {
            tracing::debug!(server = %lease.endpoint.origin, %error, "no connection");
            Err(Fault::NoConnection)
        }
        Err(_) => Err(Fault::SlowConnection),
    }
}

/// Awaits a response. `None` if it takes longer than `longest` after the last part of the request was sent.
async fn within<T>(
    awaited: impl Future<Output = T>,
    progress: Option<&Progress>,
    longest: Duration,
) -> Option<T> {
    let mut awaited = pin!(awaited);
    let mut timer = pin!(sleep(longest));
    let mut seen = 0;
    loop {
        tokio::select! {
            biased;
            done = &mut awaited => return Some(done),
            () = &mut timer => {
                let progress = progress?;
                let now = Instant::now();
                let (frames, waits) = progress.state();
                let end = match progress.ended() {
                    Some(ended) => ended + longest,
                    // The client is slow, which has its own time-out, or the server has read more of the request.
                    None if waits || frames != seen => now + longest,
                    None => return None,
                };
                if end <= now {
                    return None;
                }
                seen = frames;
                timer.as_mut().reset(end);
            }
        }
    }
}
