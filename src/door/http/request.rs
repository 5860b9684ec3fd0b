//! One request, from its head to its answer. What can be refused by the head is, before the body is read.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version,
    body::{Body, Incoming},
    header::{AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, ORIGIN},
    http::uri::Authority,
};
use rmcp::{
    ServerHandler,
    model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta, JsonRpcMessage},
};
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        auth::{Shown, shown},
        guard::{Refusal, Verdict, judge},
        hosts::Hosts,
    },
    Hall,
    answer::{self, Answer, Silence},
    clients::{Caller, Connection, Running},
    exchange::{Exchange, Spoken, is_answer},
    headers::{Accepts, accepts, removed, says_json, spoken},
    look::{self, Look},
    meter::Purpose,
    quiet::Refused,
    rules::Rules,
    straight::goes_straight,
};
use crate::mcp::text;

/// The one path.
const PATH: &str = "/mcp";
/// A body over this waits for one of the places for large ones.
const SMALL: usize = 256 * 1024;

impl<H: ServerHandler> Hall<H> {
    /// The answer to one request.
    pub(super) async fn answer(&self, connection: &Connection, request: Request<Incoming>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        // Nothing of the head is kept while a call runs. All of it are slices of what was read, and while one is held the
        // next read is into another 8 KiB: that a client hangs up is found out by reading.
        let origin = head.headers.get(ORIGIN).and_then(|origin| HeaderValue::from_bytes(origin.as_bytes()).ok());
        let (version, rules) = (head.version, self.rules.now());
        let let_in = self.let_in(&rules, &head.method, &head.uri, version, &head.headers, connection);
        drop(head.uri);
        let mut response = match let_in {
            Ok(caller) => {
                connection.seat().is_known();
                self.serve_message(&caller, head.headers, body).await
            }
            Err(response) => *response,
        };
        let status = response.status();
        self.meters.of(self.purpose).answered(status);
        if status.is_client_error() || status.is_server_error() {
            tracing::debug!(%status, "refused");
        }
        if let Some(origin) = origin.filter(|origin| knows(&rules, origin)) {
            answer::readable_by(response.headers_mut(), origin);
        }
        // What is left of a body that was not read is not worth reading. In HTTP/2 only its stream ends.
        let unread =
            matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::UNAUTHORIZED);
        if unread && version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Who it is, if the head lets it in.
    fn let_in(
        &self,
        rules: &Rules,
        method: &Method,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
        connection: &Connection,
    ) -> Result<Arc<Caller>, Box<Response<Answer>>> {
        let look = Look::at(uri.path());
        let host = self.named(rules, uri, version, headers, look.is_some())?;
        self.let_page_in(rules, headers, host)?;
        if let Some(look) = look {
            return Err(Box::new(self.look(rules, look, method, headers)));
        }
        if self.purpose == Purpose::Watching {
            return Err(Box::new(look::nothing_else()));
        }
        if uri.path() != PATH {
            let why = "there is nothing but /mcp, and /healthz, /readyz and /metrics";
            return Err(Box::new(answer::turned_away(StatusCode::NOT_FOUND, why)));
        }
        if *method == Method::OPTIONS && headers.contains_key(ORIGIN) {
            return Err(Box::new(answer::preflight()));
        }
        match shown(&rules.keys, headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes)) {
            // Before the token, so that whoever looks at the door with a browser learns how it is used.
            _ if *method != Method::POST => Err(Box::new(answer::not_a_post())),
            Shown::Named(named) => Ok(self.clients.named(&named)),
            Shown::Anonymous => Ok(connection.anonymous(&self.server, &self.clients)),
            shown => Err(Box::new(self.unauthorized(shown == Shown::Wrong))),
        }
    }

    /// The answer to a client without a token, or with a wrong one.
    pub(super) fn unauthorized(&self, wrong: bool) -> Response<Answer> {
        if let Some(times) = self.times(Refused::Token) {
            tracing::warn!(times, "refused: no token, or one that is nobody's");
        }
        answer::unauthorized(wrong)
    }

    /// The name we are called by, if it is one of ours; with `by_address`, or any address.
    fn named<'a>(
        &self,
        rules: &Rules,
        uri: &'a Uri,
        version: Version,
        headers: &'a HeaderMap,
        by_address: bool,
    ) -> Result<&'a str, Box<Response<Answer>>> {
        let no = |status, why: &str| Err(Box::new(answer::turned_away(status, why)));
        let mut hosts = headers.get_all(HOST).iter();
        let authority = uri.authority().map(Authority::as_str);
        let host = match (hosts.next(), hosts.next(), authority) {
            (Some(host), None, _) => host.to_str().unwrap_or_default(),
            // HTTP/2 says it in `:authority`.
            (None, _, Some(authority)) if version == Version::HTTP_2 => authority,
            (None, ..) if version < Version::HTTP_11 => return no(StatusCode::BAD_REQUEST, "HTTP/1.1 is needed"),
            _ => return no(StatusCode::BAD_REQUEST, "one Host header is needed"),
        };
        let named = |host: &str| rules.hosts.answers_to(host) || (by_address && Hosts::is_address(host));
        if !named(host) || authority.is_some_and(|authority| !named(authority)) {
            if let Some(times) = self.times(Refused::Host) {
                let host = text::printable(host, 80);
                tracing::warn!(host, times, "refused: this is no name of ours; --allow-host adds one");
            }
            return no(StatusCode::FORBIDDEN, "this Host is no name of this door; --allow-host adds one");
        }
        Ok(host)
    }

    /// Whether the web page that speaks to us, if one does, may.
    fn let_page_in(&self, rules: &Rules, headers: &HeaderMap, host: &str) -> Result<(), Box<Response<Answer>>> {
        let mut origins = headers.get_all(ORIGIN).iter();
        if let Some(from) = origins.next()
            && (!(knows(rules, from) || is_own(rules, from, host)) || origins.next().is_some())
        {
            if let Some(times) = self.times(Refused::Origin) {
                let origin = text::printable(&String::from_utf8_lossy(from.as_bytes()), 80);
                tracing::warn!(origin, times, "refused: a web page that --allow-origin does not name");
            }
            let why = "this Origin is not let in; --allow-origin names those that are";
            return Err(Box::new(answer::turned_away(StatusCode::FORBIDDEN, why)));
        }
        Ok(())
    }

    pub(super) fn times(&self, refused: Refused) -> Option<u64> {
        if let Some(stranger) = refused.stranger() {
            self.server.turned_away(stranger);
        }
        self.quiet.times(refused, Instant::now())
    }

    /// Reads the one message of a request and serves it.
    async fn serve_message(&self, caller: &Arc<Caller>, headers: HeaderMap, body: Incoming) -> Response<Answer> {
        let accepts = match readable(&headers) {
            Ok(accepts) => accepts,
            Err((status, why)) => return answer::turned_away(status, why),
        };
        let verdict = match self.read(body).await {
            Ok((bytes, _place)) => verdict(&bytes),
            Err(refusal) => return *refusal,
        };
        let message = match verdict {
            Ok(message) => message,
            Err(refusal) => {
                if let Some(times) = self.times(Refused::Message) {
                    let why = text::printable(&refusal.message, 200);
                    tracing::warn!(client = %caller.name, code = refusal.code, times, "refused: {why}");
                }
                let (status, refusal) = with_status(&headers, refusal);
                return answer::refused(status, &refusal);
            }
        };
        let spoken = spoken(&headers, &message);
        drop(headers);
        match spoken {
            Ok(spoken) => self.hand_over(caller, *message, spoken, accepts).await,
            Err((status, error)) => answer::error(status, message_id(&message), &error),
        }
    }

    /// The body, and the place it holds until it is parsed.
    async fn read(&self, mut body: Incoming) -> Result<(Bytes, Option<SemaphorePermit<'_>>), Box<Response<Answer>>> {
        let longest = self.config.longest_body;
        let too_long = || {
            let why = format!("the body is over {longest} bytes");
            Err(Box::new(answer::turned_away(StatusCode::PAYLOAD_TOO_LARGE, &why)))
        };
        let too_slow = |_| Box::new(answer::turned_away(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"));
        let deadline = Instant::now() + self.config.body;
        if body.size_hint().lower() > longest as u64 {
            return too_long();
        }
        let (mut bytes, mut place) = (BytesMut::new(), None);
        while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(too_slow)? {
            let Ok(frame) = frame else {
                return Err(Box::new(answer::turned_away(StatusCode::BAD_REQUEST, "the body broke off")));
            };
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > longest {
                return too_long();
            }
            if place.is_none() && bytes.len() + data.len() > SMALL {
                place = timeout_at(deadline, self.large.acquire()).await.map_err(too_slow)?.ok();
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), place))
    }

    async fn hand_over(
        &self,
        caller: &Arc<Caller>,
        message: ClientJsonRpcMessage,
        spoken: Spoken,
        accepts: Accepts,
    ) -> Response<Answer> {
        let request = match &message {
            JsonRpcMessage::Request(request) => request,
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    caller.cancel(id);
                }
                return answer::empty(StatusCode::ACCEPTED);
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                let refusal = Refusal::invalid(None, "a response to nothing that was asked");
                return answer::refused(StatusCode::BAD_REQUEST, &refusal);
            }
        };
        if matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) && !accepts.events {
            return answer::turned_away(StatusCode::NOT_ACCEPTABLE, "this is answered with Accept: text/event-stream");
        }
        let (id, method) = (request.id.clone(), request.request.method().to_owned());
        let modern = request.request.get_meta().protocol_version().is_some();
        tracing::debug!(client = %caller.name, method = text::printable(&method, 80), "a request");
        let nobody_waits = CancellationToken::new();
        let running = caller.begins(id.clone(), nobody_waits.clone());
        let mut exchange = self.begin(caller, message, spoken, nobody_waits.clone(), running);
        loop {
            let next = tokio::select! {
                next = exchange.next() => next,
                () = self.over.cancelled() => None,
            };
            match next {
                Some(answer) if is_answer(&answer) => {
                    return if accepts.json {
                        answer::piece(answer::status_of(&answer, modern), &answer)
                    } else {
                        answer::events(&answer, exchange, Silence::at_most(self.config.quiet))
                    };
                }
                Some(first) if accepts.events => {
                    return answer::events(&first, exchange, Silence::at_most(self.config.quiet));
                }
                Some(_) => {}
                None if nobody_waits.is_cancelled() => {
                    let why = "nobody waits for this call any more";
                    let error = rmcp::ErrorData::internal_error(why, None);
                    return answer::error(StatusCode::OK, Some(&id), &error);
                }
                None if !self.over.is_cancelled() => {
                    let error = rmcp::ErrorData::internal_error("this ended without an answer", None);
                    return answer::error(StatusCode::OK, Some(&id), &error);
                }
                None => {
                    let error = rmcp::ErrorData::internal_error("the door closes", None);
                    return answer::error(StatusCode::SERVICE_UNAVAILABLE, Some(&id), &error);
                }
            }
        }
    }

    fn begin(
        &self,
        caller: &Caller,
        message: ClientJsonRpcMessage,
        spoken: Spoken,
        nobody_waits: CancellationToken,
        running: Running,
    ) -> Exchange {
        let shown = || (self.show)(caller.session());
        match message {
            JsonRpcMessage::Request(request) if self.plain && goes_straight(&request.request, &spoken) => {
                let peer = self.nobodies.speaking(&spoken, shown);
                Exchange::straight(caller.session(), request, peer, nobody_waits, running, &self.tasks)
            }
            message => Exchange::begin(shown(), message, spoken, nobody_waits, running, &self.tasks),
        }
    }
}

