//! Calls that ask something back before they are answered, over several requests: what was asked so far travels in a state
//! that the client carries and cannot change. Pure.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use rmcp::{ErrorData, model::ClientCapabilities};
use serde_json::{Map, Value as Json, json};
use sha2::Sha256;

/// What comes of one request.
pub(crate) enum Round {
    /// More is to be asked.
    Ask(Json),
    /// The text of the answer.
    Done(String),
}

type Responses = BTreeMap<String, Json>;

/// What comes of this request for a tool or a prompt; `None` if it never asks anything.
pub(crate) fn round(
    name: &str,
    responses: &Responses,
    state: Option<&str>,
    declared: &ClientCapabilities,
) -> Result<Option<Round>, ErrorData> {
    let opened = state.map(open).transpose()?;
    let confirm = || ("confirm", elicit("Please confirm", "ok", "boolean"));
    Ok(Some(match name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            let ask = ("user_name", elicit("What is your name?", "name", "string"));
            answered(responses, &[ask], None, |of| format!("Hello, {}!", field(of, "user_name", "name")))
        }
        "test_input_required_result_sampling" => {
            let ask = ("capital_question", sample("What is the capital of France?", 100));
            answered(responses, &[ask], None, |of| of["capital_question"]["content"].to_string())
        }
        "test_input_required_result_list_roots" => {
            answered(responses, &[("client_roots", roots())], None, |of| of["client_roots"]["roots"].to_string())
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            // Without its state an answer is to nothing that was asked.
            let responses = if opened.as_deref() == Some("confirm") { responses } else { &Responses::new() };
            answered(responses, &[confirm()], Some("confirm"), |_| "state-ok".to_owned())
        }
        "test_input_required_result_multiple_inputs" => {
            let asks = [
                ("user_name", elicit("What is your name?", "name", "string")),
                ("greeting", sample("Generate a greeting", 50)),
                ("client_roots", roots()),
            ];
            answered(responses, &asks, Some("all"), |of| format!("Hello, {}!", field(of, "user_name", "name")))
        }
        "test_input_required_result_multi_round" => match opened.as_deref() {
            Some("second") => {
                let ask = ("step2", elicit("Step 2: What is your favorite color?", "color", "string"));
                answered(responses, &[ask], Some("second"), |of| field(of, "step2", "color").to_owned())
            }
            first => {
                let step = ("step1", elicit("Step 1: What is your name?", "name", "string"));
                let given = if first == Some("first") { responses } else { &Responses::new() };
                match answered(given, &[step], Some("first"), |_| String::new()) {
                    Round::Done(_) => {
                        let ask = ("step2", elicit("Step 2: What is your favorite color?", "color", "string"));
                        answered(&Responses::new(), &[ask], Some("second"), |_| String::new())
                    }
                    ask @ Round::Ask(_) => ask,
                }
            }
        },
        "test_input_required_result_capabilities" => {
            let mut asks = Vec::new();
            if declared.sampling.is_some() {
                asks.push(("greeting", sample("Generate a greeting", 50)));
            }
            if declared.elicitation.is_some() {
                asks.push(("user_name", elicit("What is your name?", "name", "string")));
            }
            answered(responses, &asks, None, |_| "done".to_owned())
        }
        "test_input_required_result_prompt" => {
            let ask = ("user_context", elicit("What context should the prompt use?", "context", "string"));
            answered(responses, &[ask], None, |of| format!("In {}.", field(of, "user_context", "context")))
        }
        _ => return Ok(None),
    }))
}

/// Asks for what is not there yet, or says what follows from what is.
fn answered(
    responses: &Responses,
    asks: &[(&str, Json)],
    state: Option<&str>,
    done: impl FnOnce(&Responses) -> String,
) -> Round {
    let open: Map<String, Json> = asks
        .iter()
        .filter(|(key, _)| !responses.get(*key).is_some_and(Json::is_object))
        .map(|(key, ask)| ((*key).to_owned(), ask.clone()))
        .collect();
    if open.is_empty() {
        return Round::Done(done(responses));
    }
    let mut ask = json!({"resultType": "input_required", "inputRequests": open});
    if let Some(state) = state {
        ask["requestState"] = seal(state).into();
    }
    Round::Ask(ask)
}

fn field<'a>(responses: &'a Responses, key: &str, name: &str) -> &'a str {
    responses.get(key).and_then(|response| response["content"][name].as_str()).unwrap_or_default()
}

fn elicit(message: &str, field: &str, kind: &str) -> Json {
    let schema = json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn sample(text: &str, tokens: u32) -> Json {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}})
}

fn roots() -> Json {
    json!({"method": "roots/list", "params": {}})
}

/// A fixture has no secrets; what is shown is that a state is checked.
const KEY: &[u8] = b"the fixture's";

fn mac(state: &str) -> Result<Hmac<Sha256>, ErrorData> {
    let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(KEY);
    let mut mac = mac.map_err(|problem| ErrorData::internal_error(problem.to_string(), None))?;
    mac.update(state.as_bytes());
    Ok(mac)
}

fn seal(state: &str) -> String {
    let tag = mac(state).map(|mac| mac.finalize().into_bytes()).unwrap_or_default();
    format!("{state}.{}", hex::encode(tag))
}

fn open(sealed: &str) -> Result<String, ErrorData> {
    let forged = || ErrorData::invalid_params("this requestState is none of ours", None);
    let (state, tag) = sealed.split_once('.').ok_or_else(forged)?;
    let tag = hex::decode(tag).map_err(|_| forged())?;
    mac(state)?.verify_slice(&tag).map_err(|_| forged())?;
    Ok(state.to_owned())
}
