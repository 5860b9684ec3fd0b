//! What the tools about scripts have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{moment, named};
use crate::{
    mcp::{CallContext, Source},
    plant::{At, Plant, Principal},
    script::{Language, Packager, RunEnd},
};

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
