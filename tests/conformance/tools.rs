//! The tools the suite calls, as tools of our registry.

use plantbridge::mcp::{ErrorCode, Hints, Spec, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::offered::{PIXEL, SILENCE};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What a tool shows, in the protocol's own form.
#[derive(Serialize, JsonSchema)]
struct Shown {
    content: Vec<Json>,
}

/// Those that show something, and those of which all is in `main.rs` and `asking.rs`.
const TOOLS: [&str; 20] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_missing_capability",
    "test_logging_tool",
    "test_streaming_elicitation",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

pub(crate) fn all() -> Vec<Tool> {
    TOOLS.into_iter().map(tool).collect()
}

fn tool(name: &'static str) -> Tool {
    let spec = Spec {
        name,
        title: name,
        description: format!("{name}, as the conformance suite describes it.").into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[],
    };
    Tool::new(spec, move |_plant, _arguments: Nothing, _context| async move {
        if name == "test_error_handling" {
            let why = "This tool intentionally returns an error for testing";
            return Err(ToolError::new(ErrorCode::DeadlineExceeded, why));
        }
        Ok(Shown { content: content(name) })
    })
}

fn content(tool: &str) -> Vec<Json> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = || json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
    let resource = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    match tool {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![image()],
        "test_audio_content" => vec![json!({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"})],
        "test_embedded_resource" => {
            vec![resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            text("Multiple content types test:"),
            image(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        _ => vec![text("done")],
    }
}