/// What the client can read, if body and answer can be in a form that both sides know.
fn readable(headers: &HeaderMap) -> Result<Accepts, (StatusCode, &'static str)> {
    if !says_json(headers) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: application/json is needed"));
    }
    let accepts = accepts(headers);
    if accepts.json || accepts.events {
        Ok(accepts)
    } else {
        Err((StatusCode::NOT_ACCEPTABLE, "Accept: application/json, text/event-stream"))
    }
}

/// The refusal of what is no message as its client is told it.
fn with_status(headers: &HeaderMap, refusal: Refusal) -> (StatusCode, Refusal) {
    if removed(headers) {
        let refusal = Refusal { code: -32601, message: "this revision has no such method".into(), ..refusal };
        return (StatusCode::NOT_FOUND, refusal);
    }
    // Params that are wrong are told in the answer, like everything that has its request.
    (if refusal.code == -32602 { StatusCode::OK } else { StatusCode::BAD_REQUEST }, refusal)
}

/// What the door makes of a POST with these headers and this body before anything is served: the method of the request, or
/// nothing for another message; else the status and the reason of its refusal. For the fuzzer, which sees no more of this.
///
/// # Errors
///
/// The refusal.
#[doc(hidden)]
pub fn judged(fields: &[(&str, &[u8])], body: &[u8]) -> Result<String, (u16, String)> {
    let field = |(name, value): &(&str, &[u8])| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    };
    let headers: HeaderMap = fields.iter().filter_map(field).collect();
    readable(&headers).map_err(|(status, why)| (status.as_u16(), why.to_owned()))?;
    let message = verdict(body).map_err(|refusal| {
        let (status, refusal) = with_status(&headers, refusal);
        (status.as_u16(), refusal.message)
    })?;
    spoken(&headers, &message).map_err(|(status, error)| (status.as_u16(), error.message.into_owned()))?;
    Ok(match *message {
        JsonRpcMessage::Request(request) => request.request.method().to_owned(),
        _ => String::new(),
    })
}

