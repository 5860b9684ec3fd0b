//! What could not be done with a contract or a script, or with the fake that is made of them, as the error object: the part
//! of `refusal` that is about documents.

use serde_json::{Value as Json, json};

use super::{ErrorCode, Outcome, ToolError, refusal::LINK_RETRY};
use crate::{contract::Problem, plant::PlantError};

/// What has to do with contracts and their files. Nothing was changed, in the plant or on the disk.
pub(super) fn of_contracts(error: PlantError, message: String) -> ToolError {
    match error {
        PlantError::UnknownContract { alternatives, .. } => {
            ToolError::new(ErrorCode::UnknownContract, message).alternatives(alternatives).fix("call list_contracts {}")
        }
        PlantError::InvalidContract { problems, .. } => {
            ToolError::new(ErrorCode::InvalidContract, message).detail("problems", pointed(&problems))
        }
        PlantError::ContractChanged { name, now } => {
            let fix = match &now {
                Some(_) => format!(
                    "look at it with read_contract {}, then give what is there now as expect_sha256 if it is to go",
                    json!({ "name": name })
                ),
                None => "save it without expect_sha256".to_owned(),
            };
            let error = ToolError::new(ErrorCode::CannotWrite, message)
                .cause("what was expected of the file does not hold")
                .fix(fix);
            now.into_iter().fold(error, |error, now| error.detail("sha256", now))
        }
        PlantError::CannotWrite { .. } => ToolError::new(ErrorCode::CannotWrite, message)
            .fix("if it is not the name, ask a person to look at the directory the bridge was given with --contracts"),
        PlantError::NoContracts => ToolError::new(ErrorCode::CannotRead, message)
            .cause("the bridge was started without --contracts")
            .fix("ask a person to start the bridge with --contracts, or give the contract itself"),
        _ => ToolError::new(ErrorCode::CannotRead, message),
    }
    .outcome(Outcome::NotRun)
}

pub(super) fn of_fakes(error: PlantError, message: String) -> ToolError {
    match error {
        PlantError::InvalidScript { problems } => {
            ToolError::new(ErrorCode::InvalidScript, message).detail("problems", pointed(&problems))
        }
        PlantError::ExecDisabled { uses } => ToolError::new(ErrorCode::ExecDisabled, message)
            .cause("handlers and python are code, and this bridge runs no code that a script brings along")
            .fix(
                "leave them out (returns, fails, emits, rows and state need no code), or ask a person to start the bridge \
                 with --allow-exec and --development",
            )
            .detail("uses", uses),
        PlantError::FakeFailed { lasts: true, .. } => ToolError::new(ErrorCode::FakeFailed, message)
            .fix("starting it again does not help: have a person change what the message names")
            .lasting(),
        PlantError::FakeFailed { .. } => ToolError::new(ErrorCode::FakeFailed, message).retry_after(LINK_RETRY),
        PlantError::UnknownFake { alternatives, .. } => {
            ToolError::new(ErrorCode::UnknownFake, message).alternatives(alternatives)
        }
        _ => ToolError::new(ErrorCode::NameInUse, message),
    }
    .outcome(Outcome::NotRun)
}

/// What is wrong with a document, and where in it.
fn pointed(problems: &[Problem]) -> Vec<Json> {
    problems.iter().map(|problem| json!({"pointer": problem.pointer, "problem": problem.what})).collect()
}
