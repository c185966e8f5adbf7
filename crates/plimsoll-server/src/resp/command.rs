//! The commands of the RESP port.

use std::time::Duration;

use plimsoll::{Demand, Denied, Standing};
use plimsoll_engine::{Answer, Ask, BucketParams, Decide};

use super::frame::Replies;
use crate::state::State;

/// Whether the connection stays open after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Go,
    Close,
}

/// Answers one command. If the decision has to wait, returns it as an error, and the caller [awaits](take_later) it. It is already
/// queued: a new decision would be counted twice.
pub(crate) fn answer(
    state: &State,
    words: &[&[u8]],
    replies: &mut Replies,
    session: &mut Session,
) -> Result<Next, Box<Decide>> {
    let Some((name, rest)) = words.split_first() else {
        return Ok(Next::Go);
    };
    let mut upper = [0; 16];
    let name = match upper.get_mut(..name.len()) {
        Some(upper) => {
            upper.copy_from_slice(name);
            upper.make_ascii_uppercase();
            &*upper
        }
        None => &[],
    };
    if !session.authenticated && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"PING" | b"RESET")
    {
        replies.error("NOAUTH Authentication required.");
        return Ok(Next::Go);
    }
    match name {
        b"CL.THROTTLE" => reply(replies, throttle(state, rest, Order::RedisCell)),
        b"THROTTLE" => reply(replies, throttle(state, rest, Order::ThrottleCrab)),
        b"PLIMSOLL.TAKE" => match take(state, rest) {
            Ok(numbers) => reply(replies, Ok(numbers?)),
            Err(error) => reply(replies, Err(error)),
        },
        b"PLIMSOLL.PEEK" => reply(replies, peek(state, rest)),
        b"PLIMSOLL.CHARGE" => match charge(state, rest) {
            Ok(()) => replies.simple("OK"),
            Err(error) => replies.error(&error),
        },
        b"PING" => match rest {
            [] => replies.simple("PONG"),
            [text] => replies.bulk(text),
            _ => wrong_count(replies, "ping"),
        },
        b"ECHO" => match rest {
            [text] => replies.bulk(text),
            _ => wrong_count(replies, "echo"),
        },
        b"HELLO" => hello(state, rest, replies, session),
        b"AUTH" => match rest {
            // As in Redis, a mistake does not end the session of a client that is authenticated already.
            [password] | [_, password] if state.is_token(password) => {
                session.authenticated = true;
                replies.simple("OK");
            }
            [_] | [_, _] => replies.error(WRONG_PASSWORD),
            _ => wrong_count(replies, "auth"),
        },
        b"SELECT" => match rest {
            [b"0"] => replies.simple("OK"),
            _ => replies.error("ERR DB index is out of range"),
        },
        b"CLIENT" => client(rest, replies),
        b"COMMAND" => replies.array(0),
        b"CONFIG" => replies.map(0),
        b"INFO" => {
            let version = env!("CARGO_PKG_VERSION");
            replies.bulk(format!("# Server\r\nplimsoll_version:{version}\r\nredis_mode:standalone\r\n").as_bytes());
        }
        b"RESET" => {
            *session = Session::new(state);
            replies.resp3 = false;
            replies.simple("RESET");
        }
        b"QUIT" => {
            replies.simple("OK");
            return Ok(Next::Close);
        }
        _ => replies.error("ERR unknown command; this server knows CL.THROTTLE, THROTTLE, PLIMSOLL.TAKE, PLIMSOLL.PEEK, PLIMSOLL.CHARGE and PING"),
    }
    Ok(Next::Go)
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) authenticated: bool,
}

impl Session {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            authenticated: !state.needs_token(),
        }
    }
}

/// The five numbers of a reply of redis-cell.
type Five = [i64; 5];

fn reply(replies: &mut Replies, answer: Result<Five, String>) {
    match answer {
        Ok(numbers) => replies.five(numbers),
        Err(error) => replies.error(&error),
    }
}

#[cold]
fn wrong_count(replies: &mut Replies, name: &str) {
    replies.error(&format!(
        "ERR wrong number of arguments for '{name}' command"
    ));
}

fn hello(state: &State, rest: &[&[u8]], replies: &mut Replies, session: &mut Session) {
    let (version, options) = match rest.split_first() {
        None => (None, rest),
        Some((version, options)) => (Some(*version), options),
    };
    let resp3 = match version {
        None => replies.resp3,
        Some(b"2") => false,
        Some(b"3") => true,
        Some(_) => return replies.error("NOPROTO unsupported protocol version"),
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"AUTH") {
            match (options.next(), options.next()) {
                (_, Some(password)) if state.is_token(password) => session.authenticated = true,
                (_, Some(_)) => return replies.error(WRONG_PASSWORD),
                (_, None) => return replies.error("ERR syntax error in HELLO"),
            }
        } else if option.eq_ignore_ascii_case(b"SETNAME") {
            options.next();
        } else {
            return replies.error("ERR syntax error in HELLO");
        }
    }
    if !session.authenticated {
        return replies.error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used");
    }
    replies.resp3 = resp3;
    replies.map(4);
    replies.bulk(b"server");
    replies.bulk(b"plimsoll");
    replies.bulk(b"version");
    replies.bulk(env!("CARGO_PKG_VERSION").as_bytes());
    replies.bulk(b"proto");
    replies.integer(if resp3 { 3 } else { 2 });
    replies.bulk(b"mode");
    replies.bulk(b"standalone");
}

