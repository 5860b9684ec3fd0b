//! Standard output and standard error of a subcommand for people.
//!
//! Layout and colour are for a terminal alone. There, what comes from a plant is cut to what somebody can look at; in a pipe
//! it is whole. Whoever stops reading ends the command quietly.

use std::{
    ffi::OsString,
    io::{ErrorKind, IsTerminal, Write},
};

use serde_json::Value as Json;

use super::ending::Failure;
use crate::mcp::text;

/// What is written for whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    /// Whether everything is JSON.
    pub(super) json: bool,
    terminal: bool,
    colour: bool,
}

/// Bytes of one result on a terminal; in a pipe there is no bound but the wire's.
const MOST_SHOWN: usize = 64 * 1024;
/// Bytes of one cell of a table, or of one line of words.
const CELL: usize = 256;

impl Out {
    /// Standard output as it is.
    pub(super) fn new(json: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name);
        let colour = terminal && wants_colour(set("NO_COLOR"), set("TERM"));
        Self { json, terminal, colour }
    }

    /// Writes `text` and ends the line.
    pub(super) fn say(self, text: &str) -> Result<(), Failure> {
        let (shown, cut) = if self.terminal { text::cut(text, MOST_SHOWN) } else { (text, false) };
        let ending = if cut { text::ELLIPSIS } else { "" };
        write_out(&format!("{shown}{ending}\n"))?;
        if cut {
            self.note(&format!("{} of {} bytes are shown; in a pipe or a file all are", shown.len(), text.len()));
        }
        Ok(())
    }

    /// One JSON value as one line.
    pub(super) fn line(self, json: &Json) -> String {
        let line = text::compact(json);
        match if self.terminal { text::cut(&line, MOST_SHOWN) } else { (line.as_str(), false) } {
            (head, true) => format!("{head}{}\n", text::ELLIPSIS),
            (whole, false) => format!("{whole}\n"),
        }
    }

    /// Says something about the result, beside it.
    pub(super) fn note(self, text: &str) {
        self.report(&text::one_line(text));
    }

    /// The same of what is harmless already.
    #[expect(clippy::unused_self, reason = "said through the same hand as the result")]
    pub(super) fn report(self, line: &str) {
        // With standard error closed there is nobody to tell.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }

    /// A word that heads what follows.
    pub(super) fn heading(self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Rows in aligned columns below their heads on a terminal; in a pipe one tab between cells, and no heads.
    pub(super) fn table(self, heads: &[&str], rows: &[Vec<String>]) -> String {
        let cells = |row: &Vec<String>| row.iter().map(|cell| shown(cell)).collect::<Vec<String>>();
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        if !self.terminal {
            return rows.iter().map(|row| row.join("\t")).collect::<Vec<_>>().join("\n");
        }
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        let width = |column: usize| {
            let cells = rows.iter().chain([&heads]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let head = self.heading(&line(&heads));
        [head].into_iter().chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
    }
}

/// Words of a plant as they may stand in a line: harmless, and not too long.
pub(super) fn shown(words: &str) -> String {
    let (head, cut) = text::cut(words, CELL);
    let head = text::one_line(head);
    if cut { head + text::ELLIPSIS } else { head }
}

/// Writes to standard output now. Blocks for as long as whoever reads it takes.
pub(super) fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Broken(format!("standard output: {error}")),
    })
}

/// no-color.org: set and not empty, it forbids colour.
fn wants_colour(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        vec![vec!["a\u{1b}[31m".into(), "1".into()], vec!["bakery".into(), "x\ty".into()]]
    }

    /// Columns and colour on a terminal, tabs in a pipe; control characters nowhere.
    #[test]
    fn a_table_is_laid_out_for_whom_it_is_for() {
        let terminal = Out { json: false, terminal: true, colour: false };
        assert_eq!(terminal.table(&["NAME", "N"], &rows()), "NAME         N\na\\u001b[31m  1\nbakery       x\\ty");
        let colour = Out { colour: true, ..terminal };
        assert!(colour.table(&["NAME", "N"], &rows()).starts_with("\u{1b}[1mNAME         N\u{1b}[0m\n"));
        let pipe = Out { terminal: false, ..terminal };
        assert_eq!(pipe.table(&["NAME", "N"], &rows()), "a\\u001b[31m\t1\nbakery\tx\\ty");
        assert_eq!(pipe.heading("x"), "x");
    }

    #[test]
    fn colour_is_left_out_where_it_is_not_wanted() {
        let set = |text: &str| Some(OsString::from(text));
        assert!(wants_colour(None, set("xterm")) && wants_colour(set(""), None));
        assert!(!wants_colour(set("1"), set("xterm")) && !wants_colour(None, set("dumb")));
    }

    #[test]
    fn words_of_a_plant_are_cut_and_harmless() {
        assert!(shown(&"é".repeat(10_000)).len() <= CELL && shown("a\u{202e}b") == "a\\u202eb");
    }
}
