//! What a model has to tell: that its state changed, and what happened.

use crate::wire::Value;

/// What was not told yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    changed: bool,
    events: Vec<Event>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its name in the contract.
    pub(crate) name: &'static str,
    /// Its arguments.
    pub(crate) args: Vec<Value>,
}

impl News {
    /// The state is not what was told last.
    pub(crate) const fn changed(&mut self) {
        self.changed = true;
    }

    /// Something happened.
    pub(crate) fn event(&mut self, name: &'static str, args: Vec<Value>) {
        self.events.push(Event { name, args });
    }

    /// Whether the state changed, and what happened, oldest first; both are forgotten.
    pub(crate) fn take(&mut self) -> (bool, Vec<Event>) {
        (std::mem::take(&mut self.changed), std::mem::take(&mut self.events))
    }
}
