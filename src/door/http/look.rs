//! What watches the process is answered: whether it lives, whether it is ready, and what it has counted. On the door that is beside
//! `/mcp`; a listener of its own answers nothing else.
//!
//! A probe and a scraper come by the address of the process, so that any address is let in here beside the names of the door. A page
//! of another site cannot be at an address: one that had its name point here is told by that name (F-11). Counts need a token where
//! the door has any, that of a client that may only look is enough; whether it lives and is ready is told to anybody, in words that
//! name nobody.

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
};
use rmcp::ServerHandler;
use serde_json::{Value as Json, json};

use super::{
    super::{
        auth::{Shown, shown},
        metrics,
    },
    Hall,
    answer::{self, Answer},
    rules::Rules,
};
use crate::mcp::Readiness;

/// What can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Whether the process lives.
    Health,
    /// Whether it can do what it is there for.
    Ready,
    /// What it has counted.
    Metrics,
}

impl Look {
    /// What is at this path.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

impl<H: ServerHandler> Hall<H> {
    /// The answer to a look, whose head was let in.
    pub(super) fn look(&self, rules: &Rules, look: Look, method: &Method, headers: &HeaderMap) -> Response<Answer> {
        if *method != Method::GET && *method != Method::HEAD {
            return only_looks();
        }
        let answer = match look {
            Look::Health => self.health(),
            Look::Ready => self.ready(),
            Look::Metrics => {
                match shown(&rules.keys, headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes)) {
                    Shown::Named(_) | Shown::Anonymous => self.metrics(),
                    shown => self.unauthorized(shown == Shown::Wrong),
                }
            }
        };
        if *method == Method::HEAD { without_body(answer) } else { answer }
    }

    /// That this is answered shows that the one thread of the process turns.
    fn health(&self) -> Response<Answer> {
        let Readiness { leaving, alive, .. } = self.server.readiness();
        if alive || leaving {
            return said(StatusCode::OK, &json!({"status": "ok"}));
        }
        said(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "failed", "why": ["driver_ended"]}))
    }

    fn ready(&self) -> Response<Answer> {
        let readiness = self.server.readiness();
        let why = reasons(&readiness);
        if why.is_empty() {
            return said(StatusCode::OK, &json!({"status": "ready"}));
        }
        let links = readiness.down.iter().map(|link| {
            let ms = u64::try_from(link.since.as_millis()).unwrap_or(u64::MAX);
            json!({"link": link.number, "kind": link.name, "trouble": link.trouble, "for_ms": ms})
        });
        let told = json!({"status": "not_ready", "why": why, "links": links.collect::<Vec<_>>()});
        said(StatusCode::SERVICE_UNAVAILABLE, &told)
    }

    fn metrics(&self) -> Response<Answer> {
        let mut response = answer::text(metrics::render(&self.server.counts(), &self.meters).into());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT));
        never_kept(response)
    }
}

/// Why it is not ready; nothing if it is.
fn reasons(readiness: &Readiness) -> Vec<&'static str> {
    let Readiness { leaving, alive, down } = readiness;
    let reasons = [(*leaving, "leaving"), (!*alive && !*leaving, "driver_ended"), (!down.is_empty(), "link_down")];
    reasons.into_iter().filter_map(|(holds, why)| holds.then_some(why)).collect()
}

fn said(status: StatusCode, what: &Json) -> Response<Answer> {
    never_kept(answer::piece(status, what))
}

/// What was true a moment ago is of no use.
fn never_kept(mut response: Response<Answer>) -> Response<Answer> {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to another verb.
fn only_looks() -> Response<Answer> {
    let mut response = answer::turned_away(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// The same answer as its head alone.
fn without_body(response: Response<Answer>) -> Response<Answer> {
    let (mut head, body) = response.into_parts();
    if let Answer::Piece(Some(bytes)) = &body {
        head.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    Response::from_parts(head, Answer::Piece(None))
}

/// Nothing else is there, where nothing but looks are.
pub(super) fn nothing_else() -> Response<Answer> {
    answer::turned_away(StatusCode::NOT_FOUND, "there is nothing but /healthz, /readyz and /metrics")
}
