//! What is held until a body has ended, and what limits that learn are told.

use http::{Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use plimsoll::adaptive::Adaptive;
use plimsoll::{Gate, ManualClock, Outcome};
use plimsoll_tower::{HttpLimit, HttpLimitLayer, RequestLimit};
use tower_layer::Layer;

use super::{Answers, OK, answer, get, text};
use crate::hand::{now, poll};
use crate::recorder::Recorder;
use crate::steps::{Step, Steps};

type Learning = Gate<Adaptive<Recorder>>;

fn learning() -> (Recorder, Learning) {
    let told = Recorder::default();
    let gate = told.gate(ManualClock::new().clock());
    (told, gate)
}

fn behind<B>(
    gate: &Learning,
    service: Answers<B>,
) -> HttpLimit<Answers<B>, RequestLimit<Learning>> {
    HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(service)
}

/// Answers with the status that the path names.
const STATUS: Answers<http_body_util::Full<bytes::Bytes>> = Answers(|request| {
    let mut response = (OK.0)(request);
    *response.status_mut() = request.uri().path()[1..].parse::<StatusCode>().unwrap();
    response
});

#[test]
fn a_status_says_what_it_says_about_the_load() {
    let (told, gate) = learning();
    let mut service = behind(&gate, STATUS);
    let cases: [(&str, &[Outcome]); 9] = [
        ("/200", &[Outcome::Success]),
        ("/302", &[Outcome::Success]),
        ("/404", &[Outcome::Success]),
        ("/429", &[Outcome::Overload]),
        ("/500", &[]),
        ("/501", &[]),
        ("/502", &[]),
        ("/503", &[Outcome::Overload]),
        ("/504", &[Outcome::Overload]),
    ];
    for (path, expected) in cases {
        assert_eq!(text(answer(&mut service, get(path))), "ok");
        assert_eq!(told.told(), expected, "{path}");
    }
}

#[test]
fn a_closure_may_say_something_else() {
    let (told, gate) = learning();
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate))
        .classify(|response| match response.status().as_u16() {
            500 => Outcome::Overload,
            404 => Outcome::Ignore,
            _ => Outcome::Success,
        })
        .layer(STATUS);
    for path in ["/500", "/404", "/503"] {
        text(answer(&mut service, get(path)));
    }
    assert_eq!(told.told(), [Outcome::Overload, Outcome::Success]);
}

const STREAM: Answers<Steps> = Answers(|_| {
    Response::new(Steps::new(&[
        Step::Data("one"),
        Step::Wait,
        Step::Data("two"),
    ]))
});

#[test]
fn a_body_holds_its_permit_until_it_has_ended() {
    let (told, gate) = learning();
    let mut response = answer(&mut behind(&gate, STREAM), get("/"));
    let body = response.body_mut();
    let mut frames = || {
        let frame = Box::pin(body.frame());
        match poll({ frame }.as_mut()) {
            std::task::Poll::Ready(None) => "end",
            std::task::Poll::Ready(Some(_)) => "frame",
            std::task::Poll::Pending => "wait",
        }
    };
    for expected in ["frame", "wait", "frame"] {
        assert_eq!(frames(), expected);
        assert_eq!((gate.snapshot().in_use(), told.told()), (1, vec![]));
    }
    assert_eq!(frames(), "end");
    assert_eq!(
        (gate.snapshot().in_use(), told.told()),
        (0, vec![Outcome::Success]),
        "before it is dropped"
    );
}

#[test]
fn a_body_that_knows_its_end_gives_back_with_its_last_frame() {
    let (told, gate) = learning();
    let mut response = answer(&mut behind(&gate, OK), get("/"));
    assert_eq!(gate.snapshot().in_use(), 1);
    assert!(now(response.body_mut().frame()).is_some());
    assert_eq!(
        (gate.snapshot().in_use(), told.told()),
        (0, vec![Outcome::Success])
    );
}

#[test]
fn without_a_body_the_permit_goes_back_with_the_head() {
    let (told, gate) = learning();
    let empty = Answers(|_| Response::new(Empty::<bytes::Bytes>::new()));
    let _response = answer(&mut behind(&gate, empty), get("/"));
    assert_eq!(
        (gate.snapshot().in_use(), told.told()),
        (0, vec![Outcome::Success])
    );
}

/// Servers drop a body when all that its length announces is sent, without asking whether it has ended. It once was
/// taken for a caller that hung up, and nothing was learned from whole classes of responses.
#[test]
fn a_body_has_ended_when_its_length_is_sent() {
    let (told, gate) = learning();
    let announced = Answers(|_| {
        let body = Steps::new(&[Step::Data("one"), Step::Data("two")]);
        Response::builder()
            .header("content-length", "6")
            .body(body)
            .unwrap()
    });
    let mut response = answer(&mut behind(&gate, announced), get("/"));
    assert!(now(response.body_mut().frame()).is_some());
    assert_eq!(gate.snapshot().in_use(), 1);
    assert!(now(response.body_mut().frame()).is_some());
    drop(response);
    assert_eq!(
        (gate.snapshot().in_use(), told.told()),
        (0, vec![Outcome::Success])
    );
}

