//! Values between the engine and the lines it is spoken to in: JSON, with the same tags for dates and odd numbers as in
//! the tools (`wire::tagged`). A date is a `Date` in there; bytes stay tagged, for the language has no literal for them.

use std::{cell::Cell, str::Utf8Error};

use rquickjs::{
    Array, Coerced, Ctx, Error, Filter, Function, Object, Result, Type, Value as Held,
    function::{Constructor, This},
    object::Property,
};
use serde_json::{Map, Value as Json};

use crate::wire::{Value, tagged::to_json};

/// Converts. It holds what it needs of the language as that was at first, whatever handlers do to it later.
pub(super) struct Converter<'js> {
    date: Constructor<'js>,
    iso: Function<'js>,
    /// What keeps what it holds where no key of an object shows it, with what is said of it.
    closed: Vec<(Constructor<'js>, &'static str)>,
    /// What is left to be taken of one value.
    items: Cell<usize>,
    bytes: Cell<usize>,
}

impl<'js> Converter<'js> {
    pub(super) fn new(ctx: &Ctx<'js>) -> Result<Self> {
        let date: Constructor<'js> = ctx.globals().get("Date")?;
        let iso = date.get::<_, Object<'js>>("prototype")?.get("toISOString")?;
        let closed = CLOSED.iter().filter_map(|(name, what)| Some((ctx.globals().get(*name).ok()?, *what))).collect();
        Ok(Self { date, iso, closed, items: Cell::new(0), bytes: Cell::new(0) })
    }

