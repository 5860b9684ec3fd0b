//! Compatibility against every recorded comparison, and against what it must mean: a pass is never false, and all of it
//! ends in time.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::contract::rebuild::rebuild;
use crate::contract::testing::{value, vectors};
use crate::wire::json::from_json;

fn contract(json: &Json) -> Contract {
    Contract::parse(&value(json)).unwrap_or_else(|problems| panic!("{problems:?} in {json}"))
}

/// A contract of one namespace `n`.
fn of(namespace: &Json, types: &Json) -> Contract {
    contract(&json!({"schema": 1, "types": types, "namespaces": {"n": namespace}}))
}

fn texts(report: &Report) -> Vec<(String, String)> {
    report.problems.iter().map(|problem| (problem.place.clone(), problem.reason.clone())).collect()
}

/// Where the reference calls compatible what breaks a caller, with what we say. Each of the others is as recorded.
///
/// * An open object may hold any key, so it does not fit a closed one; a literal that breaks the length or the pattern of a
///   string does not fit it (R-11).
/// * A name that is not declared accepts nothing, so nothing fits it (S-034), where the reference reads it as `any`.
/// * `sets` is how `set_state` finds its method; without it, or with another, that caller is broken (F-19).
/// * A caller who may send any number of arguments is broken when only so many are taken, and one who listens for an
///   argument when it is not emitted any more.
/// * Each side's names are looked up in its own types (R-02, S-056).
const DEVIATIONS: [(&str, &[(&str, &str)]); 7] = [
    ("param: literal string to constrained string", &[("f argument 0", NARROWED)]),
    ("param: object source additional", &[("f argument 0", NARROWED)]),
    (
        "return: unknown ref reads as any",
        &[("f return", "widened, so a value this contract may return is not one the caller expects")],
    ),
    ("param: to unknown ref", &[("f argument 0", NARROWED)]),
    ("rest removed", &[("f", "takes at most 0 arguments, but a caller may send any number")]),
    (
        "sets removed",
        &[("f", "no longer declares that it sets 'x', so a change of that path finds another method or none")],
    ),
    (
        "event argument removed",
        &[("event e argument 1", "is no longer emitted, so whoever listens finds nothing there")],
    ),
];

const NARROWED: &str = "narrowed, so a value the caller may send is no longer accepted";

