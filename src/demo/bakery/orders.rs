//! The work orders of the packaging line, pure: rows that somebody else may change as well, so that a change needs the
//! stamp its row was read under. A new order is open and dated by the store, whatever is sent.

use std::{collections::BTreeMap, time::Duration};

use super::news::News;
use crate::{
    contract::stamp::stamp,
    node::Failure,
    wire::{Map, Value, json::ecma_number},
};

/// The orders by number.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    rows: BTreeMap<i64, Map>,
    next: i64,
    /// How much later than it could the write half answers, in milliseconds.
    delay_ms: i64,
    /// Somebody notes something on every order just before it is changed here.
    meddled: bool,
    notes: u64,
    news: News,
}

/// A column that may be written.
struct Column {
    name: &'static str,
    holds: Holds,
    /// Whether it may be null.
    nullable: bool,
    /// Whether a new row must have it.
    required: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Text,
    Integer,
}

/// What may be written; the number and the date of an order are the store's.
const COLUMNS: [Column; 4] = [
    Column { name: "product", holds: Holds::Text, nullable: false, required: true },
    Column { name: "quantity", holds: Holds::Integer, nullable: false, required: true },
    Column { name: "status", holds: Holds::Text, nullable: false, required: false },
    Column { name: "note", holds: Holds::Text, nullable: true, required: false },
];
/// The resource, in both halves of the store.
const ORDERS: &str = "orders";
/// So many orders, and no more, fit on the board.
const ROOM: usize = 1000;
/// Bytes of a text.
const LONGEST: usize = 1000;
/// 1 August 2026, noon: when the first orders were made.
const FIRST_MADE_MS: i64 = 1_785_585_600_000;

impl Orders {
    /// Three orders, of which two are open.
    pub(crate) fn new() -> Self {
        let mut orders =
            Self { rows: BTreeMap::new(), next: 1001, delay_ms: 0, meddled: false, notes: 0, news: News::default() };
        for (product, quantity, status) in [("rye", 200, "open"), ("spelt", 120, "done"), ("wheat", 80, "open")] {
            let mut row = Map::new();
            row.insert("product", product);
            row.insert("quantity", quantity);
            row.insert("status", status);
            orders.add(&row, FIRST_MADE_MS);
        }
        orders
    }

    /// The state of the read half.
    pub(crate) fn state(&self) -> Map {
        let rows = self.rows.iter().map(|(number, row)| (number.to_string(), row.clone().into()));
        let mut state = Map::new();
        state.insert(ORDERS, rows.collect::<Map>());
        state.insert("delayMs", self.delay_ms);
        state
    }

    /// Has the write half answer late, as a busy store does: what it was asked for is done at once all the same.
    pub(crate) fn set_delay(&mut self, ms: i64) -> i64 {
        let ms = ms.clamp(0, 60_000);
        if ms != self.delay_ms {
            self.delay_ms = ms;
            self.news.changed();
        }
        ms
    }

    /// Has somebody else note something on every order just before it is changed here, so that each change conflicts.
    pub(crate) fn set_meddled(&mut self, meddled: bool) {
        self.meddled = meddled;
    }

    /// Somebody else may be faster.
    fn meddle(&mut self, number: i64) {
        let Some(row) = self.rows.get_mut(&number).filter(|_| self.meddled) else { return };
        self.notes += 1;
        row.insert("note", format!("seen by the night shift, {}", self.notes));
        self.news.changed();
    }

