//! What the headers of a request say, and whether they agree with its message. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage, ProtocolVersion,
};

use super::exchange::Spoken;
use crate::mcp::{server::REVISIONS, text};

/// What a client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

/// What a client says that it can read; one that says nothing is given JSON.
pub(super) fn accepts(headers: &HeaderMap) -> Accepts {
    let mut told = headers.get_all(ACCEPT).iter().peekable();
    if told.peek().is_none() {
        return Accepts { json: true, events: false };
    }
    let mut accepts = Accepts { json: false, events: false };
    for range in told.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.filter_map(|part| part.split_once('=')).any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|quality| quality <= 0.0)
        });
        if refused {
            continue;
        }
        // A client that takes anything is not taken to understand a stream of events.
        accepts.json |= matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
        accepts.events |= matches!(kind.as_str(), "text/event-stream" | "text/*");
    }
    accepts
}

/// Whether the body is said to be JSON. A web page can send three other types without being asked first (F-11).
pub(super) fn says_json(headers: &HeaderMap) -> bool {
    let mut told = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (told.next(), told.next()) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let mut parts = value.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
            !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

/// The one value of a header; `Err` if it stands twice or is no text.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| format!("the header {name} is no text")),
        (Some(_), Some(_)) => Err(format!("the header {name} stands twice")),
    }
}

/// Why a message is not served, with its HTTP status.
pub(super) type Disagreement = (StatusCode, ErrorData);

fn mismatch(why: impl Into<String>) -> Disagreement {
    (StatusCode::BAD_REQUEST, ErrorData::header_mismatch(why.into(), None))
}

/// Which revision the message is to be read in, when headers and message agree.
///
/// Without sessions nothing is remembered of an `initialize`, so a revision that has one is named by the header, and is
/// 2025-03-26 if there is none. Later revisions say it in the message, and in the header as well.
pub(super) fn spoken(headers: &HeaderMap, message: &ClientJsonRpcMessage) -> Result<Spoken, Disagreement> {
    let header = one(headers, VERSION).map_err(mismatch)?;
    let known = header.map(|header| REVISIONS.into_iter().find(|known| known.as_str() == header).ok_or(header));
    let JsonRpcMessage::Request(request) = message else {
        return agreed(known);
    };
    let request = &request.request;
    let inline = request.get_meta().protocol_version();
    let modern = [header, inline.as_ref().map(ProtocolVersion::as_str)].into_iter().flatten().any(is_modern);
    if let ClientRequest::InitializeRequest(initialize) = request
        && inline.is_none()
    {
        named_by(headers, request, false)?;
        let wanted = initialize.params.protocol_version.as_str();
        return match header {
            Some(header) if header != wanted => Err(mismatch(format!(
                "the header {VERSION} says {:?} and params.protocolVersion {:?}",
                text::printable(header, 40),
                text::printable(wanted, 40)
            ))),
            _ => Ok(Spoken::ByItself),
        };
    }
    match (header, inline) {
        (Some(header), Some(inline)) if header == inline.as_str() => {
            named_by(headers, request, inline >= ProtocolVersion::STANDARD_HEADERS)?;
            if modern { whole(request) } else { Ok(Spoken::ByItself) }
        }
        (Some(header), Some(inline)) => Err(mismatch(format!(
            "the header {VERSION} says {:?} and params._meta {:?}",
            text::printable(header, 40),
            text::printable(inline.as_str(), 40)
        ))),
        (None, Some(_)) => {
            Err(mismatch(format!("params._meta names a protocol version and the header {VERSION} does not")))
        }
        (_, None) if matches!(request, ClientRequest::DiscoverRequest(_)) => whole(request),
        (_, None) => agreed(known).and_then(|spoken| match spoken {
            Spoken::Agreed(version) if !version.has_initialize() => {
                named_by(headers, request, true)?;
                whole(request)
            }
            spoken => Ok(spoken),
        }),
    }
}

/// Whether a revision is one without `initialize`.
fn is_modern(version: &str) -> bool {
    REVISIONS.into_iter().any(|known| known.as_str() == version && !known.has_initialize())
}

/// What the revisions without `initialize` no longer have.
const REMOVED: [&str; 5] = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Whether the head alone says that this is a method which its revision no longer has: what else the message says need not
/// be understood then.
pub(super) fn removed(headers: &HeaderMap) -> bool {
    let told = |name| one(headers, name).ok().flatten();
    told(VERSION).is_some_and(is_modern) && told(METHOD).is_some_and(|method| REMOVED.contains(&method))
}

