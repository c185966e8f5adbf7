//! Costs that are known only afterwards.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, Usage};
use tower_layer::Layer;
use tower_service::Service;

use super::{Answers, OK, answer, from, get, text};
use crate::hand::{now, poll};
use crate::steps::{Step, Steps};

fn bucket(time: &ManualClock, size: u64) -> Gate<TokenBucket> {
    Gate::builder(TokenBucket::per_second(size))
        .clock(time.clock())
        .build()
}

const PEER: [u8; 4] = [192, 0, 2, 1];

/// Lets everybody in who asks for `/right`.
const LOGIN: Answers<Full<Bytes>> = Answers(|request| {
    let mut response = Response::new(Full::from("hello"));
    if request.uri().path() != "/right" {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    response
});

fn login(right: bool) -> Request<()> {
    let mut request = from(PEER);
    *request.uri_mut() = if right { "/right" } else { "/wrong" }.parse().unwrap();
    request
}

#[test]
fn only_logins_that_fail_count() {
    let time = ManualClock::new();
    let keyed = Keyed::<Address, _>::builder(TokenBucket::per_second(3))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::by_key(keyed.clone(), Peer::new())
        .charge_response(|response| u64::from(response.status() == 401));
    let mut service = HttpLimitLayer::new(limit).layer(LOGIN);
    let left = || {
        keyed
            .standing(&Peer::new().address(PEER.into()))
            .remaining
            .unwrap()
    };
    for _ in 0..20 {
        assert_eq!(answer(&mut service, login(true)).status(), 200);
        assert_eq!(left(), 3, "success gives back");
    }
    for expected in [2, 1, 0] {
        assert_eq!(answer(&mut service, login(false)).status(), 401);
        assert_eq!(left(), expected);
    }
    assert_eq!(answer(&mut service, login(true)).status(), 429);
}

#[test]
fn a_login_counts_as_failed_until_it_is_known() {
    let time = ManualClock::new();
    let gate = bucket(&time, 2);
    let limit = RequestLimit::new(gate.clone())
        .charge_response(|response| u64::from(response.status() == 401));
    let mut service = HttpLimitLayer::new(limit).layer(LOGIN);
    let (first, second) = (service.call(login(true)), service.call(login(true)));
    assert_eq!(answer(&mut service, login(true)).status(), 429);
    assert_eq!(now(first).unwrap().status(), 200);
    // Who hangs up before the answer is known has been charged.
    drop(second);
    assert_eq!(gate.snapshot().available(), 1);
}

#[test]
fn a_response_may_cost_more_than_was_taken() {
    let time = ManualClock::new();
    let gate = bucket(&time, 10);
    let limit = RequestLimit::new(gate.clone()).charge_response(|response| {
        response
            .headers()
            .get("x-cost")
            .map_or(1, |cost| cost.to_str().unwrap().parse().unwrap())
    });
    let expensive = Answers(|_| {
        Response::builder()
            .header("x-cost", "25")
            .body(Full::from("much"))
            .unwrap()
    });
    let mut service = HttpLimitLayer::new(limit).layer(expensive);
    assert_eq!(answer(&mut service, get("/")).status(), 200);
    let denied = gate.try_acquire(1).unwrap_err();
    assert_eq!(
        denied.retry_after().unwrap().as_millis(),
        1600,
        "15 in debt, and one to take"
    );
}

/// Ten bytes in three parts.
const TEN_BYTES: Answers<Steps> = Answers(|_| {
    let parts = [
        Step::Data("abcd"),
        Step::Wait,
        Step::Data("efgh"),
        Step::Data("ij"),
    ];
    Response::new(Steps::new(&parts))
});

fn bytes_service(
    gate: &Gate<TokenBucket>,
    reserved: u64,
) -> impl FnMut() -> Response<super::LimitBody<Steps, RequestLimit<Gate<TokenBucket>>>> {
    let limit = RequestLimit::new(gate.clone())
        .cost(move |_| reserved)
        .charge_bytes(|bytes| bytes);
    let mut service = HttpLimitLayer::new(limit).layer(TEN_BYTES);
    move || answer(&mut service, get("/"))
}

#[test]
fn bytes_are_charged_when_the_body_has_ended() {
    let time = ManualClock::new();
    let gate = bucket(&time, 100);
    let mut less = bytes_service(&gate, 4);
    let mut response = less();
    assert_eq!(gate.snapshot().available(), 96);
    let mut reading = Box::pin(response.body_mut().collect());
    assert!(poll(reading.as_mut()).is_pending());
    assert_eq!(gate.snapshot().available(), 96);
    assert_eq!(now(reading).unwrap().to_bytes(), "abcdefghij");
    assert_eq!(gate.snapshot().available(), 90);

    let mut more = bytes_service(&gate, 50);
    let response = more();
    assert_eq!(gate.snapshot().available(), 40);
    let mut reading = Box::pin(response.into_body().collect());
    assert!(poll(reading.as_mut()).is_pending());
    assert!(poll(reading.as_mut()).is_ready());
    assert_eq!(gate.snapshot().available(), 80, "the rest is given back");
}

#[test]
fn who_does_not_want_the_rest_pays_for_what_was_sent() {
    let time = ManualClock::new();
    let gate = bucket(&time, 100);
    let response = bytes_service(&gate, 1)();
    let mut reading = Box::pin(response.into_body().collect());
    assert!(poll(reading.as_mut()).is_pending());
    drop(reading);
    assert_eq!(gate.snapshot().available(), 96);
    drop(bytes_service(&gate, 7)());
    assert_eq!(gate.snapshot().available(), 96, "nothing was sent");
}

/// It once was charged for nothing, so that a quota of bytes held nobody.
#[test]
fn what_the_body_costs_is_charged_though_permits_go_back_with_the_head() {
    let time = ManualClock::new();
    let (gate, slots) = (bucket(&time, 100), Gate::new(Concurrency::new(1)));
    let bytes = RequestLimit::new(gate.clone()).charge_bytes(|_| 30);
    let layer = HttpLimitLayer::new(RequestLimit::new(slots.clone()))
        .and(bytes)
        .until_head();
    let response = answer(&mut layer.layer(OK), get("/"));
    assert_eq!(
        (slots.snapshot().in_use(), gate.snapshot().available()),
        (0, 99)
    );
    assert_eq!(text(response), "ok");
    assert_eq!(gate.snapshot().available(), 70);
}

/// Says what the model has used, some of it while the answer is written.
#[derive(Clone)]
struct Model {
    before: u64,
    while_writing: u64,
}

impl Service<Request<()>> for Model {
    type Response = Response<Full<Bytes>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let usage = request.extensions().get::<Usage>().unwrap().clone();
        usage.add(self.before);
        let mut response = Response::new(Full::from("words"));
        // Whoever writes the body has a clone of it.
        response
            .extensions_mut()
            .insert((usage, self.while_writing));
        std::future::ready(Ok(response))
    }
}

