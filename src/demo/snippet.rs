//! What to paste where, so that an ordinary MCP client comes to the demo's plant.

use serde_json::{Value as Json, json};

/// How to attach a client to the broker at `broker_url` with the program at `binary`: words, and a JSON block for each
/// kind of client.
pub fn snippet(binary: &str, broker_url: &str) -> String {
    let (desktop, editor) = (desktop(binary, broker_url), editor(binary, broker_url));
    format!(
        "Claude Desktop (claude_desktop_config.json), Cursor (.cursor/mcp.json) and most others:\n\n{desktop:#}\n\n\
         VS Code (.vscode/mcp.json):\n\n{editor:#}\n\n\
         Any other client starts this and speaks MCP over its pipes:\n\n    {}\n",
        command_line(binary, broker_url)
    )
}

fn desktop(binary: &str, broker_url: &str) -> Json {
    json!({"mcpServers": {"plantbridge": {"command": binary, "args": arguments(broker_url)}}})
}

fn editor(binary: &str, broker_url: &str) -> Json {
    json!({"servers": {"plantbridge": {"type": "stdio", "command": binary, "args": arguments(broker_url)}}})
}

fn arguments(broker_url: &str) -> [&str; 3] {
    ["mcp", "--broker", broker_url]
}

/// As typed into a shell; quoted where the path needs it.
fn command_line(binary: &str, broker_url: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:\\".contains(c);
    let binary = if binary.chars().all(plain) { binary.to_owned() } else { format!("\"{binary}\"") };
    format!("{binary} {}", arguments(broker_url).join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "mqtt://127.0.0.1:40001";

    /// The JSON blocks of the text, as a reader would cut them out.
    fn blocks(text: &str) -> Vec<Json> {
        let mut blocks = Vec::new();
        let mut rest = text;
        while let Some((_, from)) = rest.split_once("\n{\n") {
            let (body, after) = from.split_once("\n}\n").unwrap();
            blocks.push(serde_json::from_str(&format!("{{{body}}}")).unwrap());
            rest = after;
        }
        blocks
    }

    #[test]
    fn what_is_pasted_is_json_and_names_program_and_broker() {
        for binary in ["/usr/local/bin/plantbridge", r"C:\Program Files\plant bridge\plantbridge.exe", "/tmp/a \"b\"/c"]
        {
            let text = snippet(binary, URL);
            let blocks = blocks(&text);
            assert_eq!(blocks.len(), 2, "{text}");
            for (block, key) in blocks.iter().zip(["mcpServers", "servers"]) {
                let server = &block[key]["plantbridge"];
                assert_eq!(server["command"], binary);
                assert_eq!(server["args"], json!(["mcp", "--broker", URL]));
            }
            assert_eq!(blocks[1]["servers"]["plantbridge"]["type"], "stdio");
        }
    }

    #[test]
    fn a_path_with_blanks_is_quoted_where_it_is_typed() {
        assert!(
            snippet("/opt/plantbridge", URL).contains("    /opt/plantbridge mcp --broker mqtt://127.0.0.1:40001\n")
        );
        assert!(snippet("/my files/plantbridge", URL).contains("    \"/my files/plantbridge\" mcp --broker"));
    }
}
