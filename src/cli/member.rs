//! `namespace.member`, as it is typed.

use std::str::FromStr;

/// A method or an event of a namespace. The last dot divides: names of namespaces may have dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The longest name a peer is asked for.
const LONGEST: usize = 1_024;

impl FromStr for Member {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        match typed.rsplit_once('.') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && typed.len() <= LONGEST => {
                Ok(Self { namespace: namespace.into(), name: name.into() })
            }
            _ => Err("expected a namespace, a dot and a name, such as oven.read".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dot_divides() {
        let member: Member = "orders.write.update".parse().unwrap();
        assert_eq!((member.namespace.as_str(), member.name.as_str()), ("orders.write", "update"));
        for typed in ["", "oven", ".read", "oven.", "."] {
            assert!(typed.parse::<Member>().is_err(), "{typed}");
        }
        assert!(format!("a.{}", "b".repeat(LONGEST)).parse::<Member>().is_err());
    }
}