/// A request of a revision without `initialize`: it has a method of that revision, and says all it has to say of itself.
fn whole(request: &ClientRequest) -> Result<Spoken, Disagreement> {
    let method = request.method();
    if REMOVED.contains(&method) {
        let why = format!("{method} is no method of this revision");
        return Err((StatusCode::NOT_FOUND, ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)));
    }
    let missing = request.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28);
    if missing.is_empty() {
        return Ok(Spoken::ByItself);
    }
    let why = format!("params._meta lacks, or has in another shape: {}", missing.join(", "));
    Err((StatusCode::BAD_REQUEST, ErrorData::invalid_params(why, None)))
}

/// The header of a message that does not say its revision itself.
fn agreed(known: Option<Result<ProtocolVersion, &str>>) -> Result<Spoken, Disagreement> {
    match known {
        None => Ok(Spoken::Agreed(ProtocolVersion::V_2025_03_26)),
        Some(Ok(version)) => Ok(Spoken::Agreed(version)),
        Some(Err(unknown)) => {
            let supported: Vec<&str> = REVISIONS.iter().map(ProtocolVersion::as_str).collect();
            let why = format!(
                "the header {VERSION} says {:?}; served are {}",
                text::printable(unknown, 40),
                supported.join(", ")
            );
            let data = serde_json::json!({"requested": text::printable(unknown, 40), "supported": supported});
            let code = ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;
            Err((StatusCode::BAD_REQUEST, ErrorData::new(code, why, Some(data))))
        }
    }
}

/// What stands between us and the client may have gone by these headers, so they must say what the message says.
fn named_by(headers: &HeaderMap, request: &ClientRequest, needed: bool) -> Result<(), Disagreement> {
    let method = request.method();
    match one(headers, METHOD).map_err(mismatch)? {
        None if needed => return Err(mismatch(format!("the header {METHOD} is missing"))),
        Some(told) if told != method => {
            return Err(mismatch(format!(
                "the header {METHOD} says {:?} and the message {:?}",
                text::printable(told, 80),
                text::printable(method, 80)
            )));
        }
        _ => {}
    }
    let (name, meant) = match request {
        ClientRequest::CallToolRequest(call) => (&*call.params.name, "params.name"),
        ClientRequest::GetPromptRequest(get) => (get.params.name.as_str(), "params.name"),
        ClientRequest::ReadResourceRequest(read) => (read.params.uri.as_str(), "params.uri"),
        _ => return Ok(()),
    };
    match one(headers, NAME).map_err(mismatch)? {
        None if needed => Err(mismatch(format!("the header {NAME} is missing"))),
        Some(told) if needed && plain(told).as_deref() != Some(name) => {
            Err(mismatch(format!("the header {NAME} says {:?}, which is not {meant}", text::printable(told, 80))))
        }
        _ => Ok(()),
    }
}

