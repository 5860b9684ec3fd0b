//! What the tools about scripts have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{few, moment, named};
use crate::{
    mcp::{CallContext, Source, ToolError},
    plant::{At, Plant, Principal},
    script::{Language, Packager, RunEnd, Wanted},
};

// What a tool is given that needs a script and no more. No documentation of its own: that would stand in the schema.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptArgs {
    /// Its name: letters, digits, dots, dashes, underscores. A name, not a path, and without its ending.
    #[schemars(length(min = 1, max = 64))]
    pub(super) name: String,
    /// The node whose scripts are meant, if not this bridge's own: it must have named this bridge in --scriptable-by.
    #[schemars(length(min = 1, max = 128))]
    pub(super) node: Option<String>,
}

/// Where a tool about scripts acts, and for whom.
#[derive(Debug)]
pub(super) struct Who {
    principal: Principal,
    node: Option<String>,
    context: CallContext,
}

impl Who {
    pub(super) fn new(context: &CallContext, node: Option<String>) -> Self {
        Self { principal: super::principal(context), node, context: context.clone() }
    }

    pub(super) fn at(&self) -> At<'_> {
        At { node: self.node.as_deref(), principal: &self.principal, stop: &self.context.cancel }
    }

    /// Where its words come from.
    pub(super) fn source(&self, plant: &Plant) -> Source {
        match self.other(plant) {
            Some(node) => Source::live(node),
            None => Source::bridge(),
        }
    }

    /// The other node, if one is meant.
    pub(super) fn other(&self, plant: &Plant) -> Option<String> {
        self.node.clone().filter(|node| node != plant.name().as_str())
    }
}

/// What a script is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum LanguageArgument {
    /// TypeScript.
    #[default]
    Ts,
    /// JavaScript.
    Mjs,
    /// Python.
    Py,
}

impl From<LanguageArgument> for Language {
    fn from(argument: LanguageArgument) -> Self {
        match argument {
            LanguageArgument::Ts => Self::Ts,
            LanguageArgument::Mjs => Self::Mjs,
            LanguageArgument::Py => Self::Py,
        }
    }
}

/// Whose packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ManagerArgument {
    /// Those of TypeScript and JavaScript.
    #[default]
    Npm,
    /// Those of Python.
    Pip,
}

impl From<ManagerArgument> for Packager {
    fn from(argument: ManagerArgument) -> Self {
        match argument {
            ManagerArgument::Npm => Self::Npm,
            ManagerArgument::Pip => Self::Pip,
        }
    }
}

/// How a run ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EndShown {
    /// Its exit code; null if it had none.
    code: Option<i32>,
    /// The signal that ended it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// What else is to be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<RunEnd> for EndShown {
    fn from(end: RunEnd) -> Self {
        let RunEnd { code, signal, at, note } = end;
        Self { code, signal, at: (at > 0).then(|| moment(at)), note: note.map(|note| named(&note)) }
    }
}

// What became of the packages of scripts; without documentation of its own for the same reason.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PackagesAnswer {
    /// What was asked for.
    package: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    manager: String,
    /// What the package manager wrote, its end if that is long.
    output: String,
    /// What is to be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    source: Source,
}

/// Installs or removes a package, and tells a client that waits what goes on.
pub(super) async fn change_packages(
    plant: &Plant,
    context: &CallContext,
    node: Option<String>,
    wanted: Wanted,
    adds: bool,
) -> Result<PackagesAnswer, ToolError> {
    let who = Who::new(context, node);
    let progress = context.progress.clone();
    let changed = plant.change_packages(&who.at(), &wanted, adds, |line: &str| progress.note(line)).await?;
    Ok(PackagesAnswer {
        package: wanted.spec,
        node: who.other(plant),
        manager: wanted.manager.as_str().to_owned(),
        output: changed.output,
        notes: few(&changed.notes),
        source: who.source(plant),
    })
}
