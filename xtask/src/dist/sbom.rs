//! The bill of materials of one binary, in the JSON of CycloneDX 1.6.

use serde_json::{Value as Json, json};

use super::archive::Date;
use super::linked::{Key, Linked};

/// Writes it. `hash` is the SHA-256 of the binary, in hexadecimal; `rust` the version of the compiler, whose library is linked too.
pub(super) fn write(linked: &Linked, version: &str, triple: &str, hash: &str, rust: &str, date: Date) -> Json {
    let own = ("plantbridge".to_owned(), version.to_owned());
    let components = linked.crates.iter().map(|one| {
        json!({
            "type": "library",
            "bom-ref": purl(&one.key()),
            "name": one.name,
            "version": one.version,
            "scope": "required",
            "hashes": [{"alg": "SHA-256", "content": one.checksum}],
            "licenses": [{"expression": one.licence}],
            "purl": purl(&one.key()),
        })
    });
    let standard = format!("pkg:generic/rust-std@{rust}");
    let library = json!({
        "type": "library",
        "bom-ref": standard,
        "name": "rust-std",
        "version": rust,
        "description": "the standard library of Rust, which holds musl as its C library",
        "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": standard,
    });
    let refs = |needs: &[Key]| needs.iter().map(purl).collect::<Vec<_>>();
    let mut direct = refs(&linked.direct);
    direct.push(standard.clone());
    let mut edges = vec![json!({"ref": purl(&own), "dependsOn": direct})];
    edges.extend(linked.crates.iter().map(|one| json!({"ref": purl(&one.key()), "dependsOn": refs(&one.needs)})));
    edges.push(json!({"ref": standard, "dependsOn": []}));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": date.text(),
            "component": {
                "type": "application",
                "bom-ref": purl(&own),
                "name": own.0,
                "version": own.1,
                "hashes": [{"alg": "SHA-256", "content": hash}],
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "purl": purl(&own),
                "properties": [{"name": "plantbridge:target", "value": triple}],
            },
        },
        "components": components.chain([library]).collect::<Vec<_>>(),
        "dependencies": edges,
    })
}

/// The address of a package; a plus has a meaning of its own there.
fn purl((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dist::{RUNTIME, linked};
    use crate::install;

    /// Each crate is the one that Cargo.lock pins, by name, version and hash, and every reference leads somewhere.
    #[test]
    fn the_bill_agrees_with_the_lock_file() {
        let linked = linked::of(RUNTIME).unwrap();
        let bill = write(&linked, "0.1.0", RUNTIME, &"0".repeat(64), "1.95.0", Date(0));
        let pinned = linked::checksums(&install::repository().join("Cargo.lock")).unwrap();
        let list = |value: &Json| value.as_array().unwrap().clone();
        let components = list(&bill["components"]);
        assert_eq!(components.len(), linked.crates.len() + 1);
        for one in components.iter().filter(|one| one["name"] != "rust-std") {
            let text = |name: &str| one[name].as_str().unwrap().to_owned();
            let key = (text("name"), text("version"));
            assert_eq!(one["hashes"][0]["content"], pinned[&key].as_str(), "{key:?}");
            assert_eq!(text("purl").replace("%2B", "+"), format!("pkg:cargo/{}@{}", key.0, key.1));
            assert!(!text("purl").contains('+'), "{key:?}");
        }
        let own = &bill["metadata"]["component"]["bom-ref"];
        let refs: BTreeSet<String> =
            components.iter().map(|one| &one["bom-ref"]).chain([own]).map(ToString::to_string).collect();
        assert_eq!(refs.len(), components.len() + 1, "every reference is one thing's");
        let edges = list(&bill["dependencies"]);
        assert_eq!(edges.iter().map(|edge| edge["ref"].to_string()).collect::<BTreeSet<_>>(), refs);
        let reached: BTreeSet<String> =
            edges.iter().flat_map(|edge| list(&edge["dependsOn"])).map(|edge| edge.to_string()).collect();
        let mut all_but_own = refs;
        all_but_own.remove(&own.to_string());
        assert_eq!(reached, all_but_own, "everything is linked because something needs it");
    }
}