/// A header's value as it was meant: what a header cannot hold is wrapped.
fn plain(told: &str) -> Option<String> {
    match told.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(wrapped) => String::from_utf8(STANDARD.decode(wrapped).ok()?).ok(),
        None => Some(told.to_owned()),
    }
}

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::door::guard::{Verdict, judge};

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        lines.iter().map(pair).collect()
    }

    fn message(line: &Json) -> ClientJsonRpcMessage {
        let Verdict::Message(message) = judge(line.to_string().as_bytes()) else { panic!("{line}") };
        *message
    }

    fn code(lines: &[(&str, &str)], line: &Json) -> Result<Spoken, i32> {
        spoken(&headers(lines), &message(line)).map_err(|(status, error)| {
            let unknown = error.code == ErrorCode::METHOD_NOT_FOUND;
            assert_eq!(status, if unknown { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST });
            error.code.0
        })
    }

    fn inline(version: &str) -> Json {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}
        }}})
    }

    #[test]
    fn a_client_is_given_what_it_can_read() {
        for (told, json, events) in [
            ("application/json, text/event-stream", true, true),
            ("application/json", true, false),
            ("*/*", true, false),
            ("text/event-stream", false, true),
            ("Application/JSON;q=0.9,Text/Event-Stream ; q=0.1", true, true),
            ("application/json, text/event-stream;q=0", true, false),
            ("text/html", false, false),
            ("", false, false),
        ] {
            assert_eq!(accepts(&headers(&[("accept", told)])), Accepts { json, events }, "{told:?}");
        }
        assert_eq!(accepts(&HeaderMap::new()), Accepts { json: true, events: false });
    }

    /// F-11: only JSON, which a page of another site cannot send unasked.
    #[test]
    fn only_json_is_taken() {
        for kind in ["application/json", "Application/Json; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert!(says_json(&headers(&[("content-type", kind)])), "{kind}");
        }
        for kind in [
            "text/plain",
            "application/json-seq",
            "application/x-www-form-urlencoded",
            "",
            "application/json; charset=utf-16",
        ] {
            assert!(!says_json(&headers(&[("content-type", kind)])), "{kind}");
        }
        assert!(!says_json(&HeaderMap::new()));
        assert!(!says_json(&headers(&[("content-type", "application/json"), ("content-type", "text/plain")])));
    }

    /// F-06: known revisions only; where headers and message disagree nothing is served.
    #[test]
    fn headers_and_message_agree_or_nothing_is_served() {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(code(&[], &list), Ok(Spoken::Agreed(ProtocolVersion::V_2025_03_26)));
        assert_eq!(code(&[(VERSION, "2025-06-18")], &list), Ok(Spoken::Agreed(ProtocolVersion::V_2025_06_18)));
        for unknown in ["2099-01-01", "", "1", "2025-06-18, 2025-06-18"] {
            assert_eq!(code(&[(VERSION, unknown)], &list), Err(-32022), "{unknown:?}");
        }
        assert_eq!(code(&[(VERSION, "2025-06-18"), (VERSION, "2025-06-18")], &list), Err(-32020));

        let about =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about});
        assert_eq!(code(&[], &initialize), Ok(Spoken::ByItself));
        assert_eq!(code(&[(VERSION, "2025-06-18")], &initialize), Ok(Spoken::ByItself));
        assert_eq!(code(&[(VERSION, "2025-11-25")], &initialize), Err(-32020));
        assert_eq!(code(&[(METHOD, "tools/call")], &initialize), Err(-32020));

        let new = [(VERSION, "2026-07-28"), (METHOD, "tools/call"), (NAME, "echo")];
        assert_eq!(code(&new, &inline("2026-07-28")), Ok(Spoken::ByItself));
        assert_eq!(code(&[new[0], new[1], (NAME, "=?base64?ZWNobw==?=")], &inline("2026-07-28")), Ok(Spoken::ByItself));
        for told in [
            vec![],
            vec![new[0]],
            vec![new[0], new[1]],
            vec![new[0], new[2]],
            vec![new[0], new[1], (NAME, "press")],
            vec![new[0], new[1], (NAME, "=?base64?!?=")],
            vec![new[0], (METHOD, "tools/list"), new[2]],
            vec![(VERSION, "2025-06-18"), new[1], new[2]],
            vec![new[0], new[1], new[2], new[2]],
        ] {
            assert_eq!(code(&told, &inline("2026-07-28")), Err(-32020), "{told:?}");
        }
        for (method, params) in [("prompts/get", "name"), ("resources/read", "uri")] {
            let mut line = inline("2026-07-28");
            line["method"] = json!(method);
            line["params"][params] = json!("plant://guide");
            let told = |name| [(VERSION, "2026-07-28"), (METHOD, method), (NAME, name)];
            assert_eq!(code(&told("plant://guide"), &line), Ok(Spoken::ByItself), "{method}");
            assert_eq!(code(&told("plant://errors"), &line), Err(-32020), "{method}");
            assert_eq!(code(&told("plant://guide")[..2], &line), Err(-32020), "{method}");
        }
    }

    /// A revision without `initialize` has no methods that go with it, and every request of it says what it has to.
    #[test]
    fn a_later_revision_is_held_to_what_it_says() {
        let asks = |method: &str, meta: &Json| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, "level": "info", "uri": "x:y", "name": "p"}});
        let new = |method: &'static str, name: &'static str| [(VERSION, "2026-07-28"), (METHOD, method), (NAME, name)];
        let full = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
            assert_eq!(code(&new(method, "p"), &asks(method, &full)), Err(-32601), "{method}");
            assert!(removed(&headers(&new(method, "p"))) && !removed(&headers(&[(METHOD, method)])), "{method}");
        }
        for missing in ["io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"] {
            let mut meta = full.clone();
            meta.as_object_mut().unwrap().remove(missing);
            for method in ["server/discover", "tools/list"] {
                assert_eq!(code(&new(method, "p"), &asks(method, &meta)), Err(-32602), "{method} without {missing}");
            }
        }
        assert_eq!(code(&[], &asks("server/discover", &json!({}))), Err(-32602));
        for (method, name) in [("prompts/get", "p"), ("resources/read", "x:y")] {
            assert_eq!(code(&new(method, name), &asks(method, &full)), Ok(Spoken::ByItself), "{method}");
            assert_eq!(code(&new(method, "other"), &asks(method, &full)), Err(-32020), "{method}");
        }
    }
}