fn client(rest: &[&[u8]], replies: &mut Replies) {
    match rest.first() {
        Some(word) if word.eq_ignore_ascii_case(b"ID") => replies.integer(1),
        Some(word) if word.eq_ignore_ascii_case(b"GETNAME") => replies.bulk(b""),
        Some(_) => replies.simple("OK"),
        None => wrong_count(replies, "client"),
    }
}

/// The order of the five numbers.
#[derive(Clone, Copy)]
enum Order {
    /// Limited (0 or 1), limit, remaining, retry after or -1, reset after.
    RedisCell,
    /// Allowed (1 or 0), limit, remaining, reset after, retry after.
    ThrottleCrab,
}

/// `key max_burst count period [quantity]`
fn throttle(state: &State, rest: &[&[u8]], order: Order) -> Result<Five, String> {
    let (key, burst, count, period, quantity) = match rest {
        [key, burst, count, period] => (key, burst, count, period, None),
        [key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
        _ => {
            return Err(
                "ERR expected CL.THROTTLE key max_burst count period [quantity]".to_owned(),
            );
        }
    };
    let key = text(key)?;
    let burst = number(burst, "max_burst")?;
    // The burst of redis-cell does not include the first request.
    let burst = match order {
        Order::RedisCell => burst.saturating_add(1),
        Order::ThrottleCrab => burst,
    };
    let count = number(count, "count")?;
    let period = number(period, "period")?;
    let quantity = quantity.map_or(Ok(1), |it| number(it, "quantity"))?;
    let terms = BucketParams::new(burst, count, Duration::from_secs(period));
    let taken = state.parametric.take(key, terms, quantity);
    let taken = taken.map_err(|invalid| format!("ERR {invalid}"))?;
    let standing = match &taken {
        Ok(standing) => *standing,
        Err(denied) => standing_of(denied),
    };
    Ok(five(taken.as_ref().err(), standing, order))
}

fn standing_of(denied: &Denied) -> Standing {
    Standing::new(denied.limit(), denied.remaining()).reset(denied.reset())
}

fn five(denied: Option<&Denied>, standing: Standing, order: Order) -> Five {
    let limit = signed(standing.limit);
    let remaining = signed(standing.remaining.unwrap_or(0));
    let reset = seconds(standing.reset.unwrap_or_default());
    let retry = denied.map(|denied| denied.retry_after().map_or(-1, seconds));
    match order {
        Order::RedisCell => [
            denied.is_some().into(),
            limit,
            remaining,
            retry.unwrap_or(-1),
            reset,
        ],
        Order::ThrottleCrab => [
            denied.is_none().into(),
            limit,
            remaining,
            reset,
            retry.unwrap_or(0).max(0),
        ],
    }
}

/// `PLIMSOLL.TAKE name key [cost]`: decides now, or returns a decision that has to wait.
fn take(state: &State, rest: &[&[u8]]) -> Result<Result<Five, Box<Decide>>, String> {
    let ask = ask(rest)?;
    if let Some(standing) = state.limits.take_now(ask) {
        return Ok(Ok(five(None, standing, Order::RedisCell)));
    }
    state.check(ask)?;
    let mut decide = state.limits.decide(&[ask], Demand::ONE);
    let now = decide.now().map(|decided| reply_numbers(&decided));
    Ok(now.ok_or_else(|| Box::new(decide)))
}

/// Awaits a decision of [`take`] and writes the reply.
pub(crate) async fn take_later(decide: Box<Decide>, replies: &mut Replies) {
    reply(replies, Ok(reply_numbers(&(*decide).await)));
}

fn peek(state: &State, rest: &[&[u8]]) -> Result<Five, String> {
    let ask = ask(rest)?;
    state.check(ask)?;
    Ok(reply_numbers(&state.limits.peek(&[ask])))
}

fn charge(state: &State, rest: &[&[u8]]) -> Result<(), String> {
    let ask = ask(rest)?;
    state.check(ask)?;
    state.limits.charge(&[ask]);
    Ok(())
}

fn ask<'a>(rest: &[&'a [u8]]) -> Result<Ask<'a>, String> {
    let (name, key, cost) = match rest {
        [name, key] => (name, key, None),
        [name, key, cost] => (name, key, Some(cost)),
        _ => {
            return Err(
                "ERR expected a limit, a key and a cost: PLIMSOLL.TAKE name key [cost]".to_owned(),
            );
        }
    };
    let cost = cost.map_or(Ok(1), |cost| number(cost, "cost"))?;
    Ok(Ask::new(text(name)?).key(text(key)?).cost(cost))
}

fn reply_numbers(decided: &Result<plimsoll_engine::Hold, plimsoll_engine::Refusal>) -> Five {
    let five = |answer: Option<Answer<'_>>, denied: Option<&Denied>| {
        let standing = answer
            .and_then(|answer| answer.standing)
            .unwrap_or_default();
        five(denied, standing, Order::RedisCell)
    };
    match decided {
        Ok(hold) => five(hold.answers().next(), None),
        Err(refusal) => five(refusal.answers().next(), Some(refusal.denied())),
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "ERR expected a key in UTF-8".to_owned())
}

fn number(digits: &[u8], what: &str) -> Result<u64, String> {
    let add = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = (!digits.is_empty()).then(|| digits.iter().try_fold(0, add));
    let wrong = || format!("ERR {what}: expected a whole number of at least 0");
    number.flatten().ok_or_else(wrong)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whole seconds, rounded up: a client that retries too early is refused again.
fn seconds(span: Duration) -> i64 {
    signed(
        span.as_secs()
            .saturating_add(u64::from(span.subsec_nanos() > 0)),
    )
}
