//! `$data`: the maps in the props and the state of a component, read as collections (semantics.md 9.1).

use super::{Server, authority::Refusal};
use crate::{
    contract::data::{Page, Request, rows_at},
    wire::{Map, Value},
};

impl Server {
    /// Answers from the component as it stands. What is no map in it is an empty collection.
    pub(super) fn data(&self, namespace: &str, args: &[Value]) -> Result<Value, Refusal> {
        let component = self.namespaces.get(namespace).and_then(|served| served.component.as_ref());
        let Some(component) = component else {
            let text = format!("{namespace} is not an observable component, so it serves no data");
            return Err(("ClassNotFound", text));
        };
        let request = Request::parse(args).map_err(|text| ("InvalidParams", text))?;
        let nothing = Map::new();
        let rows = rows_at(&component.parts(), &request.resource).unwrap_or(&nothing);
        let Page { rows, whole } = request.answer(rows);
        let mut answer = Map::new();
        answer.insert("ids", rows.iter().map(|(id, _)| Value::from(*id)).collect::<Vec<_>>());
        answer.insert("data", rows.iter().map(|(_, row)| (*row).clone()).collect::<Vec<_>>());
        if let Some((total, more)) = whole {
            answer.insert("total", i64::try_from(total).unwrap_or(i64::MAX));
            answer.insert("hasMore", more);
        }
        let (epoch, revision) = component.version();
        answer.insert("epoch", epoch);
        answer.insert("revision", revision);
        // Nothing here reads a clock; what is answered at once took no time worth telling.
        answer.insert("ms", 0);
        Ok(answer.into())
    }
}
