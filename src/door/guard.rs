//! Bytes to one valid message or one refusal (results.md 5). Pure.
//!
//! The SDK ignores lines that are not JSON, answers without the id, mistakes `params: null` for an unknown method and would
//! execute what cannot be answered. So a line is judged here, parsed exactly once, and handed over as the SDK's own type.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult,
    CompleteRequest, ErrorData, Extensions, GetExtensions, GetPromptRequest, InitializeRequest, JsonRpcMessage,
    ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest, MetaObject,
    NumberOrString, PingRequest, ReadResourceRequest, RequestId, RequestMetaObject, SubscriptionsListenRequest,
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value as Json, json};

use super::{
    batch,
    scan::{Excess, IdScan, MAX_DEPTH, MAX_ID, MAX_VALUES, measure},
};
use crate::mcp::{server::BadArguments, text};

/// What a line is.
#[derive(Debug)]
pub enum Verdict {
    /// A message to hand over.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing to hand over; each of these is answered.
    Refused(Vec<Refusal>),
    /// Nothing to hand over and nobody to answer: an empty line (`None`), or a notification that is not to be executed.
    Absorbed(Option<&'static str>),
}

/// The answer to what is no message.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The id the line named, or null.
    pub id: Json,
    /// The JSON-RPC code.
    pub code: i32,
    /// What is wrong.
    pub message: String,
}

impl Refusal {
    /// A line that cannot be read (-32700).
    pub fn unreadable(id: Option<Json>, message: impl Into<String>) -> Self {
        Self { id: id.unwrap_or_default(), code: -32700, message: message.into() }
    }

    /// A line that is no request (-32600).
    pub fn invalid(id: Option<Json>, message: impl Into<String>) -> Self {
        Self { id: id.unwrap_or_default(), code: -32600, message: message.into() }
    }

    /// A request whose params are not what its method takes (-32602).
    pub fn params(id: &RequestId, message: impl Into<String>) -> Self {
        Self { id: id.clone().into_json_value(), code: -32602, message: message.into() }
    }

    /// The answer, without its newline.
    pub fn to_json(&self) -> Json {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}})
    }
}

/// Judges one line or body.
pub fn judge(line: &[u8]) -> Verdict {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Verdict::Absorbed(None);
    }
    let Ok(readable) = std::str::from_utf8(line) else {
        return refused(Refusal::unreadable(IdScan::of(line), "the message is not UTF-8"));
    };
    match measure(line) {
        Ok(()) => {}
        Err(Excess::Depth) => {
            return refused(Refusal::invalid(IdScan::of(line), format!("the message nests over {MAX_DEPTH} levels")));
        }
        Err(Excess::Values) => {
            return refused(Refusal::invalid(IdScan::of(line), format!("the message holds over {MAX_VALUES} values")));
        }
    }
    if line.starts_with(b"[") {
        return Verdict::Refused(batch::refusals(readable));
    }
    match serde_json::from_str::<Envelope>(readable) {
        Ok(envelope) => classify(envelope),
        Err(problem) => refused(not_an_envelope(readable, &problem)),
    }
}

fn refused(refusal: Refusal) -> Verdict {
    Verdict::Refused(vec![refusal])
}

/// The members of a JSON-RPC message. A member that is there and null is `Some(Null)`.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "present")]
    jsonrpc: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    method: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Json>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Why a line is no envelope: no JSON at all, or JSON of another shape.