    /// How late the write half answers.
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.unsigned_abs())
    }

    /// The line takes an order up, as whoever stands there has it do. Gives its status.
    ///
    /// # Errors
    /// There is no such order.
    pub(crate) fn start(&mut self, number: i64) -> Result<&'static str, Failure> {
        let row =
            self.rows.get_mut(&number).ok_or_else(|| Failure::exception(format!("there is no order {number}")))?;
        row.insert("status", "started");
        self.news.changed();
        Ok("started")
    }

    /// A call of the write half.
    ///
    /// # Errors
    /// What a store refuses, in a sentence.
    pub(crate) fn call(&mut self, method: &str, args: &[Value], now_ms: i64) -> Result<Value, Failure> {
        let nothing = Value::Null;
        let arg = |at: usize| args.get(at).unwrap_or(&nothing);
        if method == "writable" {
            return Ok(writable());
        }
        if arg(0).as_str() != Some(ORDERS) {
            let named = text_of(arg(0));
            return refuse(format!("{named} is not writable on this node - it accepts writes to {ORDERS}"));
        }
        match method {
            "getOne" => self.get_one(arg(1)),
            "create" => self.create(arg(1), now_ms),
            "update" => self.update(arg(1), arg(2), arg(3)),
            "delete" => self.delete(arg(1), arg(2)),
            _ => Err(Failure::coded("MethodNotFound", format!("{method} is not exposed"))),
        }
    }

    /// The new state if it changed since this was last asked.
    pub(crate) fn take_news(&mut self) -> Option<Map> {
        self.news.take().0.then(|| self.state())
    }

    fn get_one(&self, id: &Value) -> Result<Value, Failure> {
        let Some(row) = self.rows.get(&number(id)?) else { return Ok(status("missing").into()) };
        let mut answer = status("ok");
        answer.insert("row", row.clone());
        answer.insert("stamp", stamp_of(id, row));
        Ok(answer.into())
    }

    fn create(&mut self, row: &Value, now_ms: i64) -> Result<Value, Failure> {
        let fields = fields("create", row)?;
        let missing = |column: &&Column| column.required && fields.get(column.name).is_none();
        let missing: Vec<&str> = COLUMNS.iter().filter(missing).map(|column| column.name).collect();
        if !missing.is_empty() {
            return refuse(format!("{ORDERS} requires {}", missing.join(", ")));
        }
        if self.rows.len() >= ROOM {
            return refuse(format!("the board has room for {ROOM} orders, and they are there"));
        }
        let id: Value = self.add(fields, now_ms).to_string().into();
        let mut answer = status("ok");
        if let Some(row) = self.rows.get(&number(&id)?) {
            answer.insert("stamp", stamp_of(&id, row));
        }
        answer.insert("id", id);
        self.news.changed();
        Ok(answer.into())
    }

    fn update(&mut self, id: &Value, patch: &Value, stamp: &Value) -> Result<Value, Failure> {
        let (number, stamp, patch) = (number(id)?, given("update", stamp)?, fields("update", patch)?);
        if patch.is_empty() {
            return refuse("update was given no fields to change".into());
        }
        self.meddle(number);
        let Some(row) = self.rows.get_mut(&number) else { return Ok(status("missing").into()) };
        if stamp_of(id, row) != stamp {
            return Ok(status("conflict").into());
        }
        for (name, value) in patch.iter() {
            row.insert(name, value.clone());
        }
        let mut answer = status("ok");
        answer.insert("id", id.clone());
        answer.insert("stamp", stamp_of(id, row));
        self.news.changed();
        Ok(answer.into())
    }

    fn delete(&mut self, id: &Value, stamp: &Value) -> Result<Value, Failure> {
        let (number, stamp) = (number(id)?, given("delete", stamp)?);
        self.meddle(number);
        let Some(row) = self.rows.get(&number) else { return Ok(status("missing").into()) };
        if stamp_of(id, row) != stamp {
            return Ok(status("conflict").into());
        }
        self.rows.remove(&number);
        self.news.changed();
        let mut answer = status("ok");
        answer.insert("id", id.clone());
        Ok(answer.into())
    }

    /// Puts an order on the board as the store completes it. Gives its number.
    fn add(&mut self, fields: &Map, now_ms: i64) -> i64 {
        let number = self.next;
        self.next = number.saturating_add(1);
        let mut row = Map::new();
        row.insert("id", number);
        for column in &COLUMNS {
            let otherwise = if column.name == "status" { "open".into() } else { Value::Null };
            row.insert(column.name, fields.get(column.name).cloned().unwrap_or(otherwise));
        }
        row.insert("created", Value::Date(now_ms));
        self.rows.insert(number, row);
        number
    }
}

fn writable() -> Value {
    let texts = |texts: &[&str]| Value::Array(texts.iter().map(|text| (*text).into()).collect());
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    let mut resource = Map::new();
    resource.insert("resource", ORDERS);
    resource.insert("verbs", texts(&["create", "delete", "update"]));
    resource.insert("columns", texts(&names));
    Value::Array(vec![resource.into()])
}

