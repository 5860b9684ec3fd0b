//! A page of the book, as its reader and its test see it: fenced blocks, each with the mark that stands before it.

use std::fs;
use std::path::Path;

/// A fenced block of a page.
pub(super) struct Block {
    /// What stands behind the fence, such as `console`.
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) mark: Option<Mark>,
    /// `docs/start.md:12`, for whoever has to look.
    pub(super) place: String,
}

/// A comment in the page, on the line before a block, that says what becomes of it.
pub(super) enum Mark {
    /// `<!-- file: NAME -->`: the block is this file.
    File(String),
    /// `<!-- not run: WHY -->`: only shown, for this reason.
    NotRun(String),
    /// `<!-- stays up: WORDS -->`: the command runs until the page ends; it is up once it has said these words.
    StaysUp(String),
    /// `<!-- for: FLAGS -->`: the calls from here on are of a `plantbridge mcp` with these flags.
    For(String),
}

impl Mark {
    fn read(line: &str) -> Option<Self> {
        let inside = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        let (what, said) = inside.split_once(": ")?;
        let said = said.trim().to_owned();
        match what {
            "file" => Some(Self::File(said)),
            "not run" => Some(Self::NotRun(said)),
            "stays up" => Some(Self::StaysUp(said)),
            "for" => Some(Self::For(said)),
            _ => None,
        }
    }
}

impl Block {
    /// The first word of its kind.
    pub(super) fn language(&self) -> &str {
        self.kind.split(' ').next().unwrap_or_default()
    }

    /// Its first line.
    pub(super) fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// The blocks of a page, in order.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page} cannot be read: {error}"));
    read(page, &text)
}

fn read(page: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut mark) = (Vec::new(), None);
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            if !line.trim().is_empty() {
                mark = Mark::read(line);
            }
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().map(|(line, _)| line).take_while(|line| !line.trim_start().starts_with("```"));
        let inside: Vec<&str> = inside.map(|line| line.get(indent..).unwrap_or_default()).chain([""]).collect();
        let place = format!("{page}:{number}");
        blocks.push(Block { kind: kind.trim().to_owned(), text: inside.join("\n"), mark: mark.take(), place });
    }
    blocks
}

#[test]
fn a_page_is_read_as_it_is_seen() {
    let page = "words\n<!-- file: a.json -->\n\n```json\n{}\n```\n<!-- not run: it is dear -->\nbetween\n```sh\none\n  two\n```\n";
    let blocks = read("p.md", page);
    assert_eq!(blocks.iter().map(|block| block.kind.as_str()).collect::<Vec<_>>(), ["json", "sh"]);
    assert!(matches!(&blocks[0].mark, Some(Mark::File(name)) if name == "a.json"));
    assert!(blocks[1].mark.is_none(), "a mark that is not right before its block is none of it");
    assert_eq!((blocks[1].text.as_str(), blocks[1].place.as_str()), ("one\n  two\n", "p.md:9"));
}
