//! Paths of a watch that its component does not declare.

use super::{Plant, WatchTarget, undeclared::leaves};
use crate::node::Stream;

impl Plant {
    /// The paths that leave what the component declares of its state, each with the members that are there. They are watched
    /// all the same: a component may hold more than it declares. Only a peer that announces a shape is asked.
    pub(super) async fn lacking(&self, stream: &Stream, target: &WatchTarget) -> Vec<(String, Vec<String>)> {
        let WatchTarget::State(paths) = target else { return Vec::new() };
        let announces = self.node().network().roster.get(&stream.peer).is_some_and(|seen| seen.shape.is_some());
        if paths.is_empty() || !announces {
            return Vec::new();
        }
        let Ok(Some(description)) = self.description_if_any(&stream.peer).await else { return Vec::new() };
        let component = description.namespace(&stream.namespace).and_then(|known| known.component.as_ref());
        let Some(state) = component.and_then(|component| component.state.as_ref()) else { return Vec::new() };
        let lacking =
            paths.iter().filter_map(|path| Some((path.to_string(), leaves(state, path, &description.types)?)));
        lacking.collect()
    }
}