/// The number an id stands for; an integer key takes text as well.
fn number(id: &Value) -> Result<i64, Failure> {
    let number = id.as_str().map_or_else(|| id.as_i64(), |text| text.parse().ok());
    number.ok_or_else(|| Failure::exception(format!("{} is not an id of id, which holds INTEGER", text_of(id))))
}

fn given<'a>(verb: &str, stamp: &'a Value) -> Result<&'a str, Failure> {
    let needs = || Failure::exception(format!("{verb} needs the stamp the row was read under - ask getOne for one"));
    stamp.as_str().ok_or_else(needs)
}

/// Fields that may be written, each of its kind.
fn fields<'a>(verb: &str, row: &'a Value) -> Result<&'a Map, Failure> {
    let Some(fields) = row.as_map() else {
        return refuse(format!("{verb} takes an object of field names to values"));
    };
    for (name, value) in fields.iter() {
        let Some(column) = COLUMNS.iter().find(|column| column.name == name) else {
            let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
            return refuse(format!("{name} is not writable on {ORDERS} - this node writes {}", names.join(", ")));
        };
        column.takes(value)?;
    }
    Ok(fields)
}

impl Column {
    fn takes(&self, value: &Value) -> Result<(), Failure> {
        let (name, holds) = (self.name, if self.holds == Holds::Text { "TEXT" } else { "INTEGER" });
        match (self.holds, value) {
            (_, Value::Null) if self.nullable => Ok(()),
            (_, Value::Null) => refuse(format!("{name} cannot be null - it is declared {holds} not null")),
            (Holds::Text, Value::Text(text)) if text.len() <= LONGEST => Ok(()),
            (Holds::Text, Value::Text(_)) => refuse(format!("{name} holds at most {LONGEST} bytes")),
            (Holds::Integer, number) if number.as_i64().is_some() => Ok(()),
            (_, other) => refuse(format!("{name} holds {holds} and was given a {}", kind(other))),
        }
    }
}

/// The stamp of a row under an id as it is written: only what may be written counts.
fn stamp_of(id: &Value, row: &Map) -> String {
    let fields: Vec<(&str, Option<&Value>)> =
        COLUMNS.iter().map(|column| (column.name, row.get(column.name))).collect();
    stamp(ORDERS, id, &fields)
}

fn status(word: &str) -> Map {
    let mut answer = Map::new();
    answer.insert("status", word);
    answer
}