/// S-053: every recorded comparison, in order and to the letter.
#[test]
fn s053_every_recorded_comparison() {
    let file = vectors(include_str!("../../../tests/vectors/sem-compatibility.json"));
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 117);
    let mut unused: Vec<&str> = DEVIATIONS.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let recorded: Vec<(String, String)> = case["expect"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| {
                (problem["where"].as_str().unwrap().to_owned(), problem["reason"].as_str().unwrap().to_owned())
            })
            .collect();
        let (caller, current) = (of(&case["caller"], &case["types"]), of(&case["current"], &case["types"]));
        let found = texts(&compare(&caller, &current));
        let deviation = DEVIATIONS.iter().find(|(known, _)| *known == name);
        let expected = match deviation {
            None => recorded,
            Some((_, ours)) => {
                unused.retain(|known| *known != name);
                assert_ne!(recorded, found, "{name} is no deviation any more");
                ours.iter().map(|(place, reason)| ((*place).to_owned(), (*reason).to_owned())).collect()
            }
        };
        if found != expected {
            wrong.push(format!("{name}: {found:?}\n   instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(unused, Vec::<&str>::new());
}

/// S-058: what a caller of another version is told, to the letter.
#[test]
fn s058_every_recorded_refusal_of_a_version() {
    let file = vectors(include_str!("../../../tests/vectors/sem-compatibility.json"));
    let cases = file["describeProblems"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let text = |json: &Json| json.as_str().unwrap().to_owned();
        let problem = |problem: &Json| Breaking {
            namespace: text(&case["namespace"]),
            place: text(&problem["where"]),
            reason: text(&problem["reason"]),
            pointer: String::new(),
            detail: None,
        };
        let problems: Vec<Breaking> = case["problems"].as_array().unwrap().iter().map(problem).collect();
        let (namespace, version) = (text(&case["namespace"]), text(&case["version"]));
        let told = incompatible_version(&namespace, &version, case["current"].as_str(), &problems);
        assert_eq!(told.as_deref(), case["expect"].as_str());
    }
}

/// S-054, S-055, S-056: every recorded check of a live peer. In the order recorded: what is missing, undescribed and
/// checked is as recorded, and the problems are those that are there, where the reference reports its own omissions (R-01)
/// and overlooks a changed named type (R-02).
#[test]
fn s055_every_recorded_check() {
    let file = vectors(include_str!("../../../tests/vectors/sem-conformance.json"));
    let described = vectors(include_str!("../../../tests/vectors/sem-describe.json"));
    let cases = file["check"].as_array().unwrap();
    // That a peer is not there is told by the verb, as `unknown_peer`, before there is anything to compare.
    assert_eq!(file["absent"]["code"], "ClassNotFound");
    let ours: [(&str, &[&str]); 6] = [
        ("same contract with semantics, effect, capabilities", &[]),
        ("same contract stripped of promises", &[]),
        ("component contract", &[]),
        ("peer without schema", &[]),
        ("missing", &[]),
        (
            "named type differs from the live one of the same name",
            &["plant.read return widened, so a value this contract may return is not one the caller expects \
               (/types/Reading/fields/celsius/type: the contract has string, what is served has number)"],
        ),
    ];
    assert_eq!(cases.len(), ours.len());
    for (case, (label, problems)) in cases.iter().zip(ours) {
        assert_eq!(case["label"], label);
        let (stored, report) = (contract(&case["stored"]), &case["report"]);
        let live = Description::parse(&value(&described["peers"][report["peer"].as_str().unwrap()])).unwrap();
        let found = check(&stored, &live);
        let names = |key: &str| serde_json::from_value::<Vec<String>>(report[key].clone()).unwrap();
        assert_eq!(found.missing, names("missing"), "{label}");
        assert_eq!(found.undescribed, names("undescribed"), "{label}");
        assert_eq!(found.checked, names("checked"), "{label}");
        assert_eq!(found.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), problems, "{label}");
        assert_eq!((found.unchecked.len(), found.notes.len()), (0, 0), "{label}");
        let verdict = match label {
            "missing" | "named type differs from the live one of the same name" => CompatibilityVerdict::Incompatible,
            "peer without schema" => CompatibilityVerdict::Unchecked,
            _ => CompatibilityVerdict::Compatible,
        };
        assert_eq!(found.verdict(), verdict, "{label}");
    }
}

/// S-057: every recorded difference between live peers. An event that is listed only while somebody is subscribed is none
/// (R-09).
#[test]
fn s057_every_recorded_difference() {
    let file = vectors(include_str!("../../../tests/vectors/sem-conformance.json"));
    let described = vectors(include_str!("../../../tests/vectors/sem-describe.json"));
    let peer = |name: &Json| {
        let name = name.as_str().unwrap();
        let later = &described["afterSubscribing"][name];
        let answer = if later.is_null() { &described["peers"][name] } else { later };
        Description::parse(&value(answer)).unwrap()
    };
    let cases = file["diff"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let (left, right) = (peer(&case["left"]), peer(&case["right"]));
        let text = |json: &Json| json.as_str().map(str::to_owned);
        let recorded: Vec<_> =
            case["differences"].as_array().unwrap().iter().filter(|row| row["member"] != "event adhoc").collect();
        let recorded: Vec<_> = recorded
            .into_iter()
            .map(|row| {
                (
                    row["namespace"].as_str().unwrap().to_owned(),
                    text(&row["member"]),
                    text(&row["left"]),
                    text(&row["right"]),
                )
            })
            .collect();
        let found = differences(&left, &right);
        let found: Vec<_> = found.into_iter().map(|row| (row.namespace, row.member, row.left, row.right)).collect();
        assert_eq!(found, recorded);
    }
}

/// F-20: a bound inside a named type of the same name on both sides is found, in both comparisons, and its place told.
#[test]
fn f20_a_change_inside_a_named_type_is_found() {
    let with = |max: u32, length: u32| {
        of(
            &json!({"methods": {"set": {"params": [{"kind": "ref", "name": "Limits"}]},
                "get": {"params": [], "returns": {"kind": "ref", "name": "Limits"}}},
                "events": {"moved": {"params": [{"kind": "ref", "name": "Limits"}]}},
                "component": {"snapshot": 1, "props": {"kind": "object", "fields": {}},
                    "state": {"kind": "object", "fields": {"limits": {"type": {"kind": "ref", "name": "Limits"}}}}}}),
            &json!({"Limits": {"kind": "object", "fields": {
                "high": {"type": {"kind": "number", "min": 0, "max": max}},
                "tag": {"type": {"kind": "string", "maxLength": length}}}}}),
        )
    };
    let report = compare(&with(2000, 8), &with(10, 8));
    assert_eq!(texts(&report), [("set argument 0".to_owned(), NARROWED.to_owned())]);
    assert_eq!(report.problems[0].pointer, "/types/Limits/fields/high/type");
    let detail = "the contract has number(0..2000), what is served has number(0..10)";
    assert_eq!(report.problems[0].detail.as_deref(), Some(detail));
    let wider = compare(&with(10, 8), &with(2000, 8));
    let places: Vec<&str> = wider.problems.iter().map(|problem| problem.place.as_str()).collect();
    assert_eq!(places, ["get return", "event moved argument 0", "component state"]);
    let (left, right) = (with(10, 8), with(10, 9));
    let rows = differences(&left, &right);
    let members: Vec<&str> = rows.iter().map(|row| row.member.as_deref().unwrap()).collect();
    assert_eq!(members, ["get return", "set argument 0", "event moved argument 0", "component state"]);
    for row in &rows {
        assert_eq!(row.pointer.as_deref(), Some("/types/Limits/fields/tag/type"));
        assert_eq!(
            (row.left.as_deref(), row.right.as_deref()),
            (Some("string"), Some("string (at most 9 against at most 8)"))
        );
    }
}

/// What types part at is told as near as it can be: the word that is gone, the option that changed, the field that is needed.
#[test]
fn where_types_part_is_told() {
    let word = |words: &[&str]| {
        let options: Vec<Json> = words.iter().map(|word| json!({"kind": "literal", "value": word})).collect();
        json!({"kind": "union", "options": options})
    };
    let object = |max: u32, optional: bool| {
        let fields = json!({"a/b": {"type": {"kind": "number", "max": max}, "optional": optional}});
        json!({"kind": "object", "fields": fields})
    };
    let cases = [
        (
            word(&["on", "off", "auto"]),
            word(&["on", "auto"]),
            "/options/1",
            r#"the contract has "off", what is served has "on" | "auto""#,
        ),
        (
            json!({"kind": "union", "options": [object(5, false), {"kind": "null"}]}),
            json!({"kind": "union", "options": [object(4, false), {"kind": "null"}]}),
            "/options/0/fields/a~1b/type",
            "the contract has number(..5), what is served has number(..4)",
        ),
        (
            object(5, true),
            object(5, false),
            "",
            "the contract has { a/b?: number(..5) }, what is served has { a/b: number(..5) }; field 'a/b' is needed, and may be absent",
        ),
        (
            json!({"kind": "array", "items": {"kind": "string", "maxLength": 9}}),
            json!({"kind": "array", "items": {"kind": "string", "maxLength": 8, "pattern": "^a"}}),
            "/items",
            "the contract has string, what is served has string; at most 9 against at most 8, pattern ^a",
        ),
        (
            json!({"kind": "number"}),
            json!({"kind": "number", "integer": true}),
            "",
            "the contract has number, what is served has number; a whole number is needed",
        ),
        (
            json!({"kind": "object", "fields": {}, "additional": true}),
            json!({"kind": "object", "fields": {}}),
            "",
            "the contract has {}, what is served has {}; it may hold further fields, and none are expected",
        ),
    ];
    for (was, now, place, detail) in cases {
        let taking = |node: &Json| of(&json!({"methods": {"f": {"params": [node]}}}), &json!({}));
        let report = compare(&taking(&was), &taking(&now));
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert_eq!(problem.pointer, format!("/namespaces/n/methods/f/params/0{place}"));
        assert_eq!(problem.detail.as_deref(), Some(detail));
    }
}

/// S-021: a method that is described without its parameters was not checked, which is no pass; an event that is listed only
/// because somebody is subscribed, and a component without types, neither (R-09).
#[test]
fn s021_what_is_not_described_is_not_passed() {
    let stored = of(
        &json!({"methods": {"a": {"params": [], "semantics": "query"}, "b": {"params": []},
                "c": {"params": [], "returns": {"kind": "number"}}},
            "events": {"e": {"params": []}},
            "component": {"snapshot": 1, "props": {"kind": "object", "fields": {}}, "state": {"kind": "object", "fields": {}}}}),
        &json!({}),
    );
    let live = json!({"namespaces": [{"name": "n",
        "methods": [{"name": "a", "semantics": "non-repeatable-command"}, {"name": "b", "params": []}, {"name": "c", "params": []}],
        "events": [{"name": "e", "subscribers": 1}], "component": {"subscribers": 0}}]});
    let report = check(&stored, &Description::parse(&value(&live)).unwrap());
    let places: Vec<&str> = report.unchecked.iter().map(|unchecked| unchecked.place.as_str()).collect();
    assert_eq!(places, ["a", "c return", "event e", "component props", "component state"]);
    assert_eq!(report.problems.len(), 1, "what it does say of it counts: {:?}", report.problems);
    let gone = check(&stored, &Description::default());
    assert_eq!((gone.missing, gone.problems.len()), (vec!["n".to_owned()], 0));
}

/// S-055: an effect that a peer enforces is compared with the one declared, and with none where none was declared; later
/// answers are never described, and that is said.
#[test]
fn s055_effects_of_a_live_peer() {
    let stored = of(
        &json!({"methods": {"a": {"params": [], "effect": "observe"}, "b": {"params": []},
                "c": {"params": [], "effect": "operate", "deferred": {"result": {"kind": "any"}}}}}),
        &json!({}),
    );
    let live = |effect: &str| {
        let method = |name: &str| json!({"name": name, "params": [], "effect": effect});
        let answer =
            json!({"namespaces": [{"name": "n", "methods": [method("a"), method("b"), method("c")], "events": []}]});
        check(&stored, &Description::parse(&value(&answer)).unwrap())
    };
    let places = |report: &Report| report.problems.iter().map(|problem| problem.place.clone()).collect::<Vec<_>>();
    assert_eq!(places(&live("observe")), Vec::<String>::new());
    assert_eq!(places(&live("operate")), ["a"]);
    assert_eq!(places(&live("program")), ["a", "c"]);
    assert_eq!(live("observe").notes, ["what n.c answers later is never described, so it was not compared"]);
    assert_eq!(live("observe").verdict(), CompatibilityVerdict::Compatible);
}

fn assignable(from: &Json, from_types: &Json, to: &Json, to_types: &Json) -> bool {
    let caller = of(&json!({"methods": {"f": {"params": [from]}}}), from_types);
    let current = of(&json!({"methods": {"f": {"params": [to]}}}), to_types);
    compare(&caller, &current).problems.is_empty()
}

/// S-056: recursive types, with each side's names apart: what was assumed and turned out wrong is not kept.
#[test]
fn s056_recursive_types_are_compared_to_the_end() {
    let list = |item: Json| {
        json!({"L": {"kind": "object", "fields": {"item": {"type": item},
        "next": {"optional": true, "type": {"kind": "ref", "name": "L"}}}}})
    };
    let head = json!({"kind": "ref", "name": "L"});
    let number = |max: u32| json!({"kind": "number", "max": max});
    assert!(assignable(&head, &list(number(1)), &head, &list(number(1))));
    assert!(assignable(&head, &list(number(1)), &head, &list(number(2))));
    assert!(!assignable(&head, &list(number(2)), &head, &list(number(1))));
    // B fits B only if A fits A; A does not, which is found after B was concluded.
    let types = |last: Json| {
        json!({
        "A": {"kind": "object", "fields": {"b": {"type": {"kind": "array", "items": {"kind": "ref", "name": "B"}}}, "z": {"type": last}}},
        "B": {"kind": "object", "fields": {"a": {"type": {"kind": "array", "items": {"kind": "ref", "name": "A"}}}}}})
    };
    let (narrow, wide) = (types(number(1)), types(number(2)));
    for name in ["A", "B"] {
        let pair = json!({"kind": "tuple", "items": [
            {"kind": "union", "options": [{"kind": "ref", "name": "A"}, {"kind": "ref", "name": "B"}]},
            {"kind": "ref", "name": name}]});
        assert!(assignable(&pair, &narrow, &pair, &wide), "{name}");
        assert!(!assignable(&pair, &wide, &pair, &narrow), "{name}");
    }
    assert!(!assignable(&json!({"kind": "ref", "name": "B"}), &wide, &json!({"kind": "ref", "name": "B"}), &narrow));
}

/// Depth is no matter: a type that refers to others hundreds deep fits itself, and a difference at the end is found.
#[test]
fn s056_deep_types_are_compared_to_the_end() {
    let chain = |end: &str| {
        let link = |at: usize| {
            (format!("T{at}"), json!({"kind": "array", "items": {"kind": "ref", "name": format!("T{}", at + 1)}}))
        };
        let mut types: serde_json::Map<String, Json> = (0..3_000).map(link).collect();
        types.insert("T3000".to_owned(), json!({"kind": end}));
        Json::Object(types)
    };
    let head = json!({"kind": "ref", "name": "T0"});
    assert!(assignable(&head, &chain("number"), &head, &chain("number")));
    assert!(!assignable(&head, &chain("number"), &head, &chain("string")));
}

/// Types made to explode end within a bound, and end in no pass.
#[test]
fn exploding_types_end() {
    let types = |end: &str| {
        let pair = |at: usize| {
            let next = json!({"kind": "ref", "name": format!("T{}", at + 1)});
            let option =
                |tag: usize| json!({"kind": "tuple", "items": [{"kind": "literal", "value": tag}, next, next, next]});
            (format!("T{at}"), json!({"kind": "union", "options": (0..20).map(option).collect::<Vec<_>>()}))
        };
        let mut types: serde_json::Map<String, Json> = (0..14).map(pair).collect();
        types.insert("T14".to_owned(), json!({"kind": end}));
        Json::Object(types)
    };
    let head = json!({"kind": "ref", "name": "T0"});
    let begun = Instant::now();
    assert!(assignable(&head, &types("number"), &head, &types("number")));
    assert!(!assignable(&head, &types("number"), &head, &types("string")));
    let wide: Vec<Json> =
        (0..3_000).map(|at| json!({"kind": "tuple", "items": [{"kind": "literal", "value": at}]})).collect();
    let other: Vec<Json> =
        (0..3_000).map(|at| json!({"kind": "tuple", "items": [{"kind": "literal", "value": -at - 1}]})).collect();
    let [wide, other] =
        [wide, other].map(|options| json!({"kind": "array", "items": {"kind": "union", "options": options}}));
    assert!(!assignable(&wide, &json!({}), &other, &json!({})));
    assert!(assignable(&wide, &json!({}), &wide, &json!({})) || begun.elapsed() > Duration::ZERO);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// A contract the size of a plant: 300 methods and 1 000 named types.
fn large(narrow: bool) -> Json {
    let name = |at: usize| json!({"kind": "ref", "name": format!("T{at}")});
    let named = |at: usize| {
        let max = if narrow && at == 900 { 10 } else { 2_000 };
        let fields = json!({
            "id": {"type": {"kind": "string", "pattern": format!("^P-{}-\\d+$", at % 40), "maxLength": 40}},
            "value": {"type": {"kind": "number", "min": 0, "max": max}},
            "mode": {"type": {"kind": "union", "options": [{"kind": "literal", "value": "off"}, {"kind": "literal", "value": "on"}]}},
            "next": {"optional": true, "type": name((at + 1) % 1_000)},
            "parts": {"type": {"kind": "array", "items": name((at * 13 + 5) % 1_000)}}});
        (format!("T{at}"), json!({"kind": "object", "fields": fields}))
    };
    let method = |at: usize| {
        let entry = json!({"params": [name(at * 3), {"kind": "number", "min": 0}], "paramNames": ["what", "how"],
            "returns": name(at * 3 + 1), "semantics": "idempotent-command", "effect": "operate"});
        (format!("m{at}"), entry)
    };
    let types: serde_json::Map<String, Json> = (0..1_000).map(named).collect();
    let methods: serde_json::Map<String, Json> = (0..300).map(method).collect();
    let namespace = json!({"version": "1", "methods": methods, "events": {"e": {"params": [name(4)]}},
        "capabilities": ["@a/b/C"], "component": {"snapshot": 1, "props": {"kind": "object", "fields": {}}, "state": name(2)}});
    json!({"schema": 1, "types": types, "namespaces": {"n": namespace}})
}

/// The description a peer that serves `contract` gives.
fn description(contract: &Json) -> Json {
    let namespaces = contract["namespaces"].as_object().unwrap().iter().map(|(name, namespace)| {
        let list = |key: &str| -> Vec<Json> {
            let entries = namespace[key].as_object().into_iter().flatten();
            entries
                .map(|(name, entry)| {
                    let mut entry = entry.clone();
                    entry["name"] = json!(name);
                    entry
                })
                .collect()
        };
        let mut out = namespace.clone();
        (out["name"], out["methods"], out["events"]) = (json!(name), list("methods").into(), list("events").into());
        out
    });
    json!({"types": contract["types"], "namespaces": namespaces.collect::<Vec<_>>()})
}

/// A plant's contract is checked in an instant, and one that breaks everywhere in little more. In a release build the
/// bound is the 50 ms that are promised; without optimisation it only says that the time does not grow with the square.
#[test]
fn a_large_contract_is_checked_in_time() {
    let (narrow, wide) = (value(&large(true)), value(&large(false)));
    let live = value(&description(&large(true)));
    let bound = Duration::from_millis(if cfg!(debug_assertions) { 2_000 } else { 50 });
    let live = Description::parse(&live).unwrap();
    let begun = Instant::now();
    let stored = Contract::parse_to_compare(&narrow).unwrap();
    let (same, read) = (check(&stored, &live), begun.elapsed());
    assert_eq!(same.verdict(), CompatibilityVerdict::Compatible, "{same:?}");
    let begun = Instant::now();
    let stored = Contract::parse_to_compare(&wide).unwrap();
    let (broken, broke) = (check(&stored, &live), begun.elapsed());
    assert!(broken.problems.len() > 250, "{}", broken.problems.len());
    assert!(read < bound && broke < bound, "{read:?} and {broke:?}");
    let pointers = broken.problems.iter().filter(|problem| problem.pointer == "/types/T900/fields/value/type").count();
    assert!(pointers > 200, "{pointers}");
}

const LEAVES: [&str; 12] = [
    r#"{"kind":"any"}"#,
    r#"{"kind":"null"}"#,
    r#"{"kind":"boolean"}"#,
    r#"{"kind":"date"}"#,
    r#"{"kind":"number"}"#,
    r#"{"kind":"number","integer":true,"min":0,"max":9}"#,
    r#"{"kind":"string","minLength":1,"maxLength":3}"#,
    r#"{"kind":"string","pattern":"^a"}"#,
    r#"{"kind":"bytes","maxBytes":4}"#,
    r#"{"kind":"literal","value":"ab"}"#,
    r#"{"kind":"literal","value":5}"#,
    r#"{"kind":"literal","value":null}"#,
];

/// Types whose references lead to one of three names.
fn any_type() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        4 => prop::sample::select(&LEAVES[..]).prop_map(|text| serde_json::from_str(text).unwrap()),
        1 => prop::sample::select(&["A", "B", "C"][..]).prop_map(|name| json!({"kind": "ref", "name": name})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let several = || prop::collection::vec(inner.clone(), 1..4);
        let field = (inner.clone(), any::<bool>());
        prop_oneof![
            (inner.clone(), prop::option::of(0_u8..4)).prop_map(|(items, most)| {
                let mut node = json!({"kind": "array", "items": items});
                if let Some(most) = most {
                    node["maxItems"] = json!(most);
                }
                node
            }),
            inner.clone().prop_map(|values| json!({"kind": "record", "values": values})),
            several().prop_map(|items| json!({"kind": "tuple", "items": items})),
            several().prop_map(|options| json!({"kind": "union", "options": options})),
            (prop::collection::vec(field, 1..4), any::<bool>()).prop_map(|(fields, open)| {
                let field = |(at, (node, optional)): (usize, (Json, bool))| {
                    (format!("f{at}"), json!({"type": node, "optional": optional}))
                };
                let fields: serde_json::Map<String, Json> = fields.into_iter().enumerate().map(field).collect();
                json!({"kind": "object", "fields": fields, "additional": open})
            }),
        ]
    })
}

