//! The work orders of the packaging line, pure: rows that somebody else may change as well, so that a change needs the
//! stamp its row was read under. A new order is open and dated by the store, whatever is sent.

use std::time::Duration;

use super::news::News;
use crate::{
    fake::rows::{Column, Holds, Key, Store, Table},
    node::Failure,
    wire::{Map, Value},
};

/// The orders by number.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    store: Store,
    /// How much later than it could the write half answers, in milliseconds.
    delay_ms: i64,
    /// Somebody notes something on every order just before it is changed here.
    meddled: bool,
    notes: u64,
    news: News,
}

/// The resource, in both halves of the store.
const ORDERS: &str = "orders";
/// 1 August 2026, noon: when the first orders were made.
const FIRST_MADE_MS: i64 = 1_785_585_600_000;

impl Orders {
    /// Three orders, of which two are open.
    pub(crate) fn new() -> Self {
        let mut table = Table::new(ORDERS, Key::Integer, true, columns(), 1001);
        for (number, product, quantity, status) in
            [(1001, "rye", 200, "open"), (1002, "spelt", 120, "done"), (1003, "wheat", 80, "open")]
        {
            let mut row = Map::new();
            row.insert("id", number);
            row.insert("product", product);
            row.insert("quantity", quantity);
            row.insert("status", status);
            row.insert("note", Value::Null);
            row.insert("created", Value::Date(FIRST_MADE_MS));
            // There is room for three, and their numbers differ.
            let _ = table.place(&number.to_string(), row);
        }
        Self { store: Store::new(vec![table]), delay_ms: 0, meddled: false, notes: 0, news: News::default() }
    }

    /// The state of the read half.
    pub(crate) fn state(&self) -> Map {
        let mut state = Map::new();
        for table in self.store.tables() {
            state.insert(table.resource(), table.shown());
        }
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
    fn meddle(&mut self, method: &str, id: Option<&Value>) {
        if !self.meddled || !["update", "delete"].contains(&method) {
            return;
        }
        let number = id.and_then(|id| id.as_str().map_or_else(|| id.as_i64(), |text| text.parse().ok()));
        let row = number.and_then(|number| self.store.table_mut(ORDERS)?.row_mut(number));
        let Some(row) = row else { return };
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
        let row = self.store.table_mut(ORDERS).and_then(|table| table.row_mut(number));
        let row = row.ok_or_else(|| Failure::exception(format!("there is no order {number}")))?;
        row.insert("status", "started");
        self.news.changed();
        Ok("started")
    }

    /// A call of the write half.
    ///
    /// # Errors
    /// What a store refuses, in a sentence.
    pub(crate) fn call(&mut self, method: &str, args: &[Value], now_ms: i64) -> Result<Value, Failure> {
        self.meddle(method, args.get(1));
        let answer = self.store.call(method, args, |row| row.insert("created", Value::Date(now_ms)));
        if self.store.take_changed() {
            self.news.changed();
        }
        answer
    }

    /// The new state if it changed since this was last asked.
    pub(crate) fn take_news(&mut self) -> Option<Map> {
        self.news.take().0.then(|| self.state())
    }
}

/// What may be written; the number and the date of an order are the store's.
fn columns() -> Vec<Column> {
    let column = |name: &str, holds| Column { holds, nullable: false, required: true, ..Column::anything(name) };
    vec![
        column("product", Holds::Text),
        column("quantity", Holds::Integer),
        Column { required: false, otherwise: Some("open".into()), ..column("status", Holds::Text) },
        Column { required: false, otherwise: Some(Value::Null), nullable: true, ..column("note", Holds::Text) },
    ]
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
        let mut refused = None;
        for _ in 0..1_000 {
            refused = refused.or(make(&mut orders).err());
        }
        assert!(refused.unwrap().contains("room"));
    }
}