fn not_an_envelope(line: &str, problem: &serde_json::Error) -> Refusal {
    let id = IdScan::of(line.as_bytes());
    if !problem.is_data() {
        return Refusal::unreadable(id, format!("the message is not JSON: {problem}"));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(line) {
        Ok(_) if line.starts_with('{') => Refusal::invalid(id, format!("the message is no request: {problem}")),
        Ok(_) => Refusal::invalid(None, "the message is no JSON-RPC object"),
        Err(problem) => Refusal::unreadable(id, format!("the message is not JSON: {problem}")),
    }
}

fn classify(envelope: Envelope) -> Verdict {
    let Envelope { jsonrpc, id, method, params, result, error } = envelope;
    let echo = id.clone().filter(|id| id.is_number() || id.as_str().is_some_and(|id| id.len() <= MAX_ID));
    let invalid = |message: &str| refused(Refusal::invalid(echo, message));
    if jsonrpc.is_none_or(|version| version != "2.0") {
        return invalid("jsonrpc must be \"2.0\"");
    }
    match (method, result, error) {
        (Some(Json::String(method)), None, None) => match id.map(request_id) {
            None => notification(method, params),
            Some(Some(id)) => request(method, id, params),
            Some(None) => invalid("id must be a whole number or a string of at most 1024 bytes"),
        },
        (Some(Json::String(_)), ..) => invalid("a request has no result and no error"),
        (Some(_), ..) => invalid("method must be a string"),
        (None, Some(result), None) => match id.and_then(request_id) {
            Some(id) => response(result, id),
            None => invalid("a response needs an id"),
        },
        (None, None, Some(error)) => match serde_json::from_value::<ErrorData>(error) {
            Ok(error) => message(JsonRpcMessage::error(error, id.and_then(request_id))),
            Err(_) => invalid("error must be an object with code and message"),
        },
        (None, ..) => invalid("a message has a method, a result or an error"),
    }
}

fn message(message: ClientJsonRpcMessage) -> Verdict {
    Verdict::Message(Box::new(message))
}

fn request_id(id: Json) -> Option<RequestId> {
    let short = id.as_str().is_none_or(|id| id.len() <= MAX_ID);
    if short { serde_json::from_value::<NumberOrString>(id).ok() } else { None }
}

fn response(result: Json, id: RequestId) -> Verdict {
    match serde_json::from_value::<ClientResult>(result) {
        Ok(result) => message(JsonRpcMessage::response(result, id)),
        Err(_) => Verdict::Absorbed(Some("a response nobody asked for")),
    }
}

/// A notification is never answered. A call without an id could not be, so it is not executed (F-07).
fn notification(method: String, params: Option<Json>) -> Verdict {
    if !method.starts_with("notifications/") {
        return Verdict::Absorbed(Some("a request without an id is not executed"));
    }
    let params = match params {
        None | Some(Json::Null) => Map::new(),
        Some(Json::Object(params)) => params,
        Some(_) => return Verdict::Absorbed(Some("a notification whose params are no object")),
    };
    match typed::<ClientNotification>(method, Some(params)) {
        Ok(notification) => message(JsonRpcMessage::notification(notification)),
        Err(_) => Verdict::Absorbed(Some("a notification that is not understood")),
    }
}

fn request(method: String, id: RequestId, params: Option<Json>) -> Verdict {
    let params = match params {
        None | Some(Json::Null) => None,
        Some(Json::Object(params)) => Some(params),
        Some(_) => return refused(Refusal::params(&id, "params must be an object")),
    };
    let built = match method.as_str() {
        "tools/call" => tool_call(params.unwrap_or_default()),
        "tools/list" => listing::<ListToolsRequest>(method, params).map(ClientRequest::ListToolsRequest),
        "ping" => typed::<PingRequest>(method, params).map(ClientRequest::PingRequest),
        "initialize" => needing::<InitializeRequest>(method, params).map(ClientRequest::InitializeRequest),
        "server/discover" => needing::<ClientRequest>(method, params),
        // By the type of each, so that params that are wrong are not taken for an unknown method.
        "prompts/list" => listing::<ListPromptsRequest>(method, params).map(ClientRequest::ListPromptsRequest),
        "prompts/get" => needing::<GetPromptRequest>(method, params).map(ClientRequest::GetPromptRequest),
        "resources/list" => listing::<ListResourcesRequest>(method, params).map(ClientRequest::ListResourcesRequest),
        "resources/templates/list" => {
            listing::<ListResourceTemplatesRequest>(method, params).map(ClientRequest::ListResourceTemplatesRequest)
        }
        "resources/read" => needing::<ReadResourceRequest>(method, params).map(ClientRequest::ReadResourceRequest),
        "resources/subscribe" => needing(method, params).map(ClientRequest::SubscribeRequest),
        "resources/unsubscribe" => needing(method, params).map(ClientRequest::UnsubscribeRequest),
        "subscriptions/listen" => {
            needing::<SubscriptionsListenRequest>(method, params).map(ClientRequest::SubscriptionsListenRequest)
        }
        "completion/complete" => needing::<CompleteRequest>(method, params).map(ClientRequest::CompleteRequest),
        _ => typed::<ClientRequest>(method, params),
    };
    match built {
        Ok(request) => message(JsonRpcMessage::request(request, id)),
        Err(problem) => refused(Refusal::params(&id, problem)),
    }
}

/// A request that has params, or may have.
fn needing<T: DeserializeOwned>(method: String, params: Option<Map<String, Json>>) -> Result<T, String> {
    typed::<T>(method, Some(params.unwrap_or_default()))
}

/// A request for a page. The SDK would take a cursor that is no text for none.
fn listing<T: DeserializeOwned>(method: String, params: Option<Map<String, Json>>) -> Result<T, String> {
    match params.as_ref().and_then(|params| params.get("cursor")) {
        None | Some(Json::String(_)) => needing::<T>(method, params),
        Some(_) => Err("params.cursor must be a text".to_owned()),
    }
}

fn typed<T: DeserializeOwned>(method: String, params: Option<Map<String, Json>>) -> Result<T, String> {
    let mut members = Map::with_capacity(2);
    members.insert("method".to_owned(), Json::String(method));
    if let Some(params) = params {
        members.insert("params".to_owned(), Json::Object(params));
    }
    T::deserialize(Json::Object(members)).map_err(|problem| text::printable(&problem.to_string(), 200))
}

/// A tool call, built by hand: it is the hot path, and arguments that are no object are the tool's to refuse.
fn tool_call(mut params: Map<String, Json>) -> Result<ClientRequest, String> {
    let Some(Json::String(name)) = params.remove("name") else {
        return Err("params.name must be the name of a tool".to_owned());
    };
    let mut extensions = Extensions::new();
    match params.remove("_meta") {
        None | Some(Json::Null) => {}
        Some(Json::Object(meta)) => {
            extensions.insert(RequestMetaObject(MetaObject(meta)));
        }
        Some(_) => return Err("params._meta must be an object".to_owned()),
    }
    let mut call = CallToolRequestParams::new(name);
    match params.remove("arguments") {
        None => {}
        Some(Json::Object(arguments)) => call = call.with_arguments(arguments),
        Some(other) => {
            extensions.insert(BadArguments(other));
        }
    }
    match params.remove("inputResponses") {
        None | Some(Json::Null) => {}
        Some(Json::Object(responses)) => call = call.with_input_responses(responses.into_iter().collect()),
        Some(_) => return Err("params.inputResponses must be an object".to_owned()),
    }
    match params.remove("requestState") {
        None | Some(Json::Null) => {}
        Some(Json::String(state)) => call = call.with_request_state(state),
        Some(_) => return Err("params.requestState must be a string".to_owned()),
    }
    let mut request = CallToolRequest::new(call);
    *request.extensions_mut() = extensions;
    Ok(ClientRequest::CallToolRequest(request))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusals(line: &[u8]) -> Vec<(Json, i32)> {
        match judge(line) {
            Verdict::Refused(refusals) => refusals.into_iter().map(|refusal| (refusal.id, refusal.code)).collect(),
            other => panic!("{}: {other:?}", String::from_utf8_lossy(line)),
        }
    }

    fn request_of(line: &str) -> ClientRequest {
        match judge(line.as_bytes()) {
            Verdict::Message(message) => message.into_request().expect("a request").0,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// results.md 5, F-01, F-04: each of these gets one answer, with the id when the line names one.
    #[test]
    fn what_is_no_message_is_refused() {
        let cases: &[(&[u8], Json, i32)] = &[
            (b"nonsense", json!(null), -32700),
            (b"{\"jsonrpc\":\"2.0\",\"id\":4,", json!(4), -32700),
            (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xC3\"}", json!(5), -32700),
            (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"x\":\"\xff\"}", json!(5), -32700),
            (b"\xC3", json!(null), -32700),
            (b"{} {}", json!(null), -32700),
            (b"{\"a\":[1,2}", json!(null), -32700),
            (b"\"\\ud800\"", json!(null), -32700),
            (b"null", json!(null), -32600),
            (b"5", json!(null), -32600),
            (b"\"x\"", json!(null), -32600),
            (b"true", json!(null), -32600),
            (b"{}", json!(null), -32600),
            (b"{\"id\":6}", json!(6), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":\"a\"}", json!("a"), -32600),
            (b"{\"id\":7,\"method\":\"ping\"}", json!(7), -32600),
            (b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", json!(7), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":5}", json!(8), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":null}", json!(8), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"result\":{}}", json!(9), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{},\"error\":{}}", json!(9), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", json!(1.5), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", json!(null), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", json!(1), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"result\":{}}", json!(null), -32600),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":[]}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":{}}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":null}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":null}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":5}}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"prompts/get\"}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/read\",\"params\":{\"uri\":5}}", json!(3), -32602),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/list\",\"params\":{\"cursor\":5}}",
                json!(3),
                -32602,
            ),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/subscribe\"}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"subscriptions/listen\"}", json!(3), -32602),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"completion/complete\",\"params\":{}}", json!(3), -32602),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"requestState\":5}}",
                json!(3),
                -32602,
            ),
        ];
        for (line, id, code) in cases {
            assert_eq!(refusals(line), [(id.clone(), *code)], "{}", String::from_utf8_lossy(line));
        }
    }

    /// F-07: a call that cannot be answered is never executed; one with `id: null` is told so.
    #[test]
    fn a_call_without_an_id_is_not_executed() {
        let without = br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#;
        assert!(matches!(judge(without), Verdict::Absorbed(Some(_))));
        let null = br#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}"#;
        assert_eq!(refusals(null), [(json!(null), -32600)]);
    }

    /// results.md 5: 101 levels are refused before they are parsed, with the id.
    #[test]
    fn deep_lines_are_refused() {
        let line = |levels: usize| {
            let nested = "[".repeat(levels) + &"]".repeat(levels);
            format!(
                r#"{{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{{"name":"x","arguments":{{"a":{nested}}}}}}}"#
            )
        };
        assert_eq!(refusals(line(98).as_bytes()), [(json!("deep"), -32600)]);
        request_of(&line(97));
    }

    /// `params: null` is no params: the SDK would answer -32601.
    #[test]
    fn null_params_are_no_params() {
        for method in ["tools/list", "ping", "resources/list", "prompts/list"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":null}}"#);
            let request = request_of(&line);
            assert!(!matches!(request, ClientRequest::CustomRequest(_)), "{method}");
            assert_eq!(request.method(), method);
        }
    }

    /// A tool call arrives whole: name, arguments, metadata; and arguments that are no object are marked, not dropped.
    #[test]
    fn a_tool_call_is_built_whole() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,{"b":null}]},"_meta":{"progressToken":"p"}}}"#;
        let ClientRequest::CallToolRequest(call) = request_of(line) else { panic!("a tool call") };
        assert_eq!(call.params.name, "x");
        assert_eq!(Json::Object(call.params.arguments.clone().unwrap()), json!({"a": [1, {"b": null}]}));
        let meta = call.extensions.get::<RequestMetaObject>().unwrap();
        assert_eq!(serde_json::to_value(meta.get_progress_token()).unwrap(), json!("p"));
        for bad in ["null", "5", "\"x\"", "[1]"] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{bad}}}}}"#
            );
            let ClientRequest::CallToolRequest(call) = request_of(&line) else { panic!("a tool call") };
            assert_eq!(call.extensions.get::<BadArguments>().unwrap().0.to_string(), bad);
        }
    }

    /// What the SDK parses itself and what is built here are the same messages.
    #[test]
    fn the_sdk_would_read_the_same() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1},"_meta":{"progressToken":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","inputResponses":{"a":{"b":1}},"requestState":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"unheard/of","params":{"x":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}"#,
        ] {
            let Verdict::Message(ours) = judge(line.as_bytes()) else { panic!("{line}") };
            let theirs: ClientJsonRpcMessage = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_value(&*ours).unwrap(), serde_json::to_value(&theirs).unwrap(), "{line}");
            assert_eq!(std::mem::discriminant(&*ours), std::mem::discriminant(&theirs));
        }
    }

    #[test]
    fn empty_lines_are_nothing() {
        for line in [&b""[..], b"  \r", b"\xEF\xBB\xBF", b"\t"] {
            assert!(matches!(judge(line), Verdict::Absorbed(None)));
        }
        request_of("\u{feff} {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r");
    }

    proptest! {
        /// F-01: nothing a client sends may end the process.
        #[test]
        fn no_bytes_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = judge(&line);
        }

        #[test]
        fn no_json_panics(text in "[{}\\[\\]:,\"a-z0-9 .\\\\]{0,80}") {
            let _ = judge(text.as_bytes());
        }
    }
}