    /// What `json` stands for, in the engine.
    pub(super) fn put(&self, ctx: &Ctx<'js>, json: Json) -> Result<Held<'js>> {
        Ok(match json {
            Json::Null => Held::new_null(ctx.clone()),
            Json::Bool(bit) => Held::new_bool(ctx.clone(), bit),
            Json::Number(number) => Held::new_number(ctx.clone(), number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => rquickjs::String::from_str(ctx.clone(), &text)?.into_value(),
            Json::Array(items) => {
                let array = Array::new(ctx.clone())?;
                for (at, item) in items.into_iter().enumerate() {
                    array.set(at, self.put(ctx, item)?)?;
                }
                array.into_value()
            }
            Json::Object(members) => self.put_object(ctx, members)?,
        })
    }

    fn put_object(&self, ctx: &Ctx<'js>, mut members: Map<String, Json>) -> Result<Held<'js>> {
        if members.len() == 1 {
            if let Some(Json::String(text)) = members.get("$date") {
                return self.date.construct((text.as_str(),));
            }
            if let Some(Json::String(text)) = members.get("$number") {
                return Ok(Held::new_float(ctx.clone(), text.parse().unwrap_or(f64::NAN)));
            }
            if let Some(Json::Object(inner)) = members.get_mut("$map") {
                members = std::mem::take(inner);
            }
        }
        let object = Object::new(ctx.clone())?;
        for (key, value) in members {
            // Defined, not set: `__proto__` is a key like any other.
            let value = Property::from(self.put(ctx, value)?).writable().enumerable().configurable();
            object.prop(key.as_str(), value)?;
        }
        Ok(object.into_value())
    }

    /// What a handler gave, for its caller. It may be anything, and its getters run.
    pub(super) fn take(&self, ctx: &Ctx<'js>, value: &Held<'js>) -> std::result::Result<Json, String> {
        self.items.set(MAX_ITEMS);
        self.bytes.set(MAX_BYTES);
        self.taken(value, 0).map_err(|refused| match refused {
            Refused::Value(what) => what,
            Refused::Engine(error) if error.is_exception() => {
                let text = ctx.catch().get::<Coerced<String>>();
                text.map_or_else(|_| "it cannot be read".into(), |text| text.0)
            }
            Refused::Engine(error) => error.to_string(),
        })
    }

    fn taken(&self, value: &Held<'js>, depth: usize) -> Taken {
        if depth > MAX_DEPTH {
            return refused(format!("it gave a value nested deeper than {MAX_DEPTH} levels, or one that holds itself"));
        }
        spend(&self.items, 1, || format!("it gave more than {MAX_ITEMS} values"))?;
        let no = |what: &str| refused(format!("it gave {what}, which is no value peers exchange"));
        match value.type_of() {
            Type::Uninitialized | Type::Undefined | Type::Null => Ok(Json::Null),
            Type::Bool => Ok(Json::Bool(value.as_bool().unwrap_or_default())),
            Type::Int | Type::Float => Ok(to_json(Value::Float(value.as_number().unwrap_or(f64::NAN)))),
            Type::String => self.text(value).map(Json::String),
            Type::Array => self.array(value, depth),
            Type::Object | Type::Proxy => self.object(value, depth),
            Type::Promise => refused("it gave a promise inside another value, where nothing awaits it"),
            Type::Exception => no("an error"),
            Type::Function | Type::Constructor => no("a function"),
            Type::Symbol => no("a symbol"),
            Type::BigInt => no("a big integer"),
            Type::Module | Type::Unknown => no("something"),
        }
    }

    fn text(&self, value: &Held<'js>) -> std::result::Result<String, Refused> {
        let text = value.get::<String>().map_err(|error| match error {
            Error::Utf8(Utf8Error { .. }) => Refused::Value("it gave text that is no Unicode".into()),
            other => Refused::Engine(other),
        })?;
        self.spend_bytes(text.len())?;
        Ok(text)
    }

    fn array(&self, value: &Held<'js>, depth: usize) -> Taken {
        let Some(array) = value.as_array() else { return Ok(Json::Null) };
        let mut items = Vec::new();
        for at in 0..array.len() {
            items.push(self.taken(&array.get::<Held<'js>>(at)?, depth + 1)?);
        }
        Ok(Json::Array(items))
    }

    fn object(&self, value: &Held<'js>, depth: usize) -> Taken {
        let Some(object) = value.as_object() else { return Ok(Json::Null) };
        if object.is_instance_of(self.date.as_value()) {
            let text: String = self.iso.call((This(object.clone()),))?;
            return Ok(tag("$date", &text));
        }
        // Its members would be none, and the caller would take `{}` for the whole of it.
        if let Some((_, what)) = self.closed.iter().find(|(kind, _)| object.is_instance_of(kind.as_value())) {
            return refused(format!("it gave {what}"));
        }
        let mut members = Map::new();
        for key in object.own_keys::<String>(Filter::default()) {
            let key = key?;
            let value: Held<'js> = object.get(key.as_str())?;
            if value.is_undefined() {
                continue; // as in JSON
            }
            self.spend_bytes(key.len())?;
            members.insert(key, self.taken(&value, depth + 1)?);
        }
        Ok(Json::Object(members))
    }

    fn spend_bytes(&self, bytes: usize) -> std::result::Result<(), Refused> {
        spend(&self.bytes, bytes, || format!("it gave more than {MAX_BYTES} bytes"))
    }
}

/// Why a value is not taken.
enum Refused {
    Value(String),
    Engine(Error),
}

type Taken = std::result::Result<Json, Refused>;

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

fn refused<T>(what: impl Into<String>) -> std::result::Result<T, Refused> {
    Err(Refused::Value(what.into()))
}

fn spend(left: &Cell<usize>, wanted: usize, over: impl FnOnce() -> String) -> std::result::Result<(), Refused> {
    left.set(left.get().checked_sub(wanted).ok_or_else(|| Refused::Value(over()))?);
    Ok(())
}

fn tag(name: &str, text: &str) -> Json {
    let mut members = Map::with_capacity(1);
    members.insert(name.to_owned(), text.into());
    Json::Object(members)
}

/// What no peer exchanges and what is to be given in its place.
const CLOSED: [(&str, &str); 2] = [
    ("Map", "a Map, which is no value peers exchange: give Object.fromEntries(map)"),
    ("Set", "a Set, which is no value peers exchange: give [...set]"),
];
/// How deeply what a handler gives may nest.
const MAX_DEPTH: usize = 64;
/// Values in what a handler gives.
const MAX_ITEMS: usize = 1 << 16;
/// Bytes of text in what a handler gives.
const MAX_BYTES: usize = 512 << 10;
