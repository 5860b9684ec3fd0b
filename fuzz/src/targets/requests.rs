//! What peers ask of each other beside calls: rows of collections and their stamps, context, topology.

use plantbridge::contract::context::HostAnswer;
use plantbridge::contract::data::{Request, Verb};
use plantbridge::contract::stamp;
use plantbridge::wire::{Map, Value, json};

use super::{each, reason, vectors};

pub(super) fn run(data: &[u8]) {
    let Ok(value) = json::decode(data) else { return };
    if let Some(args) = value.as_array() {
        rows(args, &value);
    }
    context(&value);
    let fields: Vec<(&str, Option<&Value>)> =
        value.as_map().map(|map| map.iter().map(|(key, value)| (key, Some(value))).collect()).unwrap_or_default();
    let stamped = stamp::stamp("pupils", &value, &fields);
    assert_eq!(stamped.len(), 43);
    let reversed: Vec<_> = fields.iter().rev().copied().collect();
    assert_eq!(stamp::stamp("pupils", &value, &reversed), stamped, "the order of fields counts");
}

fn rows(args: &[Value], value: &Value) {
    let request = match Request::parse(args) {
        Ok(request) => request,
        Err(why) => return assert!(!why.is_empty()),
    };
    let written = request.to_args();
    let again = Request::parse(&written).expect("what we ask is understood");
    assert_eq!(format!("{again:?}"), format!("{request:?}"));
    // Rows of every kind, the request itself among them.
    let rows: Map = [("9", Value::Null), ("b", value.clone()), ("a", Value::Map(Map::new())), ("10", 1.into())]
        .into_iter()
        .map(|(key, row)| (key.to_owned(), row))
        .collect();
    let page = request.answer(&rows);
    assert!(page.rows.len() <= rows.len().max(MOST_IDS));
    if let Some((total, more)) = page.whole {
        assert!(total <= rows.len() as u64 && !(more && page.rows.len() as u64 == total));
    }
    if let Verb::Many(ids) = &request.verb {
        assert!(page.rows.iter().all(|(key, _)| ids.iter().any(|id| id == key)));
    }
}

/// Rows that may be asked for by their keys, each as often as it likes.
const MOST_IDS: usize = 1_000;

fn context(value: &Value) {
    match HostAnswer::parse(value) {
        Err(why) => reason(&why),
        Ok(answer) => {
            let written = answer.to_value();
            let again = HostAnswer::parse(&written).expect("what we answer is understood");
            assert_eq!(format!("{:?}", again.to_value()), format!("{written:?}"));
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let rows = vectors(include_str!("../../../tests/vectors/sem-data-requests.json"));
    let mut seeds = each(&rows, &|part| part.get("args").map(|args| args.to_string().into_bytes()));
    seeds.extend(each(&rows, &|part| {
        let params = part.get("params")?;
        Some(serde_json::json!(["getList", "orders", params]).to_string().into_bytes())
    }));
    let context = vectors(include_str!("../../../tests/vectors/sem-context.json"));
    seeds.extend(each(&context, &|part| part.get("chainKey").map(|_| part.to_string().into_bytes())));
    let stamps = vectors(include_str!("../../../tests/vectors/sem-row-stamps.json"));
    seeds.extend(each(&stamps, &|part| part.get("fields").map(|fields| fields.to_string().into_bytes())));
    seeds.retain(|seed| seed.len() < 2_048);
    seeds
}
