//! The table of the verbs in benches/README.md: written by a run, and by nothing else.

use std::fs;

use super::Measured;
use crate::install::repository;

const BEGIN: &str = "<!-- verbs: begin -->\n";
const END: &str = "<!-- verbs: end -->";

/// Writes what was measured between its marks.
pub(in crate::bench) fn write(measured: &Measured) -> Result<(), String> {
    let file = repository().join("benches/README.md");
    let readme = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let fresh = between(&readme, &measured.to_string()).ok_or("benches/README.md has no marks for the verbs")?;
    fs::write(&file, fresh).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("benches/README.md has the table of this run");
    Ok(())
}

fn between(readme: &str, table: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}\n{END}{after}", table.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_the_place_of_the_one_before() {
        let readme = format!("a\n{BEGIN}old\n{END}\nb\n");
        assert_eq!(between(&readme, "| new |\n").unwrap(), format!("a\n{BEGIN}| new |\n{END}\nb\n"));
        assert_eq!(between("a", "b"), None);
        let file = fs::read_to_string(repository().join("benches/README.md")).unwrap();
        assert!(between(&file, "").is_some(), "benches/README.md has the marks");
    }
}