fn refuse<T>(sentence: String) -> Result<T, Failure> {
    Err(Failure::exception(sentence))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.as_f64().map_or_else(|| kind(value).into(), ecma_number), str::to_owned)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Text(_) => "string",
        Value::Date(_) => "date",
        Value::Bytes(_) | Value::Ext(..) => "byte string",
        Value::Array(_) => "list",
        Value::Map(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::wire::json::{from_json, to_json};

    fn call(orders: &mut Orders, method: &str, args: Json) -> Result<Json, String> {
        let Value::Array(args) = from_json(args) else { panic!("a list") };
        let answer = orders.call(method, &args, 0);
        answer.map(|answer| to_json(&answer).unwrap()).map_err(|failure| failure.message)
    }

    fn read(orders: &mut Orders, id: &Json) -> Json {
        call(orders, "getOne", json!(["orders", id])).unwrap()
    }

    /// Semantics 9.2: a change is made under the stamp of the row as it is, and under no other; its answer has the next.
    #[test]
    fn a_change_needs_the_stamp_of_the_row_as_it_is() {
        let mut orders = Orders::new();
        let first = read(&mut orders, &json!("1001"))["stamp"].clone();
        let update = |id: Json, quantity: i64, stamp: &Json| json!(["orders", id, {"quantity": quantity}, stamp]);
        let done = call(&mut orders, "update", update(json!("1001"), 150, &first)).unwrap();
        assert_eq!((&done["status"], &done["id"]), (&json!("ok"), &json!("1001")));
        assert!(orders.take_news().is_some());
        let stale = call(&mut orders, "update", update(json!("1001"), 160, &first)).unwrap();
        assert_eq!((stale, orders.take_news()), (json!({"status": "conflict"}), None));
        call(&mut orders, "update", update(json!("1001"), 170, &done["stamp"])).unwrap();
        orders.start(1001).unwrap();
        let row = read(&mut orders, &json!(1001));
        assert_eq!((&row["row"]["quantity"], &row["row"]["status"]), (&json!(170), &json!("started")));
        let gone = json!(["orders", 1001, row["stamp"]]);
        assert_eq!(call(&mut orders, "delete", gone.clone()).unwrap(), json!({"status": "ok", "id": 1001}));
        assert_eq!(call(&mut orders, "delete", gone).unwrap(), json!({"status": "missing"}));
        assert_eq!(read(&mut orders, &json!("1001")), json!({"status": "missing"}));
    }

    /// Semantics 9.2: `2`, `"2"` and `"02"` name one row and have three stamps.
    #[test]
    fn a_stamp_belongs_to_the_id_as_it_is_spelled() {
        let mut orders = Orders::new();
        let ids = [json!(1003), json!("1003"), json!("01003")];
        let stamps = ids.clone().map(|id| read(&mut orders, &id)["stamp"].clone());
        for (id, own) in ids.iter().zip(&stamps) {
            for stamp in stamps.iter().filter(|stamp| *stamp != own) {
                let delete = json!(["orders", id, stamp]);
                assert_eq!(call(&mut orders, "delete", delete).unwrap(), json!({"status": "conflict"}));
            }
        }
    }

    /// What is not said of a new order the store says.
    #[test]
    fn a_new_order_is_open_and_dated() {
        let mut orders = Orders::new();
        let made = call(&mut orders, "create", json!(["orders", {"product": "rye", "quantity": 5}])).unwrap();
        assert_eq!((&made["status"], &made["id"]), (&json!("ok"), &json!("1004")));
        let row = read(&mut orders, &json!("1004"));
        assert_eq!(row["stamp"], made["stamp"]);
        assert_eq!(
            (&row["row"]["status"], &row["row"]["created"]),
            (&json!("open"), &json!("1970-01-01T00:00:00.000Z"))
        );
        assert_eq!(orders.state().get(ORDERS).unwrap().as_map().unwrap().len(), 4);
    }

    /// Semantics 9.2: refusals, in the words of a store.
    #[test]
    fn what_does_not_fit_is_refused_in_a_sentence() {
        let mut orders = Orders::new();
        let row = |row: Json| json!(["orders", row]);
        for (method, args, refusal) in [
            ("getOne", json!(["pupils", 1]), "pupils is not writable on this node - it accepts writes to orders"),
            ("getOne", json!(["orders", "x"]), "x is not an id of id, which holds INTEGER"),
            ("create", row(json!({"quantity": 1})), "orders requires product"),
            ("create", row(json!([1])), "create takes an object of field names to values"),
            (
                "create",
                row(json!({"id": 7})),
                "id is not writable on orders - this node writes product, quantity, status, note",
            ),
            ("create", row(json!({"product": 5})), "product holds TEXT and was given a number"),
            ("create", row(json!({"product": null})), "product cannot be null - it is declared TEXT not null"),
            ("create", row(json!({"product": "x", "quantity": 1.5})), "quantity holds INTEGER and was given a number"),
            (
                "update",
                json!(["orders", 1001, {"quantity": 1}]),
                "update needs the stamp the row was read under - ask getOne for one",
            ),
            ("update", json!(["orders", 1001, {}, "s"]), "update was given no fields to change"),
            ("delete", json!(["orders", 1001]), "delete needs the stamp the row was read under - ask getOne for one"),
        ] {
            assert_eq!(call(&mut orders, method, args), Err(refusal.to_owned()));
        }
        assert_eq!(orders.take_news(), None, "nothing was written");
    }

    #[test]
    fn the_board_is_bounded() {
        let mut orders = Orders::new();
        let make = |orders: &mut Orders| call(orders, "create", json!(["orders", {"product": "rye", "quantity": 5}]));
        while orders.rows.len() < ROOM {
            make(&mut orders).unwrap();
        }
        assert!(make(&mut orders).unwrap_err().contains("room"));
    }
}