/// Whether a page is of this very door. There are none, but what is sent by hand may say so.
fn is_own(rules: &Rules, origin: &HeaderValue, host: &str) -> bool {
    let scheme = if rules.tls.is_some() { "https" } else { "http" };
    origin.to_str().is_ok_and(|origin| Hosts::is_at(origin, scheme, host))
}

fn knows(rules: &Rules, origin: &HeaderValue) -> bool {
    origin.to_str().is_ok_and(|origin| rules.hosts.lets_in(origin))
}

/// The message of a body, or its refusal. What is no message is answered here even where a line would be passed over:
/// a request always has an answer.
fn verdict(bytes: &[u8]) -> Result<Box<ClientJsonRpcMessage>, Refusal> {
    match judge(bytes) {
        Verdict::Message(message) => Ok(message),
        Verdict::Absorbed(None) => Err(Refusal::unreadable(None, "the body is empty")),
        Verdict::Absorbed(Some(why)) => Err(Refusal::invalid(None, why)),
        Verdict::Refused(refusals) => {
            let mut refusals = refusals.into_iter();
            match (refusals.next(), refusals.next()) {
                (Some(refusal), None) => Err(refusal),
                _ => Err(Refusal::invalid(None, "batches are not taken; send one request at a time")),
            }
        }
    }
}

fn message_id(message: &ClientJsonRpcMessage) -> Option<&rmcp::model::RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}
