//! The contracts of this repository: valid, documented, compatible with themselves and with nothing that breaks a caller.

use std::{fs, path::Path};

use plantbridge::{
    contract::{
        Contract,
        compat::{self, CompatibilityVerdict},
        written,
    },
    plant::ContractName,
    wire::json::from_json,
};
use serde_json::{Value as Json, json};

/// Every contract there is, by the name it could be kept under.
fn contracts() -> Vec<(String, String, Json)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts");
    let mut found: Vec<(String, String, Json)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let file = entry.file_name().into_string().unwrap();
            let name = file.strip_suffix(".types.json").unwrap_or_else(|| panic!("{file} is no contract")).to_owned();
            let text = fs::read_to_string(entry.path()).unwrap();
            let json = serde_json::from_str(&text).unwrap();
            (name, text, json)
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 5, "the contracts were not found");
    found
}

fn read(json: &Json) -> Contract {
    Contract::parse_to_serve(&from_json(json.clone())).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The folder can be given as --contracts: each file has a usable name, is valid, and is written as it would be saved.
#[test]
fn every_contract_is_valid_and_written_as_contracts_are() {
    for (name, text, json) in contracts() {
        assert_eq!(ContractName::parse(&name).unwrap().file(), format!("{name}.types.json"));
        assert_eq!(written::to_text(&from_json(json.clone())), text, "{name}");
        read(&json);
    }
}

/// Each is compatible with itself, and differs from itself in nothing.
#[test]
fn every_contract_is_compatible_with_itself() {
    for (name, _, json) in contracts() {
        let contract = read(&json);
        let report = compat::compare(&contract, &contract);
        assert_eq!(report.verdict(), CompatibilityVerdict::Compatible, "{name}: {report:?}");
        assert_eq!(report.checked.len(), json["namespaces"].as_object().unwrap().len());
        assert_eq!(compat::differences(&contract, &contract), Vec::new(), "{name}");
    }
}

/// Three that read differently say what they are about: every namespace, method and event is described, numbers have units
/// or are counts, and each has components, rows, events, and methods that answer later.
#[test]
fn the_samples_are_documented_and_of_many_kinds() {
    let samples = ["boiler", "conveyor-cell", "pump-skid"];
    for (name, _, json) in contracts().into_iter().filter(|(name, ..)| samples.contains(&name.as_str())) {
        let described = |entry: &Json| entry["description"].as_str().is_some_and(|text| text.len() > 10);
        assert!(described(&json), "{name}");
        let contract = read(&json);
        for (namespace, entry) in json["namespaces"].as_object().unwrap() {
            assert!(described(entry), "{name} {namespace}");
            let members = [&entry["methods"], &entry["events"]].into_iter().filter_map(Json::as_object).flatten();
            for (member, entry) in members {
                assert!(described(entry), "{name} {namespace}.{member}");
                let (params, names) = (entry["params"].as_array().unwrap(), entry["paramNames"].as_array().unwrap());
                assert_eq!(params.len(), names.len(), "{name} {namespace}.{member}");
            }
        }
        let methods = || contract.namespaces.iter().flat_map(|namespace| namespace.methods.iter());
        assert!(methods().any(|method| method.deferred.is_some()), "{name}");
        assert!(methods().filter(|method| method.sets.is_some()).count() >= 3, "{name}");
        assert!(methods().all(|method| method.semantics.is_some()), "{name}");
        assert!(
            contract
                .namespaces
                .iter()
                .any(|namespace| namespace.name.rsplit_once('.').is_some_and(|(_, half)| half == "write")),
            "{name}"
        );
        assert!(contract.namespaces.iter().filter(|namespace| namespace.component.is_some()).count() >= 2, "{name}");
        assert!(contract.namespaces.iter().any(|namespace| namespace.events.len() >= 2), "{name}");
    }
}

/// What one change to a contract is, and whether a caller built against the contract notices.
type Change = fn(&mut Json) -> bool;

/// A parameter nothing fits any more.
fn narrow(node: &mut Json) -> bool {
    *node = json!({"kind": "literal", "value": "\u{0} nobody sends this"});
    true
}

/// A type that is anything now.
fn widen(node: &mut Json) -> bool {
    let before = std::mem::replace(node, json!({"kind": "any"}));
    before["kind"] != "any"
}

fn drop_word(node: &mut Json) -> bool {
    let told = matches!(node.as_str(), Some("query" | "idempotent-command"));
    *node = Json::Null;
    told
}

fn raise(node: &mut Json) -> bool {
    let before = std::mem::replace(node, json!("security-admin"));
    before != "security-admin"
}

/// Every place of a contract that can be changed, with the change that breaks a caller there.
fn places(json: &Json) -> Vec<(String, Change)> {
    let mut places: Vec<(String, Change)> = Vec::new();
    let remove: Change = |node| {
        *node = json!("removed");
        true
    };
    let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
    for (namespace, entry) in json["namespaces"].as_object().unwrap() {
        let base = format!("/namespaces/{}", escape(namespace));
        places.push((base.clone(), remove));
        for (method, entry) in entry["methods"].as_object().unwrap() {
            let base = format!("{base}/methods/{}", escape(method));
            places.push((base.clone(), remove));
            for at in 0..entry["params"].as_array().unwrap().len() {
                places.push((format!("{base}/params/{at}"), narrow));
            }
            let parts: [(&str, Change); 5] = [
                ("returns", widen),
                ("semantics", drop_word),
                ("effect", raise),
                ("sets", remove),
                ("deferred/result", widen),
            ];
            for (part, change) in parts {
                let there = entry.pointer(&format!("/{part}")).is_some();
                // A receipt is told apart from other results when the contract is read.
                if there && !(part == "returns" && entry.get("deferred").is_some()) {
                    places.push((format!("{base}/{part}"), change));
                }
            }
        }
        for (event, entry) in entry["events"].as_object().into_iter().flatten() {
            let base = format!("{base}/events/{}", escape(event));
            places.push((base.clone(), remove));
            for at in 0..entry["params"].as_array().unwrap().len() {
                places.push((format!("{base}/params/{at}"), widen));
            }
        }
        for at in 0..entry["capabilities"].as_array().map_or(0, Vec::len) {
            places.push((format!("{base}/capabilities/{at}"), remove));
        }
        if entry.get("component").is_some() {
            places.push((format!("{base}/component"), remove));
            for part in ["props", "state"] {
                places.push((format!("{base}/component/{part}"), widen));
            }
        }
    }
    places
}

/// Takes out what was marked as removed.
fn without_removed(json: &mut Json) {
    match json {
        Json::Object(members) => {
            members.retain(|_, member| *member != "removed");
            members.values_mut().for_each(without_removed);
        }
        Json::Array(items) => {
            items.retain(|item| *item != "removed");
            items.iter_mut().for_each(without_removed);
        }
        _ => {}
    }
}

/// A change at any one place of any contract that breaks a caller is found, by its place; the way back breaks nobody who
/// was built against what is left, unless it says so.
#[test]
fn every_breaking_change_of_every_contract_is_found() {
    let mut changes = 0;
    for (name, _, json) in contracts() {
        let stored = read(&json);
        for (place, change) in places(&json) {
            let mut changed = json.clone();
            if !change(changed.pointer_mut(&place).unwrap()) {
                continue;
            }
            without_removed(&mut changed);
            let current =
                Contract::parse(&from_json(changed)).unwrap_or_else(|problems| panic!("{place}: {problems:?}"));
            let report = compat::compare(&stored, &current);
            assert!(report.breaking() > 0, "{name}: nothing was found wrong with {place}");
            assert!(!compat::differences(&stored, &current).is_empty(), "{name}: no difference at {place}");
            changes += 1;
        }
    }
    assert!(changes > 300, "{changes}");
}

/// A bound narrowed inside any named type that a caller sends, or widened inside any that he is given, is found.
#[test]
fn every_bound_of_every_named_type_counts() {
    let mut bounds = 0;
    for (name, _, json) in contracts() {
        let stored = read(&json);
        let types = json["types"].as_object().unwrap();
        for (named, node) in types.iter().filter(|(_, node)| node["max"].is_number()) {
            for factor in [0.5, 2.0] {
                let mut changed = json.clone();
                changed["types"][named]["max"] = json!(node["max"].as_f64().unwrap() * factor);
                let current = Contract::parse(&from_json(changed)).unwrap();
                let report = compat::compare(&stored, &current);
                let back = compat::compare(&current, &stored);
                assert!(report.breaking() + back.breaking() > 0, "{name}: {named} by {factor}");
                let pointers = report.problems.iter().chain(&back.problems).map(|problem| problem.pointer.as_str());
                assert!(pointers.clone().all(|pointer| pointer == format!("/types/{named}")), "{name}: {named}");
                bounds += 1;
            }
        }
    }
    assert!(bounds >= 20, "{bounds}");
}