#[test]
fn who_hangs_up_says_nothing() {
    let (told, gate) = learning();
    let mut service = behind(&gate, STREAM);
    let mut response = answer(&mut service, get("/"));
    assert!(now(response.body_mut().frame()).is_some());
    drop(response);
    drop(answer(&mut service, get("/")));
    assert_eq!((gate.snapshot().in_use(), told.told()), (0, vec![]));
}

#[test]
fn a_body_that_fails_says_nothing() {
    let (told, gate) = learning();
    let fails = Answers(|_| Response::new(Steps::new(&[Step::Data("one"), Step::Fail])));
    let mut response = answer(&mut behind(&gate, fails), get("/"));
    assert!(now(response.body_mut().frame()).unwrap().is_ok());
    assert!(now(response.body_mut().frame()).unwrap().is_err());
    assert_eq!((gate.snapshot().in_use(), told.told()), (0, vec![]));
}

#[test]
fn until_the_head_and_no_longer() {
    let (told, gate) = learning();
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone())).until_head();
    let response = answer(&mut layer.layer(STREAM), get("/"));
    assert_eq!(
        (gate.snapshot().in_use(), told.told()),
        (0, vec![Outcome::Success])
    );
    drop(response);
    assert_eq!(told.told(), []);
}

/// A gRPC response that ends with this status.
fn grpc(steps: &[Step]) -> Response<Steps> {
    let builder = Response::builder().header("content-type", "application/grpc");
    builder.body(Steps::new(steps)).unwrap()
}

/// Servers drop a body after its trailers. It once was taken for a caller that hung up.
#[test]
fn the_status_of_grpc_stands_in_the_trailers() {
    let (told, gate) = learning();
    type Handler = fn(&http::Request<()>) -> Response<Steps>;
    let cases: [(Handler, &[Outcome]); 5] = [
        (
            |_| grpc(&[Step::Data("m"), Step::Status("0")]),
            &[Outcome::Success],
        ),
        (
            |_| grpc(&[Step::Data("m"), Step::Status("5")]),
            &[Outcome::Success],
        ),
        (
            |_| grpc(&[Step::Data("m"), Step::Status("14")]),
            &[Outcome::Overload],
        ),
        (|_| grpc(&[Step::Data("m"), Step::Status("13")]), &[]),
        (|_| grpc(&[Step::Status("8")]), &[Outcome::Overload]),
    ];
    for (handler, expected) in cases {
        let mut response = answer(&mut behind(&gate, Answers(handler)), get("/"));
        while now(response.body_mut().frame()).unwrap().unwrap().is_data() {
            assert_eq!((gate.snapshot().in_use(), told.told()), (1, vec![]));
        }
        drop(response);
        assert_eq!(
            (gate.snapshot().in_use(), told.told().as_slice()),
            (0, expected)
        );
    }
}

#[test]
fn a_response_of_grpc_without_trailers_says_nothing() {
    let (told, gate) = learning();
    let cut_off = Answers(|_| grpc(&[Step::Data("m")]));
    text(answer(&mut behind(&gate, cut_off), get("/")));
    assert_eq!((gate.snapshot().in_use(), told.told()), (0, vec![]));
}

#[test]
fn a_status_of_grpc_in_the_head_is_read_there() {
    let (told, gate) = learning();
    let at_once = Answers(|_| {
        let mut response = grpc(&[]);
        response
            .headers_mut()
            .insert("grpc-status", "14".parse().unwrap());
        response
    });
    text(answer(&mut behind(&gate, at_once), get("/")));
    assert_eq!(told.told(), [Outcome::Overload]);
}

#[test]
fn a_body_is_as_long_as_it_was() {
    use http_body::Body;
    let (_, gate) = learning();
    let response = answer(&mut behind(&gate, OK), get("/"));
    assert_eq!(response.body().size_hint().exact(), Some(2));
    assert!(!response.body().is_end_stream());
}

/// A limit further in refuses: that says nothing about the load of those further out.
#[test]
fn a_refusal_further_in_says_nothing() {
    let ((told, gate), (inner_told, inner)) = (learning(), learning());
    let all = (0..4)
        .map(|_| inner.try_acquire(1).unwrap())
        .collect::<Vec<_>>();
    inner.set_queue_bound(0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let inner_layer = HttpLimitLayer::new(RequestLimit::new(inner.clone()).shed());
    let mut service = layer.layer(inner_layer.layer(OK));
    assert_eq!(answer(&mut service, get("/")).status(), 503);
    assert_eq!((told.told(), gate.snapshot().in_use()), (vec![], 0));
    drop(all);
    assert_eq!(text(answer(&mut service, get("/"))), "ok");
    assert_eq!(
        (told.told(), inner_told.told()),
        (vec![Outcome::Success], vec![Outcome::Success])
    );
}
