//! The shape: a short text that is equal for equal surfaces and changes when a surface does (semantics 2.3).
//!
//! Peers compare shapes for equality only, so ours may cover more than the reference does: named types are in it (S-028),
//! as a further JSON list behind the reference's text. Without named types both are the same.

use super::Surface;
use super::surface::{ServedNamespace, insert_text, write_promises};
use super::text::{by_code_unit, write_json, write_json_list, write_json_text};
use crate::wire::{Map, Value};

/// The shape of a surface, as presence announces it: 16 lower-case hex digits.
pub fn shape(surface: &Surface) -> String {
    let mut text = projection(surface);
    if !surface.types.is_empty() {
        let mut types: Vec<(&str, &Value)> = surface.types.iter().collect();
        types.sort_by(|left, right| by_code_unit(left.0, right.0));
        write_json_list(&mut text, types.into_iter(), |out, (name, node)| {
            write_json_text(out, name);
            out.push(':');
            write_json(out, node);
        });
    }
    hash(&text)
}

/// The text the reference hashes: what is served, sorted by code unit, without named types, counts and undeclared events.
pub fn projection(surface: &Surface) -> String {
    let own = surface.own();
    let namespaces = surface.sorted_namespaces(own.as_ref().map(|(namespace, _)| namespace));
    let mut out = String::new();
    write_json_list(&mut out, namespaces.into_iter(), |out, namespace| {
        write_json(out, &project_namespace(surface, namespace));
    });
    out
}

/// FNV-1a 64, one round per UTF-16 code unit, as 16 lower-case hex digits.
pub fn hash(text: &str) -> String {
    let round = |hash: u64, unit: u16| (hash ^ u64::from(unit)).wrapping_mul(FNV_PRIME);
    format!("{:016x}", text.encode_utf16().fold(FNV_OFFSET, round))
}

fn project_namespace(surface: &Surface, namespace: &ServedNamespace) -> Value {
    let mut out = Map::new();
    out.insert("name", namespace.name.as_str());
    insert_text(&mut out, "version", namespace.version.as_deref());
    out.insert("className", namespace.class_name.as_str());
    let methods = namespace.sorted_methods().into_iter().map(|method| {
        let mut out = Map::new();
        out.insert("name", method.name.as_str());
        if let Some(entry) = &method.entry {
            out.insert("signature", Value::clone(entry));
        }
        write_promises(&mut out, surface, method);
        Value::Map(out)
    });
    out.insert("methods", methods.collect::<Vec<Value>>());
    let declared = namespace.sorted_events().into_iter().filter(|event| event.entry.is_some());
    out.insert("events", declared.map(|event| Value::from(event.name.as_str())).collect::<Vec<Value>>());
    if !namespace.capabilities.is_empty() {
        let mut names: Vec<&str> = namespace.capabilities.iter().map(String::as_str).collect();
        names.sort_by(|left, right| by_code_unit(left, right));
        out.insert("capabilities", names.into_iter().map(Value::from).collect::<Vec<Value>>());
    }
    if let Some(component) = &namespace.component {
        let undeclared = || Value::Map(Map::new());
        out.insert("component", component.entry.as_deref().cloned().unwrap_or_else(undeclared));
    }
    Value::Map(out)
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Event;
    use crate::contract::testing::{json, surfaces, value, vectors};

    /// S-027: every recorded text hashes as recorded, and every recorded surface projects to its text.
    #[test]
    fn s027_every_recorded_shape() {
        let file = vectors(include_str!("../../tests/vectors/sem-shape-hash.json"));
        let cases = file["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 11);
        let mut known = surfaces();
        known.insert("bare peer without introspection or exposure", Surface::default());
        let mut projected = 0;
        for case in cases {
            let (name, text) = (case["name"].as_str().unwrap(), case["text"].as_str().unwrap());
            assert_eq!(hash(text), case["hash"].as_str().unwrap());
            if name != "hash only" {
                let surface = known.get(name).unwrap_or_else(|| panic!("no surface for {name}"));
                assert_eq!(projection(surface), text, "{name}");
                projected += 1;
            }
        }
        assert_eq!(projected, 4);
        assert_eq!(shape(&known["component"]), file["presence"]["component"].as_str().unwrap());
        assert_eq!(file["presence"]["component"], file["presence"]["computed"]);
    }

    /// S-027: the hashes recorded with presence, and the shape of a peer that serves nothing.
    #[test]
    fn s027_hashes_recorded_with_presence() {
        let file = vectors(include_str!("../../tests/vectors/presence.json"));
        let cases = file["shapeHash"]["vectors"].as_array().unwrap();
        assert_eq!(cases.len(), 4);
        for case in cases {
            assert_eq!(hash(case["text"].as_str().unwrap()), case["hash"].as_str().unwrap());
        }
        assert_eq!(shape(&Surface::default()), file["emptySurfaceShape"].as_str().unwrap());
    }

    /// S-027: subscribers and undeclared events do not move the shape.
    #[test]
    fn s027_subscribing_does_not_move_the_shape() {
        let mut surface = surfaces().remove("component").unwrap();
        let before = shape(&surface);
        let oven = &mut surface.namespaces[0];
        oven.events[0].subscribers = 3;
        oven.component.as_mut().unwrap().subscribers = 1;
        oven.events.push(Event { name: "x".to_owned(), subscribers: 1, ..Event::default() });
        assert_eq!(shape(&surface), before);
    }

    /// S-028: a change inside a named type moves our shape, where it leaves the reference's alone; their order does not.
    #[test]
    fn s028_named_types_move_the_shape() {
        let surface = surfaces().remove("described").unwrap();
        let with = |types: &str| {
            let types = value(&json(types)).as_map().unwrap().clone().into();
            Surface { types, ..surface.clone() }
        };
        let (number, text) = (with(r#"{"R":{"kind":"number"}}"#), with(r#"{"R":{"kind":"string"}}"#));
        assert_eq!(projection(&number), projection(&text));
        assert_ne!(shape(&number), shape(&text));
        let (one, two) =
            (with(r#"{"A":{"kind":"any"},"B":{"kind":"date"}}"#), with(r#"{"B":{"kind":"date"},"A":{"kind":"any"}}"#));
        assert_eq!(shape(&one), shape(&two));
    }

    /// S-024: a host that refuses path writes neither describes nor announces them.
    #[test]
    fn s024_withheld_sets_are_not_in_the_shape() {
        let open = surfaces().remove("generic").unwrap();
        let closed = Surface { path_writes: false, ..open.clone() };
        assert!(projection(&open).contains("\"sets\":\"*\""));
        assert!(!projection(&closed).contains("\"sets\":\"*\""));
    }
}
