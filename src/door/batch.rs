//! Batches, which are refused: one answer for each member that has an id (results.md 5, F-04). Nothing in them runs.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value as Json;

use super::{guard::Refusal, scan::MAX_ID};

/// Answers one batch gets at most; what lies beyond is answered together.
pub(super) const MAX_ANSWERS: usize = 1_024;

/// The answers to a batch.
pub(super) fn refusals(line: &str) -> Vec<Refusal> {
    let Ids { ids, others } = match serde_json::from_str(line) {
        Ok(ids) => ids,
        Err(problem) => return vec![Refusal::unreadable(None, format!("the message is not JSON: {problem}"))],
    };
    let refusal = |id| Refusal::invalid(id, "batches are not taken; send one request at a time");
    if ids.is_empty() {
        return vec![refusal(None)];
    }
    let rest =
        (others > 0).then(|| Refusal::invalid(None, format!("{others} more requests of this batch are refused")));
    ids.into_iter().map(|id| refusal(Some(id))).chain(rest).collect()
}

/// The ids of a batch, as many as are answered one by one, and how many there are beyond.
struct Ids {
    ids: Vec<Json>,
    others: usize,
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(IdsVisitor)
    }
}

struct IdsVisitor;

impl<'de> Visitor<'de> for IdsVisitor {
    type Value = Ids;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Ids, A::Error> {
        let mut ids = Ids { ids: Vec::new(), others: 0 };
        while let Some(Member(id)) = members.next_element()? {
            match id {
                None => {}
                Some(id) if ids.ids.len() < MAX_ANSWERS => ids.ids.push(id),
                Some(_) => ids.others += 1,
            }
        }
        Ok(ids)
    }
}

/// One member of a batch: its id, if it is an object that names one.
struct Member(Option<Json>);

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberVisitor)
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Member, A::Error> {
        let mut found = None;
        while let Some(key) = members.next_key::<String>()? {
            if key == "id" {
                found = Some(members.next_value::<Json>()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Member(found.filter(|id| id.is_number() || id.as_str().is_some_and(|id| id.len() <= MAX_ID))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Member, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Member(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Member, E> {
        Ok(Member(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Member, E> {
        Ok(Member(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Member, E> {
        Ok(Member(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Member, E> {
        Ok(Member(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Member, E> {
        Ok(Member(None))
    }

    fn visit_unit<E>(self) -> Result<Member, E> {
        Ok(Member(None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids(line: &str) -> Vec<(Json, i32)> {
        refusals(line).into_iter().map(|refusal| (refusal.id, refusal.code)).collect()
    }

    /// results.md 5: one -32600 for each member that has an id; a batch without any is still answered once.
    #[test]
    fn each_member_with_an_id_is_answered() {
        let line = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"method":"n"},{"id":"b"},5,null,"x",[{"id":9}],{"id":null},true,1.5,-1]"#;
        assert_eq!(ids(line), [(json!(1), -32600), (json!("b"), -32600)]);
        for line in ["[]", "[1]", r#"[{"method":"n"}]"#] {
            assert_eq!(ids(line), [(json!(null), -32600)], "{line}");
        }
        assert_eq!(ids(r#"[{"id":1}"#), [(json!(null), -32700)]);
    }

    /// A batch cannot make us hold more answers than it has room for.
    #[test]
    fn the_answers_are_bounded() {
        let line = format!("[{}]", vec![r#"{"id":1}"#; MAX_ANSWERS + 500].join(","));
        let answers = refusals(&line);
        assert_eq!(answers.len(), MAX_ANSWERS + 1);
        assert!(answers[MAX_ANSWERS].message.starts_with("500 more"));
    }
}
