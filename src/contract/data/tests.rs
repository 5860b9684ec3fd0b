//! Requests and pages as recorded.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::contract::testing::{is_undefined, unordered, value, vectors};

fn file() -> Json {
    vectors(include_str!("../../../tests/vectors/sem-data-requests.json"))
}

fn args(json: &Json) -> Vec<Value> {
    json.as_array().unwrap().iter().map(value).collect()
}

/// The same request without what says nothing: absent or null params, defaults.
fn plain(mut args: Vec<Value>) -> Vec<Value> {
    if args.get(2) == Some(&Value::Null) {
        args[2] = Map::new().into();
    }
    args.into_iter().map(unordered).collect()
}

/// Accepted requests that we write down otherwise than they were recorded, with what we leave out or add.
const WRITTEN_OTHERWISE: [(&str, &str); 3] = [
    (r#"{"pagination":{}}"#, r"{}"),
    (r#"{"pagination":{"pageSize":0}}"#, r#"{"pagination":{"page":0,"pageSize":0}}"#),
    (r#"{"filter":{"all":[{"op":"eq","operand":1}],"op":"bad"}}"#, r#"{"filter":{"all":[{"op":"eq","operand":1}]}}"#),
];
const SORT_WRITTEN_OTHERWISE: (&str, &str) = (r#"{"sort":{}}"#, r#"{"sort":{"order":"ASC"}}"#);

/// S-104: every recorded request is taken or refused in the recorded words, and what is taken is sent as it came.
#[test]
fn s104_every_recorded_request() {
    let mut otherwise: Vec<_> = WRITTEN_OTHERWISE.into_iter().chain([SORT_WRITTEN_OTHERWISE]).collect();
    for row in file()["requests"].as_array().unwrap() {
        let given = args(&row["args"]);
        let read = Request::parse(&given);
        match row["expect"].as_str() {
            Some(refusal) => assert_eq!(read, Err(refusal.to_owned()), "{row}"),
            None => {
                let request = read.unwrap();
                let written = request.to_args();
                assert_eq!(Request::parse(&written).as_ref(), Ok(&request), "{row}");
                let params = &row["args"][2];
                let text = if is_undefined(params) { String::new() } else { params.to_string() };
                match otherwise.iter().position(|(recorded, _)| *recorded == text) {
                    None => assert_eq!(plain(written), plain(given), "{row}"),
                    Some(at) => {
                        let ours: Json = serde_json::from_str(otherwise.remove(at).1).unwrap();
                        assert_eq!(unordered(written[2].clone()), unordered(value(&ours)), "{row}");
                    }
                }
            }
        }
    }
    assert!(otherwise.is_empty(), "not needed: {otherwise:?}");
}

/// S-102 on the other side: every recorded page of the recorded collection, with its true total.
#[test]
fn every_recorded_page() {
    let file = file();
    let Value::Map(rows) = value(&file["collection"]) else { panic!("no collection") };
    let pages = file["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 20);
    for row in pages {
        let Value::Map(params) = value(&row["params"]) else { panic!("{row}") };
        let Page { rows, whole } = list(&rows, &List::parse(&params).unwrap());
        let ids: Vec<&str> = rows.iter().map(|(id, _)| *id).collect();
        let data: Vec<Value> = rows.iter().map(|(_, row)| (*row).clone()).collect();
        let expect = &row["expect"];
        assert_eq!(serde_json::json!(ids), expect["ids"], "{row}");
        assert_eq!(Value::Array(data), value(&expect["data"]), "{row}");
        assert_eq!(whole, Some((expect["total"].as_u64().unwrap(), expect["hasMore"].as_bool().unwrap())), "{row}");
    }
}

fn rows(entries: &[(&str, Value)]) -> Map {
    entries.iter().map(|(key, row)| ((*key).to_owned(), row.clone())).collect()
}

/// Keys are keys, whatever is in them: a dot in a key is not a path, and the order is by code unit.
#[test]
fn keys_are_taken_as_they_are() {
    let odd = ["a.b", "a/b", "a\"b", "a\nb", "\u{1F600}", "\u{FF5E}", "2", "02", ""];
    let all = rows(&odd.map(|key| (key, Value::Int(1))));
    let ids: Vec<String> = odd.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(many(&all, &ids).rows.len(), odd.len());
    assert_eq!(many(&all, &["a".to_owned(), "2.0".to_owned()]).rows, []);
    let sorted: Vec<&str> = list(&all, &List::default()).rows.into_iter().map(|(key, _)| key).collect();
    assert_eq!(sorted, ["", "02", "2", "a\nb", "a\"b", "a.b", "a/b", "\u{1F600}", "\u{FF5E}"]);
    let exact = Condition { field: Some("id".into()), operator: Operator::Eq, operand: Operand::Text("02".into()) };
    let exact = List { filter: Some(Filter::Condition(exact)), ..List::default() };
    assert_eq!(list(&all, &exact).rows, [("02", &Value::Int(1))]);
}

/// A map in the component is a collection; what is none is an empty one.
#[test]
fn a_resource_is_a_map_in_the_component() {
    let mut state = Map::new();
    state.insert("tags", rows(&[("a.b", 1.into())]));
    state.insert("level", 7);
    let props = Map::new();
    let parts = [("props", &props), ("state", &state)];
    let at = |path: &[&str]| {
        let path: Vec<String> = path.iter().map(|step| (*step).to_owned()).collect();
        rows_at(&parts, &path).map(Map::len)
    };
    assert_eq!((at(&["state", "tags"]), at(&["state"]), at(&["props"])), (Some(1), Some(2), Some(0)));
    for nothing in [&["state", "level"][..], &["state", "tags", "a.b"], &["tags"], &["state", "tags", "a"], &[]] {
        assert_eq!(at(nothing), None, "{nothing:?}");
    }
}

/// A page beyond any number of rows is empty, and no arithmetic gives way.
#[test]
fn a_page_beyond_the_end_is_empty() {
    let all = rows(&[("a", 1.into()), ("b", 2.into())]);
    let far = Pagination { page: u64::MAX, size: u64::MAX };
    assert_eq!(
        list(&all, &List { pagination: Some(far), ..List::default() }),
        Page { rows: vec![], whole: Some((2, false)) }
    );
}

fn cell() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3i64..12).prop_map(Value::Int),
        prop_oneof![Just(f64::NAN), Just(-0.0), Just(f64::INFINITY), -2.0..2.0f64].prop_map(Value::Float),
        "[0-9a]{0,3}".prop_map(Value::Text),
        Just(Value::Array(vec![Value::Null, 1.into()])),
    ]
}

proptest! {
    /// Rows of mixed kinds have one order, descending is its reverse, and pages cut it without loss.
    #[test]
    fn pages_of_mixed_rows_add_up(cells in prop::collection::vec(prop::option::of(cell()), 0..40), size in 1u64..7) {
        let row = |cell: Option<Value>| match cell {
            None => Value::Map(Map::new()),
            Some(cell) => Value::Map([("n".to_owned(), cell)].into_iter().collect()),
        };
        let all: Map = cells.into_iter().enumerate().map(|(at, cell)| (format!("k{at}"), row(cell))).collect();
        let sort = |order| Some(Sort { field: Some("n".into()), order });
        let keys = |wanted: &List| list(&all, wanted).rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        let whole = keys(&List { sort: sort(Order::Ascending), ..List::default() });
        let mut back = keys(&List { sort: sort(Order::Descending), ..List::default() });
        back.reverse();
        prop_assert_eq!(&whole, &back);
        let mut paged = Vec::new();
        for page in 0..=40 {
            let pagination = Some(Pagination { page, size });
            paged.extend(keys(&List { pagination, sort: sort(Order::Ascending), filter: None }));
        }
        prop_assert_eq!(whole, paged);
    }
}