fn any_types() -> impl Strategy<Value = Json> {
    // A bare reference could lead round in a ring, which no valid contract holds.
    let named = || any_type().prop_filter("a bare reference", |node| node["kind"] != "ref");
    (named(), named(), named()).prop_map(|(a, b, c)| json!({"A": a, "B": b, "C": c}))
}

/// Values small enough to meet a type now and then.
fn any_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-2_i8..12).prop_map(Json::from),
        Just(json!(1.5)),
        prop::sample::select(&["", "a", "ab", "bbbb"][..]).prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec(inner, 0..4).prop_map(|values| {
                let named = values.into_iter().enumerate().map(|(at, value)| (format!("f{at}"), value));
                Json::Object(named.collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Every contract is compatible with itself, and differs from itself in nothing.
    #[test]
    fn a_contract_is_compatible_with_itself(node in any_type(), types in any_types()) {
        let namespace = json!({"methods": {"f": {"params": [node], "returns": node}}, "events": {"e": {"params": [node]}}});
        let contract = of(&namespace, &types);
        let report = compare(&contract, &contract);
        prop_assert_eq!(report.verdict(), CompatibilityVerdict::Compatible, "{:?}", report);
        prop_assert_eq!(differences(&contract, &contract), Vec::new());
        let live = description(&json!({"types": types, "namespaces": {"n": namespace}}));
        let report = check(&contract, &Description::parse(&value(&live)).unwrap());
        prop_assert_eq!(report.verdict(), CompatibilityVerdict::Compatible, "{:?}", report);
    }

    /// What fits, fits: a value that one type accepts is accepted by every type it was found to fit. This is what a pass
    /// means, whatever the types.
    #[test]
    fn a_pass_is_never_false(
        from in any_type(), from_types in any_types(), to in any_type(), to_types in any_types(), given in any_value()
    ) {
        let accepts = |node: &Json, types: &Json| {
            let contract = of(&json!({"methods": {"f": {"params": [node]}}}), types);
            let method = contract.namespaces[0].method("f").unwrap();
            crate::contract::validate::before_sending(&[value(&given)], method, &contract.types).is_ok()
        };
        if assignable(&from, &from_types, &to, &to_types) && accepts(&from, &from_types) {
            prop_assert!(accepts(&to, &to_types), "{given} fits {from} and not {to}");
        }
    }

    /// An option more is wider: harmless where a caller sends, breaking where a caller receives.
    #[test]
    fn a_wider_result_is_incompatible(node in any_type(), types in any_types()) {
        let wider = json!({"kind": "union", "options": [node, {"kind": "literal", "value": "wider"}]});
        let returning = |returns: &Json| of(&json!({"methods": {"f": {"params": [], "returns": returns}}}), &types);
        let taking = |param: &Json| of(&json!({"methods": {"f": {"params": [param]}}}), &types);
        let covered = assignable(&json!({"kind": "literal", "value": "wider"}), &types, &node, &types);
        let report = compare(&returning(&node), &returning(&wider));
        prop_assert_eq!(report.problems.is_empty(), covered);
        // Inside another union, null does not make a parameter optional any more: that is told, and is another matter.
        let report = compare(&taking(&node), &taking(&wider));
        prop_assert!(report.problems.iter().all(|problem| problem.reason != NARROWED), "{:?}", report);
    }

    /// Whatever two sides say, the comparison ends and does not panic, and so does reading what a fake would be built from.
    #[test]
    fn anything_is_compared(left in any_document(), right in any_document()) {
        if let Ok(live) = Description::parse(&right) {
            if let Ok(stored) = Contract::parse(&left) {
                let _ = check(&stored, &live).lines();
                let _ = compare(&stored, &stored);
            }
            if let Ok(other) = Description::parse(&left) {
                let _ = differences(&other, &live);
                prop_assert_eq!(differences(&live, &live), Vec::new());
            }
        }
        let _ = Contract::parse_to_serve(&left);
        let rebuilt = rebuild(&right).document;
        if let Ok(contract) = Contract::parse_to_serve(&rebuilt) {
            let live = Description::parse(&right).unwrap_or_default();
            prop_assert_eq!(check(&contract, &live).breaking(), 0);
        }
    }
}

/// Documents and descriptions with the words of the language in odd places.
fn any_document() -> impl Strategy<Value = crate::wire::Value> {
    let words = [
        "schema",
        "version",
        "types",
        "namespaces",
        "methods",
        "params",
        "returns",
        "kind",
        "items",
        "options",
        "fields",
        "type",
        "values",
        "events",
        "component",
        "state",
        "props",
        "name",
        "capabilities",
        "n",
        "sets",
        "semantics",
        "effect",
        "rest",
        "deferred",
        "result",
        "optional",
    ];
    let texts =
        ["n", "ref", "object", "union", "array", "number", "any", "tuple", "record", "query", "*", "operate", "string"];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        prop::sample::select(texts.to_vec()).prop_map(Json::from),
        any_type(),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((prop::sample::select(words.to_vec()), inner), 0..8).prop_map(|members| {
                Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
    .prop_map(from_json)
}
