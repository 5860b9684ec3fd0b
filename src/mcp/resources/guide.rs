//! What a model may want to read before it begins, made of what is there for its client.

use std::fmt::Write as _;

use super::list::FIXED;
use crate::mcp::server::Session;

impl Session {
    /// `plant://guide`.
    pub(super) fn guide(&self) -> String {
        let mut out = String::from("# A plant, through plantbridge\n\n");
        out.push_str(self.info().instructions.as_deref().unwrap_or_default());
        out.push_str("\n\n## Outcomes\n\n");
        out.push_str(OUTCOMES);
        out.push_str("\n\n## Tools\n\n");
        for tool in self.front.registry.available_for(self.read_only) {
            let _ = writeln!(out, "* `{}`: {}", tool.spec().name, tool.spec().title);
        }
        out.push_str("\n## Resources\n\n");
        for fixed in &FIXED {
            let _ = writeln!(out, "* `{}`: {}", fixed.uri, fixed.title);
        }
        for template in self.templates() {
            let _ = writeln!(out, "* `{}`: {}", template.uri, template.title);
        }
        let prompts = self.prompts();
        if !prompts.is_empty() {
            out.push_str("\n## Prompts\n\n");
        }
        for prompt in prompts {
            let _ = writeln!(out, "* `{}`: {}", prompt.name, prompt.description.unwrap_or_default());
        }
        out
    }
}

const OUTCOMES: &str = "A failure is a result with `error: {code, message, cause, fix, retryable, outcome?}`. `fix` is the next \
                        step. `outcome` says what may be concluded of a command: `not_run`, `ran`, or `unknown`, which means \
                        that it may have run; then make the read in `settle_with`, and never send it again blindly. Nothing is \
                        retried by the bridge. Of what was watched, only the verdict gapless means that nothing was missed.";
