//! Pages of long lists (results.md 4): bounded in entries and bytes, continued by a cursor that only we can make.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value as Json};

use super::{
    CallContext,
    cursor::{Cursors, Position},
    error::{NextCall, ToolError},
    text,
};

/// How many entries a page may have: 1 to 500, 50 when the call does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit(u16);

impl Limit {
    /// As many as a page may have.
    pub const MOST: Self = Self(500);

    /// The number.
    pub const fn entries(self) -> usize {
        self.0 as usize
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(50)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = u16::deserialize(deserializer)?;
        (1..=500).contains(&entries).then_some(Self(entries)).ok_or_else(|| D::Error::custom("1 to 500"))
    }
}

impl JsonSchema for Limit {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer", "minimum": 1, "maximum": 500, "default": 50, "description": "Most entries of a page."
        })
    }
}

/// How much of each entry to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Strings over 256 bytes are cut.
    #[default]
    Concise,
    /// Everything, up to 12 288 bytes an entry.
    Detailed,
}

/// What every page says about itself; flatten it into the result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PageInfo {
    /// Entries over all pages.
    pub matched: u64,
    /// Entries of this page.
    pub returned: u64,
    /// Whether something is missing: more entries, or parts of these.
    pub truncated: bool,
    /// The exact next call that shows more, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<NextCall>,
    /// Where the next page starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a page is a page of.
#[derive(Clone, Copy, Debug)]
pub struct Pager<'a> {
    cursors: &'a Cursors,
    tool: &'a str,
    arguments: &'a Map<String, Json>,
    limit: Limit,
    format: Format,
    cursor: Option<&'a str>,
}

impl<'a> Pager<'a> {
    /// The pages of this call. `arguments` are its arguments without `cursor`, as they are to be repeated for the next
    /// page; those other than `limit` and `format` are the filters a cursor is bound to.
    pub fn of(
        context: &'a CallContext,
        arguments: &'a Map<String, Json>,
        limit: Limit,
        format: Format,
        cursor: Option<&'a str>,
    ) -> Self {
        Self::over(context.cursors(), context.tool, arguments, limit, format, cursor)
    }

    /// The pages of a list that is no tool's.
    pub(super) fn over(
        cursors: &'a Cursors,
        what: &'a str,
        arguments: &'a Map<String, Json>,
        limit: Limit,
        format: Format,
        cursor: Option<&'a str>,
    ) -> Self {
        Self { cursors, tool: what, arguments, limit, format, cursor }
    }

    /// The generation that the cursor of the call goes on in; nothing without a cursor.
    ///
    /// # Errors
    ///
    /// `stale_cursor` if the cursor is not one of ours for this tool and these filters.
    pub fn generation(&self) -> Result<Option<u64>, ToolError> {
        match self.position()? {
            None => Ok(None),
            Some(Position::At { generation, .. }) => Ok(Some(generation)),
            Some(Position::After(_)) => Err(Cursors::stale()),
        }
    }

    /// A page of a list sorted by a unique key. It continues after the last key seen, so a list that moves can be paged.
    ///
    /// # Errors
    ///
    /// `stale_cursor` if the cursor is not one of ours for this tool and these filters.
    pub fn keyed<K: AsRef<str>, T: Serialize>(
        &self,
        sorted: impl IntoIterator<Item = (K, T)>,
    ) -> Result<(Vec<Json>, PageInfo), ToolError> {
        let after = match self.position()? {
            None => None,
            Some(Position::After(key)) => Some(key),
            Some(Position::At { .. }) => return Err(Cursors::stale()),
        };
        let mut page = Filling::new(self);
        for (key, entry) in sorted {
            page.matched += 1;
            if after.as_deref().is_some_and(|after| key.as_ref() <= after) {
                continue;
            }
            page.offer(&entry, || Position::After(key.as_ref().to_owned()));
        }
        Ok(page.finish(self))
    }

