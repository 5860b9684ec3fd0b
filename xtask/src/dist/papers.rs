//! The licences of everything that is linked: a text that goes wherever the binary goes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::linked::{Crate, Linked};
use crate::command::first_line;
use crate::install;

/// Folders below a crate this deep are looked through.
const DEPTH: usize = 4;

/// Everything in one text: who, under which terms, and the terms. A text that many share stands once.
pub(super) fn third_party(linked: &Linked, musl: &Path) -> Result<String, String> {
    let mut list = String::from(HEAD);
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |text: String, of: String| texts.entry(text).or_default().insert(of);
    for one in &linked.crates {
        let name = format!("{} {}", one.name, one.version);
        let authors = if one.authors.is_empty() { String::new() } else { format!("; {}", one.authors.join(", ")) };
        let _ = writeln!(list, "{name}: {}{authors}", one.licence);
        for (of, text) in texts_of(one)? {
            add(text, if of.is_empty() { name.clone() } else { format!("{name} ({of})") });
        }
    }
    list.push_str("musl, the C library: MIT\n");
    add(read(musl)?, "musl".to_owned());
    for (text, whose) in by_whose(texts) {
        let _ = write!(list, "\n{RULE}\n{whose}\n{RULE}\n\n{}\n", text.trim());
    }
    Ok(list)
}

/// The licences of the standard library and of what it is made of, as the compiler's makers wrote them.
pub(super) fn standard_library() -> Result<PathBuf, String> {
    documents().map(|folder| folder.join("COPYRIGHT-library.html"))
}

fn documents() -> Result<PathBuf, String> {
    let root = first_line("rustc".as_ref(), &["--print", "sysroot"]).ok_or("rustc does not say where it is")?;
    Ok(Path::new(&root).join("share/doc/rust"))
}

const RULE: &str = "--------------------------------------------------------------------------------";

const HEAD: &str = "\
What is linked into plantbridge and is not part of it, and under which terms: the crates, with the expression each declares,
then the texts. The standard library of Rust has a list of its own, THIRD-PARTY-std.html.

";

/// The texts, in the order of those they belong to, each with a line that names them.
fn by_whose(texts: BTreeMap<String, BTreeSet<String>>) -> Vec<(String, String)> {
    let named = |whose: BTreeSet<String>| whose.into_iter().collect::<Vec<_>>().join(", ");
    let mut texts: Vec<(String, String)> = texts.into_iter().map(|(text, whose)| (text, named(whose))).collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    texts
}

/// What a crate brings, each with its folder below the crate; else the standard text of one licence that it offers.
fn texts_of(one: &Crate) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    collect(&one.folder, DEPTH, &mut found)?;
    if found.is_empty() {
        let offered = ["MIT", "Apache-2.0", "ISC"].into_iter().find(|id| names(&one.licence, id));
        let id = offered.ok_or_else(|| format!("{} brings no text of its licence, {}", one.name, one.licence))?;
        let text = read(&documents()?.join("licenses").join(format!("{id}.txt")))?;
        return Ok(vec![("brings no text; the usual one of the licence".into(), text)]);
    }
    let read = |path: PathBuf| {
        let folder = path.parent().and_then(|folder| folder.strip_prefix(&one.folder).ok());
        let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        read(&path).map(|text| (folder, text))
    };
    found.into_iter().map(read).collect()
}

/// Whether a licence may be chosen by an expression.
fn names(expression: &str, id: &str) -> bool {
    !expression.contains(" AND ") && expression.split(" OR ").any(|one| one == id)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in install::entries(folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && depth > 0 && !["tests", "benches", "examples"].contains(&name) {
            collect(&path, depth - 1, found)?;
        } else if path.is_file() && is_paper(name) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a file is about rights, by its name, and is no code.
fn is_paper(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let begins = ["license", "licence", "unlicense", "copying", "copyright", "notice", "patents"];
    let code = [".rs", ".c", ".h", ".js", ".py", ".toml", ".json"];
    begins.iter().any(|begin| name.starts_with(begin)) && !code.iter().any(|end| name.ends_with(end))
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::{RUNTIME, linked};

    /// Every crate is named with its terms, and no crate is without a text; what is C inside one has its own.
    #[test]
    fn every_crate_has_its_terms() {
        let linked = linked::of(RUNTIME).unwrap();
        let scratch = std::env::temp_dir().join(format!("xtask-papers-{}", std::process::id()));
        fs::write(&scratch, "the terms of musl").unwrap();
        let text = third_party(&linked, &scratch).unwrap();
        fs::remove_file(scratch).unwrap();
        let (list, texts) = text.split_once(RULE).unwrap();
        for one in &linked.crates {
            let name = format!("{} {}", one.name, one.version);
            assert!(list.contains(&format!("{name}: {}", one.licence)), "{name}");
            assert!(texts.contains(&name), "{name} has no text");
        }
        for there in ["ring 0.17.14 (third_party/fiat)", "(quickjs)", "Fabrice Bellard", "the terms of musl"] {
            assert!(texts.contains(there), "{there}");
        }
        let apache = texts.matches("TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION").count();
        assert!(apache * 5 < linked.crates.len(), "a text that many share stands {apache} times");
    }

    #[test]
    fn a_licence_that_is_only_a_part_is_not_enough() {
        assert!(names("MIT", "MIT") && names("Apache-2.0 OR MIT", "MIT"));
        assert!(!names("MIT AND Zlib", "MIT") && !names("(MIT OR Apache-2.0) AND Unicode-3.0", "MIT"));
        assert!(is_paper("LICENSE-MIT") && is_paper("COPYING") && is_paper("UNLICENSE") && is_paper("Notice.txt"));
        assert!(!is_paper("notice.rs") && !is_paper("README.md"));
    }
}