/// What is left of 1000 tokens a minute after a request that reserves 200 and uses as much as this.
fn left_after(model: &Model) -> Result<u64, std::time::Duration> {
    let time = ManualClock::new();
    let gate = bucket(&time, 1000);
    let limit = RequestLimit::new(gate.clone()).cost(|_| 200).charge_usage();
    let mut service = HttpLimitLayer::new(limit).layer(model.clone());
    let response = answer(&mut service, get("/"));
    assert_eq!(gate.snapshot().available(), 800);
    let (usage, more) = response.extensions().get::<(Usage, u64)>().unwrap().clone();
    usage.add(more);
    assert_eq!(text(response), "words");
    match gate.try_acquire(1) {
        Ok(_) => Ok(gate.snapshot().available() + 1),
        Err(denied) => Err(denied.retry_after().unwrap()),
    }
}

#[test]
fn what_a_model_uses_is_charged_when_its_answer_has_ended() {
    let (before, while_writing) = (50, 30);
    let less = Model {
        before,
        while_writing,
    };
    assert_eq!(left_after(&less), Ok(920), "less than was reserved");
    let exactly = Model {
        before: 200,
        while_writing: 0,
    };
    assert_eq!(left_after(&exactly), Ok(800));
    let nothing = Model {
        before: 0,
        while_writing: 0,
    };
    assert_eq!(left_after(&nothing), Ok(1000));
    let more = Model {
        before: 300,
        while_writing: 600,
    };
    assert_eq!(left_after(&more), Ok(100), "more than was reserved");
    let debt = Model {
        before: 300,
        while_writing: 1200,
    };
    let second_half = std::time::Duration::from_millis(501);
    assert_eq!(
        left_after(&debt),
        Err(second_half),
        "500 in debt, and one to take"
    );
}

#[test]
fn what_was_used_is_charged_to_whom_it_was_used_for() {
    let time = ManualClock::new();
    let keyed = Keyed::<Address, _>::builder(TokenBucket::per_second(1000))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::by_key(keyed.clone(), Peer::new()).charge_usage();
    let mut service = HttpLimitLayer::new(limit).layer(Model {
        before: 400,
        while_writing: 0,
    });
    let left = |last| {
        keyed
            .standing(&Peer::new().address([192, 0, 2, last].into()))
            .remaining
            .unwrap()
    };
    for _ in 0..3 {
        drop(answer(&mut service, from([192, 0, 2, 1])));
    }
    drop(answer(&mut service, from([192, 0, 2, 2])));
    assert_eq!((left(1), left(2), left(3)), (0, 600, 1000));
    assert_eq!(
        answer(&mut service, from([192, 0, 2, 1])).status(),
        429,
        "in debt"
    );
}

#[test]
fn a_handler_finds_no_usage_where_nobody_reads_it() {
    let gate = Gate::new(TokenBucket::per_second(5));
    let asks = Answers(|request| {
        assert!(request.extensions().get::<Usage>().is_none());
        (OK.0)(request)
    });
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate)).layer(asks);
    assert_eq!(answer(&mut service, get("/")).status(), 200);
}

/// A body that fails is cut short like one that nobody wants: what was reported may not be all.
#[test]
fn a_body_that_fails_keeps_the_estimate() {
    let time = ManualClock::new();
    for (steps, left) in [
        (&[Step::Data("word")][..], 990),
        (&[Step::Data("word"), Step::Fail], 800),
        (&[Step::Fail], 800),
    ] {
        let gate = bucket(&time, 1000);
        let limit = RequestLimit::new(gate.clone()).cost(|_| 200).charge_usage();
        let used = Answers(|request| {
            request.extensions().get::<Usage>().unwrap().add(10);
            let steps = request.extensions().get::<&'static [Step]>().unwrap();
            Response::new(Steps::new(steps))
        });
        let mut service = HttpLimitLayer::new(limit).layer(used);
        let mut request = get("/");
        request.extensions_mut().insert::<&'static [Step]>(steps);
        let response = answer(&mut service, request);
        let _ = now(response.into_body().collect());
        assert_eq!(gate.snapshot().available(), left);
    }
}