    /// A page of a list that stands still as long as `generation` stays the same. A cursor of another generation is
    /// stale.
    ///
    /// # Errors
    ///
    /// `stale_cursor` as above, or when the generation has changed.
    pub fn indexed<T: Serialize>(
        &self,
        generation: u64,
        entries: impl IntoIterator<Item = T>,
    ) -> Result<(Vec<Json>, PageInfo), ToolError> {
        let start = match self.position()? {
            None => 0,
            Some(Position::At { generation: then, index }) if then == generation => index,
            Some(Position::At { .. } | Position::After(_)) => return Err(Cursors::stale()),
        };
        let mut page = Filling::new(self);
        for (index, entry) in (0_u64..).zip(entries) {
            page.matched += 1;
            if index >= start {
                page.offer(&entry, || Position::At { generation, index: index + 1 });
            }
        }
        Ok(page.finish(self))
    }

    /// The cursor of this very page of a list that will not be made again.
    ///
    /// # Errors
    ///
    /// `stale_cursor` as above.
    pub fn again(&self, generation: u64) -> Result<String, ToolError> {
        let here = self.position()?.unwrap_or(Position::At { generation, index: 0 });
        Ok(self.cursors.seal(self.tool, &self.filters(), &here))
    }

    fn position(&self) -> Result<Option<Position>, ToolError> {
        self.cursor.map(|cursor| self.cursors.open(self.tool, &self.filters(), cursor)).transpose()
    }

    fn filters(&self) -> Vec<(&str, &Json)> {
        let free = ["limit", "format", "cursor"];
        let mut filters: Vec<_> = self.arguments.iter().map(|(key, value)| (key.as_str(), value)).collect();
        filters.retain(|(key, _)| !free.contains(key));
        filters.sort_unstable_by_key(|(key, _)| *key);
        filters
    }
}

/// A page being filled.
struct Filling {
    entries: Vec<Json>,
    limit: usize,
    format: Format,
    bytes: usize,
    matched: u64,
    last: Option<Position>,
    full: bool,
    strings_cut: bool,
    entries_cut: bool,
}

impl Filling {
    const fn new(pager: &Pager<'_>) -> Self {
        Self {
            entries: Vec::new(),
            limit: pager.limit.entries(),
            format: pager.format,
            bytes: 0,
            matched: 0,
            last: None,
            full: false,
            strings_cut: false,
            entries_cut: false,
        }
    }

    fn offer(&mut self, entry: &impl Serialize, position: impl FnOnce() -> Position) {
        if self.full || self.entries.len() >= self.limit {
            self.full = true;
            return;
        }
        let mut json = serde_json::to_value(entry).unwrap_or_default();
        let strings_cut = self.format == Format::Concise && cut_strings(&mut json);
        let mut bytes = size(&json);
        let entry_cut = bytes > MAX_ENTRY;
        if entry_cut {
            json = head_of(json, bytes);
            bytes = size(&json);
        }
        if !self.entries.is_empty() && self.bytes + bytes + 1 > MAX_PAGE - FOOTER {
            self.full = true;
            return;
        }
        self.bytes += bytes + 1;
        self.strings_cut |= strings_cut;
        self.entries_cut |= entry_cut;
        self.last = Some(position());
        self.entries.push(json);
    }

    fn finish(self, pager: &Pager<'_>) -> (Vec<Json>, PageInfo) {
        let next_cursor = match (&self.last, self.full) {
            (Some(last), true) => Some(pager.cursors.seal(pager.tool, &pager.filters(), last)),
            _ => None,
        };
        let more_of_these = self.strings_cut.then(|| ("format", Json::from("detailed")));
        let next = next_cursor.as_deref().map(|cursor| ("cursor", Json::from(cursor))).or(more_of_these);
        let hint = next.map(|(key, value)| {
            let (large, small): (Vec<_>, Vec<_>) =
                pager.arguments.iter().partition(|(_, value)| size(value) > MAX_REPEATED);
            let mut arguments: Map<_, _> = small.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            arguments.insert(key.to_owned(), value);
            let repeat = large.into_iter().map(|(key, _)| key.clone()).collect();
            NextCall { repeat, ..NextCall::new(pager.tool, arguments) }
        });
        let info = PageInfo {
            matched: self.matched,
            returned: self.entries.len() as u64,
            truncated: self.full || self.strings_cut || self.entries_cut,
            hint,
            next_cursor,
        };
        (self.entries, info)
    }
}

