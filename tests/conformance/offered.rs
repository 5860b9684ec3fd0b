//! The prompts and resources the suite reads.

use serde_json::{Value as Json, json};

/// A red pixel, as a PNG.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// No sound, as a WAV.
pub(crate) const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// What an argument is completed with.
pub(crate) const WORDS: [&str; 3] = ["test", "testing", "paris"];

pub(crate) fn prompts() -> Json {
    let argument = |name: &str| json!({"name": name, "description": "an argument", "required": true});
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Json> = arguments.iter().map(|name| argument(name)).collect();
        json!({"name": name, "description": "as the suite describes it", "arguments": arguments})
    };
    json!({"prompts": [
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ]})
}

fn messages(contents: &[Json]) -> Json {
    let messages: Vec<Json> = contents.iter().map(|content| json!({"role": "user", "content": content})).collect();
    json!({"messages": messages})
}

/// A prompt that says this.
pub(crate) fn said(text: &str) -> Json {
    messages(&[json!({"type": "text", "text": text})])
}

pub(crate) fn prompt(name: &str, arguments: &Json) -> Option<Json> {
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
    let text = |text: &str| json!({"type": "text", "text": text});
    Some(match name {
        "test_simple_prompt" => said("This is a simple prompt for testing."),
        "test_prompt_with_arguments" => {
            said(&format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2")))
        }
        "test_prompt_with_embedded_resource" => messages(&[
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above."),
        ]),
        "test_prompt_with_image" => messages(&[
            json!({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ]),
        _ => return None,
    })
}

pub(crate) fn resources() -> Json {
    json!({"resources": [
        {"uri": "test://static-text", "name": "text", "description": "static text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "binary", "description": "a picture", "mimeType": "image/png"},
    ]})
}

pub(crate) fn templates() -> Json {
    json!({"resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "data",
        "description": "data of an id",
        "mimeType": "application/json",
    }]})
}

pub(crate) fn read(uri: &str) -> Option<Json> {
    let content = match uri {
        "test://static-text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PIXEL}),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
            json!({"uri": uri, "mimeType": "application/json", "text": text})
        }
    };
    Some(json!({"contents": [content]}))
}
