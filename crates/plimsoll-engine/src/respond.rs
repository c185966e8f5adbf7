//! The response to a refused request, as the file describes it.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use plimsoll::{Denied, Metadata};
use plimsoll_config::uses::AnswerSpec;
use plimsoll_tower::answer::Class;

/// Builds the response that `answer` describes.
pub(crate) fn respond(answer: &AnswerSpec, denied: &Denied, class: Class) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let status = answer.status.map(|status| status.code());
    let status = status.unwrap_or(class.status().as_u16());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let headers = response.headers_mut();
    for (name, value) in answer.headers.iter() {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            headers.append(name, value);
        }
    }
    let content_type = |text: &str| HeaderValue::from_str(text).ok();
    let (kind, body) = match &answer.problem {
        Some(problem) => {
            let mut map = serde_json::Map::new();
            let mut add = |name: &str, value: Option<&String>| {
                if let Some(value) = value {
                    map.insert(name.to_owned(), value.as_str().into());
                }
            };
            add("type", problem.kind.as_ref());
            add("title", problem.title.as_ref());
            add("detail", problem.detail.as_ref());
            map.insert("status".to_owned(), status.into());
            map.insert("reason".to_owned(), denied.reason().as_str().into());
            if let Some(metadata) = denied.metadata() {
                let code = metadata.get(Metadata::CODE);
                let code = code.map(|code| (Metadata::CODE, code));
                for (name, value) in code.into_iter().chain(metadata.pairs()) {
                    let value = serde_json::to_value(value).unwrap_or_default();
                    map.entry(name).or_insert(value);
                }
                if let Some(phrase) = metadata.get(Metadata::REASON_PHRASE) {
                    map.entry("detail").or_insert(phrase.to_string().into());
                }
            }
            let body = serde_json::Value::Object(map).to_string();
            (content_type("application/problem+json"), Bytes::from(body))
        }
        None => {
            let phrase = || denied.phrase().to_owned();
            let body = answer.body.clone().unwrap_or_else(phrase);
            let kind = answer.content_type.as_deref();
            let kind = kind.unwrap_or("text/plain; charset=utf-8");
            (content_type(kind), Bytes::from(body))
        }
    };
    if let Some(kind) = kind
        && !headers.contains_key(header::CONTENT_TYPE)
    {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    *response.body_mut() = body;
    response
}