/// Cuts every string over 256 bytes; says whether there was one.
fn cut_strings(json: &mut Json) -> bool {
    match json {
        Json::String(long) => {
            let (kept, cut) = text::cut(long, MAX_STRING);
            if cut {
                *long = format!("{kept}{}", text::ELLIPSIS);
            }
            cut
        }
        Json::Array(items) => items.iter_mut().fold(false, |cut, item| cut_strings(item) | cut),
        Json::Object(members) => members.values_mut().fold(false, |cut, value| cut_strings(value) | cut),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// The head of an entry that is too large, with `truncated` and `bytes` beside what is left of it.
fn head_of(json: Json, bytes: usize) -> Json {
    let mut left = MAX_ENTRY - FOOTER;
    let mut members = match head(json, &mut left) {
        Some(Json::Object(members)) => members,
        Some(other) => [("head".to_owned(), other)].into_iter().collect(),
        None => Map::new(),
    };
    members.insert("truncated".to_owned(), true.into());
    members.insert("bytes".to_owned(), bytes.into());
    Json::Object(members)
}

/// As much of `json`, from its beginning, as `left` bytes hold; `None` if not even a part of it fits.
fn head(json: Json, left: &mut usize) -> Option<Json> {
    let bytes = size(&json);
    if bytes <= *left {
        *left -= bytes;
        return Some(json);
    }
    *left = left.checked_sub(2)?;
    match json {
        Json::String(long) => {
            // An escaped byte takes up to six.
            let (kept, _) = text::cut(&long, *left / 6);
            *left = 0;
            Some(Json::String(format!("{kept}{}", text::ELLIPSIS)))
        }
        Json::Array(items) => {
            let mut kept = Vec::new();
            for item in items {
                *left = left.saturating_sub(1);
                let Some(item) = head(item, left) else { break };
                kept.push(item);
                if *left == 0 {
                    break;
                }
            }
            Some(Json::Array(kept))
        }
        Json::Object(members) => {
            let mut kept = Map::new();
            for (key, value) in members {
                let Some(rest) = left.checked_sub(key.len() * 6 + 4) else { break };
                *left = rest;
                let Some(value) = head(value, left) else { break };
                kept.insert(key, value);
            }
            Some(Json::Object(kept))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => None,
    }
}

/// The length of the JSON of `json`, without writing it.
fn size(json: &Json) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, json);
    count.0
}

/// Bytes of JSON a page ends at.
const MAX_PAGE: usize = 20_480;
/// Bytes of JSON beyond which an entry is cut.
const MAX_ENTRY: usize = 12_288;
/// Bytes beyond which the concise format cuts a string.
const MAX_STRING: usize = 256;
/// Bytes of JSON of an argument that the call for the next page repeats; a larger one is only named there. A contract of
/// megabytes would make of every page what pages are for to avoid.
const MAX_REPEATED: usize = 1024;
/// Bytes kept free for what stands beside the entries.
const FOOTER: usize = 1_024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cursors() -> Cursors {
        Cursors::new([7; 32])
    }

    fn pager<'a>(cursors: &'a Cursors, arguments: &'a Map<String, Json>, cursor: Option<&'a str>) -> Pager<'a> {
        let limit =
            arguments.get("limit").map_or_else(Limit::default, |limit| serde_json::from_value(limit.clone()).unwrap());
        let format =
            arguments.get("format").map_or(Format::Concise, |format| serde_json::from_value(format.clone()).unwrap());
        Pager { cursors, tool: "list", arguments, limit, format, cursor }
    }

    fn arguments(json: &Json) -> Map<String, Json> {
        json.as_object().unwrap().clone()
    }

    fn names(count: usize) -> Vec<(String, Json)> {
        (0..count).map(|at| (format!("p{at:04}"), json!({"name": format!("p{at:04}")}))).collect()
    }

    /// However many there are, each is looked at once and only what is on the page is written: of two links with 2 000
    /// peers each that is a page of them.
    #[test]
    fn only_what_is_on_the_page_is_written() {
        struct Counting<'a>(&'a std::cell::Cell<usize>, usize);
        impl Serialize for Counting<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.set(self.0.get() + 1);
                serializer.serialize_u64(self.1 as u64)
            }
        }
        let (cursors, arguments) = (cursors(), arguments(&json!({})));
        let mut cursor = None::<String>;
        for page in 0..3 {
            let (looked, written) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
            let entries = (0..4_000).map(|at| {
                looked.set(looked.get() + 1);
                (format!("p{at:04}"), Counting(&written, at))
            });
            let (entries, info) = pager(&cursors, &arguments, cursor.as_deref()).keyed(entries).unwrap();
            assert_eq!((looked.get(), written.get(), info.matched), (4_000, 50, 4_000), "page {page}");
            assert_eq!(entries[0], page * 50);
            cursor = info.next_cursor;
        }
    }

    /// results.md 4: 50 by default, `matched` over all pages, an exact next call, and in the end everything once.
    #[test]
    fn a_keyed_list_is_read_whole_and_once() {
        let (cursors, arguments) = (cursors(), arguments(&json!({"q": "x"})));
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let (entries, info) = pager(&cursors, &arguments, cursor.as_deref()).keyed(names(120)).unwrap();
            assert_eq!((info.matched, info.returned), (120, entries.len() as u64));
            assert_eq!(info.truncated, info.next_cursor.is_some());
            seen.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
            let Some(next) = info.next_cursor else { break };
            assert_eq!(entries.len(), 50);
            let hint = info.hint.unwrap();
            assert_eq!(
                (hint.tool.as_str(), &hint.arguments["q"], &hint.arguments["cursor"]),
                ("list", &json!("x"), &json!(next))
            );
            cursor = Some(next);
        }
        assert_eq!(seen, names(120).into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    }

    /// results.md 4: a page is bounded whatever it was asked with: a large argument is named, and its cursor is bound to it.
    #[test]
    fn a_large_argument_is_named_and_not_repeated() {
        let (cursors, contract) = (cursors(), json!({"types": "x".repeat(100_000)}));
        let arguments = arguments(&json!({"q": "y".repeat(1_000), "schema": contract}));
        let (entries, info) = pager(&cursors, &arguments, None).keyed(names(120)).unwrap();
        let hint = info.hint.clone().unwrap();
        assert_eq!(hint.arguments.keys().collect::<Vec<_>>(), ["q", "cursor"]);
        assert_eq!(hint.repeat, ["schema"]);
        assert!(size(&json!({"entries": entries, "page": info})) <= MAX_PAGE);
        let next = info.next_cursor.as_deref();
        assert!(pager(&cursors, &arguments, next).keyed(names(120)).is_ok());
        let other = self::arguments(&json!({"q": "y".repeat(1_000), "schema": {}}));
        assert!(pager(&cursors, &other, next).keyed(names(120)).is_err(), "another contract is another list");
    }

    /// results.md 4: a list sorted by a key continues after that key, so that a roster that moves can still be paged.
    #[test]
    fn a_keyed_list_may_move() {
        let (cursors, arguments) = (cursors(), arguments(&json!({"limit": 2})));
        let (_, info) = pager(&cursors, &arguments, None).keyed([("a", 1), ("c", 3), ("e", 5)]).unwrap();
        let next = info.next_cursor.unwrap();
        let (entries, _) = pager(&cursors, &arguments, Some(&next)).keyed([("b", 2), ("d", 4), ("e", 5)]).unwrap();
        assert_eq!(entries, [json!(4), json!(5)]);
    }

    /// results.md 4: a log or a state binds the cursor to its generation; anything else is `stale_cursor`.
    #[test]
    fn an_indexed_list_is_bound_to_its_generation() {
        let (cursors, arguments) = (cursors(), arguments(&json!({"limit": 3})));
        let (_, info) = pager(&cursors, &arguments, None).indexed(9, 0..5).unwrap();
        let next = info.next_cursor.unwrap();
        let (entries, info) = pager(&cursors, &arguments, Some(&next)).indexed(9, 0..5).unwrap();
        assert_eq!((entries, info.truncated), (vec![json!(3), json!(4)], false));
        for error in [
            pager(&cursors, &arguments, Some(&next)).indexed(10, 0..5).unwrap_err(),
            pager(&cursors, &arguments, Some(&next)).keyed([("a", 1)]).unwrap_err(),
        ] {
            assert_eq!(error.code(), crate::mcp::ErrorCode::StaleCursor);
        }
    }

    /// results.md 4: a cursor is bound to tool and filters, not to `limit` and `format`.
    #[test]
    fn a_cursor_is_bound_to_its_filters() {
        let cursors = cursors();
        let first = arguments(&json!({"limit": 1, "q": "x", "r": 1}));
        let next = pager(&cursors, &first, None).keyed(names(3)).unwrap().1.next_cursor.unwrap();
        let same = arguments(&json!({"r": 1, "q": "x", "limit": 2, "format": "detailed"}));
        assert!(pager(&cursors, &same, Some(&next)).keyed(names(3)).is_ok());
        let other = arguments(&json!({"limit": 1, "q": "y", "r": 1}));
        assert!(pager(&cursors, &other, Some(&next)).keyed(names(3)).is_err());
        let mut tool = pager(&cursors, &first, Some(&next));
        tool.tool = "other";
        assert!(tool.keyed(names(3)).is_err());
    }

    /// results.md 4: a page ends at 20 480 bytes and carries at least one entry.
    #[test]
    fn a_page_is_bounded_in_bytes() {
        let (cursors, arguments) = (cursors(), arguments(&json!({"limit": 500, "format": "detailed"})));
        let large = |count: usize, bytes: usize| {
            (0..count).map(move |at| (format!("{at:03}"), json!({"t": "x".repeat(bytes)})))
        };
        let (entries, info) = pager(&cursors, &arguments, None).keyed(large(30, 1000)).unwrap();
        assert!(size(&json!({"entries": entries, "page": info})) <= MAX_PAGE && entries.len() > 15);
        assert!(info.truncated && info.next_cursor.is_some());
        let (entries, info) = pager(&cursors, &arguments, None).keyed(large(3, 50_000)).unwrap();
        assert!(!entries.is_empty() && size(&json!(entries)) <= MAX_PAGE && info.truncated);
    }

    /// results.md 4: concise cuts strings over 256 bytes, and the hint is how to see them whole.
    #[test]
    fn concise_cuts_long_strings() {
        let (cursors, arguments) = (cursors(), arguments(&json!({})));
        let entry = json!({"a": "é".repeat(200), "b": ["x".repeat(256)]});
        let (entries, info) = pager(&cursors, &arguments, None).keyed([("k", &entry)]).unwrap();
        let cut = entries[0]["a"].as_str().unwrap();
        assert!(cut.len() <= 256 && cut.ends_with('…'), "{}", cut.len());
        assert_eq!(entries[0]["b"][0].as_str().unwrap().len(), 256);
        assert!(info.truncated && info.next_cursor.is_none());
        assert_eq!(info.hint.unwrap().arguments, *json!({"format": "detailed"}).as_object().unwrap());
    }

    /// results.md 4: both formats cut an entry over 12 288 bytes to a head plus `{truncated, bytes}`.
    #[test]
    fn a_huge_entry_is_cut_to_a_head() {
        let (cursors, arguments) = (cursors(), arguments(&json!({"format": "detailed"})));
        for entry in [
            json!({"name": "n", "state": {"a": [1, 2, 3], "b": "\u{1}".repeat(30_000)}}),
            json!((0..9000).collect::<Vec<_>>()),
            json!("x".repeat(100_000)),
            json!({"list": vec!["y".repeat(100); 500], "z": 1}),
        ] {
            let whole = size(&entry);
            let (entries, info) = pager(&cursors, &arguments, None).keyed([("k", entry)]).unwrap();
            assert!(size(&entries[0]) <= MAX_ENTRY, "{}", size(&entries[0]));
            assert!(size(&entries[0]) > 1000, "a head is left: {}", size(&entries[0]));
            assert_eq!((&entries[0]["truncated"], &entries[0]["bytes"]), (&json!(true), &json!(whole)));
            assert!(info.truncated);
        }
    }
}
