//! A page of one resource, through `$data` of the read half. It carries no stamps: to change a row, it is read first.

use super::{Half, Plant, PlantError, Principal, Store, odd};
use crate::{
    contract::{
        Description, Segments, TypeNode,
        data::{List, Request, Verb, resources},
        path,
    },
    wire::{PeerName, Value},
};

/// A page somebody wants to see.
#[derive(Clone, Debug)]
pub struct ListRows {
    /// Of which store.
    pub store: Store,
    /// Of which resource.
    pub resource: Resource,
    /// Which rows.
    pub list: List,
}

/// How a resource is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// By a word: its name, or a path into the component such as `state.tags`.
    Named(String),
    /// By its path.
    Path(Vec<String>),
}

/// A page of rows as the peer gave it.
#[derive(Clone, Debug)]
pub struct RowPage {
    /// Who answered.
    pub peer: PeerName,
    /// The read half.
    pub namespace: String,
    /// The path that was asked for.
    pub resource: Vec<String>,
    /// Whether the peer declares which resources it has: one that does refuses those it has not, another shows an empty
    /// list.
    pub declared: bool,
    /// The keys, text whatever their kind is, and the rows.
    pub rows: Vec<(String, Value)>,
    /// How many there are in all; `None` is unknown (S-102).
    pub total: Option<u64>,
    /// Whether more follow, if the peer says so.
    pub more: Option<bool>,
    /// Whether it is a fake.
    pub fake: bool,
}

impl Plant {
    /// Reads a page of one resource.
    pub async fn list_rows(&self, principal: &Principal, request: ListRows) -> Result<RowPage, PlantError> {
        let ListRows { store, resource, list } = request;
        let found = self.half(&store, Half::Read).await?;
        let description = found.description.clone();
        let declared =
            description.as_deref().map(|description| declared(description, &found.namespace)).unwrap_or_default();
        let resource = resource.path(&declared, description.as_deref(), &found.namespace);
        let args = Request { resource: resource.clone(), verb: Verb::List(list) }.to_args();
        let mut called =
            self.ask_store(principal, &store, found, "$data", args).await.map_err(|error| match error {
                PlantError::NoStore { peer, namespace, .. } => {
                    let components = description.iter().flat_map(|description| &description.namespaces);
                    let components = components.filter(|known| known.component.is_some());
                    let alternatives = components.map(|known| known.name.clone()).collect();
                    PlantError::NotAComponent { peer, namespace, alternatives }
                }
                other => other,
            })?;
        let Some(Value::Map(mut answer)) = called.value.take() else { return Err(odd(&called, EXPECTED, false)) };
        let total = answer.get("total").and_then(Value::as_i64).and_then(|total| u64::try_from(total).ok());
        let more = answer.get("hasMore").and_then(Value::as_bool);
        let (Some(Value::Array(ids)), Some(Value::Array(data))) = (answer.remove("ids"), answer.remove("data")) else {
            return Err(odd(&called, EXPECTED, false));
        };
        let ids: Option<Vec<String>> = ids.iter().map(|id| id.as_str().map(str::to_owned)).collect();
        let Some(ids) = ids.filter(|ids| ids.len() == data.len()) else { return Err(odd(&called, EXPECTED, false)) };
        Ok(RowPage {
            peer: called.target.peer,
            namespace: called.target.namespace,
            resource,
            declared: !declared.is_empty(),
            rows: ids.into_iter().zip(data).collect(),
            total,
            more,
            fake: called.fake,
        })
    }
}

const EXPECTED: &str = "{ids: texts, data: as many rows}";

/// The paths of the resources a namespace declares.
fn declared(description: &Description, namespace: &str) -> Vec<Vec<String>> {
    let component = description.namespace(namespace).and_then(|namespace| namespace.component.as_ref());
    component.map(resources).unwrap_or_default()
}

impl Resource {
    /// The path that is asked for. A word is the declared resource of that name; else a path that begins in the component;
    /// else a map of the component's state; else itself.
    fn path(self, declared: &[Vec<String>], description: Option<&Description>, namespace: &str) -> Vec<String> {
        let word = match self {
            Self::Path(path) => return path,
            Self::Named(word) => word,
        };
        if let Some(path) = declared.iter().find(|path| path.join(".") == word) {
            return path.clone();
        }
        if ["state.", "props.", "/"].iter().any(|root| word.starts_with(root))
            && let Ok(segments) = Segments::parse(&word)
        {
            return segments.as_slice().to_vec();
        }
        let of_state = || {
            let description = description?;
            let state = description.namespace(namespace)?.component.as_ref()?.state.as_ref()?;
            let at = Segments::from_list(vec![word.clone()]).ok()?;
            let node = path::type_at(state, &at, &description.types);
            // A state that is a record has any member; that a word names one of them is not said.
            node.filter(|_| !matches!(state, TypeNode::Record { .. }))
        };
        if declared.is_empty() && of_state().is_some() {
            return vec!["state".into(), word];
        }
        vec![word]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::from_json;

    fn path(word: &str, namespace: &str) -> Vec<String> {
        let description = serde_json::json!({"namespaces": [
            {"name": "sql", "component": {"resources": [{"path": ["pupils"]}, {"path": ["a", "b"]}, {"path": [1]}]}},
            {"name": "shop", "component": {"state": {"kind": "object", "fields": {
                "orders": {"type": {"kind": "record", "values": {"kind": "any"}}}}}}}]});
        let description = Description::parse(&from_json(description)).unwrap();
        let declared = declared(&description, namespace);
        Resource::Named(word.into()).path(&declared, Some(&description), namespace)
    }

    #[test]
    fn a_word_names_what_is_declared_before_what_it_could_be_a_path_to() {
        assert_eq!(path("pupils", "sql"), ["pupils"]);
        assert_eq!(path("a.b", "sql"), ["a", "b"]);
        assert_eq!(path("orders", "sql"), ["orders"]);
        assert_eq!(path("orders", "shop"), ["state", "orders"]);
        assert_eq!(path("state.orders", "shop"), ["state", "orders"]);
        assert_eq!(path("/state/a.b~1c", "shop"), ["state", "a.b/c"]);
        assert_eq!(path("other", "shop"), ["other"]);
        let given = Resource::Path(vec!["a.b".into()]);
        assert_eq!(given.path(&[], None, "shop"), ["a.b"]);
    }
}
