//! Contract documents and descriptions of peers: as written, and as what is concluded from them.

use plantbridge::contract::{
    Contract, Description, Method, Problem, Types, compat, rebuild, samples, signature, validate,
};
use plantbridge::contract::{words, written};
use plantbridge::wire::{Value, json};
use serde_json::Value as Json;

use super::{each, vectors};

pub(super) fn run(data: &[u8]) {
    let Ok(document) = json::decode(data) else { return };
    let told = |read: Result<Contract, Vec<Problem>>| read.map_err(|problems| problems_are_told(&problems)).ok();
    let read = told(Contract::parse(&document));
    let compared = told(Contract::parse_to_compare(&document));
    let served = told(Contract::parse_to_serve(&document));
    assert!(served.is_none() || compared.is_some());
    assert!(compared.is_none() || read.is_some());
    if let Some(contract) = &read {
        for method in contract.namespaces.iter().flat_map(|namespace| namespace.methods.iter()) {
            calls(method, &contract.types);
        }
        let written = written::to_text(&document);
        assert_eq!(written::fits(&document, written.len() as u64), Ok(()));
        assert!(written::fits(&document, written.len() as u64 - 1).is_err());
        let kept = json::decode(written.as_bytes()).expect("what is written is read");
        assert_eq!(written::to_text(&kept), written);
        assert!(Contract::parse(&kept).is_ok(), "what is kept cannot be read any more");
    }
    let described = description(&document);
    if let Some(contract) = &compared {
        let with_itself = compat::compare(contract, contract);
        assert_eq!(with_itself.breaking(), 0, "{:?}", with_itself.lines());
        assert!(compat::differences(contract, contract).is_empty());
        if let Some(described) = &described {
            let _ = compat::check(contract, described).lines();
        }
    }
}

/// Whatever the types say, a sample is bounded, and to check it is too; so is what a method is shown as.
fn calls(method: &Method, types: &Types) {
    let params = method.params.as_deref().unwrap_or_default();
    let args: Vec<Value> = params.iter().map(|param| samples::sample(Some(param), types, 0)).collect();
    for fault in [validate::arguments(&args, method, types), validate::arguments(&[], method, types)] {
        if let Err(fault) = fault {
            assert!(!fault.text.is_empty());
        }
    }
    assert!(!signature::line(method).is_empty());
    let _ = words::values(&["1".to_owned(), "text".to_owned()], Some(method), types);
}

fn description(document: &Value) -> Option<Description> {
    let described = match Description::parse(document) {
        Ok(described) => described,
        Err(problem) => {
            problems_are_told(&[problem]);
            return None;
        }
    };
    if !described.problems.is_empty() {
        problems_are_told(&described.problems);
    }
    let rebuilt = rebuild::rebuild(document);
    // What a peer says may be wrong; whoever reads the rebuilt document is told so.
    if let Err(problems) = Contract::parse(&rebuilt.document) {
        problems_are_told(&problems);
    }
    Some(described)
}

fn problems_are_told(problems: &[Problem]) {
    assert!((1..=MOST).contains(&problems.len()), "{} problems", problems.len());
    for problem in problems {
        assert!(!problem.what.is_empty());
        assert!(problem.pointer.is_empty() || problem.pointer.starts_with('/'), "{problem:?}");
    }
}

/// 64, and one that counts the rest.
const MOST: usize = 65;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of_types = |types: &Json| {
        let method = |(at, node): (usize, &Json)| {
            (format!("m{at}"), serde_json::json!({"params": [node], "returns": node, "semantics": "query"}))
        };
        let nodes = each(types, &|part| part.get("type").filter(|node| node.get("kind").is_some()).cloned());
        nodes
            .chunks(8)
            .map(|nodes| {
                let methods: serde_json::Map<String, Json> = nodes.iter().enumerate().map(method).collect();
                let document = serde_json::json!({"schema": 1, "types": types["types"], "namespaces": {"n": {
                    "version": "1", "methods": methods, "events": {"e": {"params": [{"kind": "string"}]}}
                }}});
                document.to_string().into_bytes()
            })
            .collect::<Vec<_>>()
    };
    let mut seeds = of_types(&vectors(include_str!("../../../tests/vectors/sem-validation.json")));
    let example = vectors(include_str!("../../../tests/vectors/sem-example-contract.json"));
    seeds.extend(each(&example, &|part| part.get("namespaces").map(|_| part.to_string().into_bytes())));
    let described = vectors(include_str!("../../../tests/vectors/sem-describe.json"));
    seeds.extend(each(&described, &|part| part.get("namespaces").map(|_| part.to_string().into_bytes())));
    seeds.push(minified(include_str!("../../../contracts/bakery.types.json")));
    seeds.retain(|seed| seed.len() < 12 * 1024);
    seeds
}

fn minified(text: &str) -> Vec<u8> {
    vectors(text).to_string().into_bytes()
}
