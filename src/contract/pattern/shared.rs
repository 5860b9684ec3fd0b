//! Programs that are held anywhere in this process, so that a pattern is compiled once and not by every contract and every
//! peer that writes it. What nobody holds any more is not kept.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use regex::Regex;

use super::PatternFault;

/// The program of `text` within `limit` bytes: the one that is held, or what `compile` makes.
pub(super) fn program(
    text: &str,
    limit: usize,
    compile: impl FnOnce() -> Result<Regex, PatternFault>,
) -> Result<Arc<Regex>, PatternFault> {
    if let Some(known) = with(|held| held.find(text, limit)) {
        return Ok(known);
    }
    let program = Arc::new(compile()?);
    with(|held| held.note(text, limit, &program));
    Ok(program)
}

fn with<T>(look: impl FnOnce(&mut Held) -> T) -> T {
    static HELD: LazyLock<Mutex<Held>> = LazyLock::new(Mutex::default);
    look(&mut HELD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Programs by their patterns, each with the bound it was compiled within.
#[derive(Debug, Default)]
struct Held {
    programs: HashMap<Box<str>, (usize, Weak<Regex>)>,
    /// How many there may be before those that nobody holds are forgotten.
    most: usize,
}

impl Held {
    fn find(&self, text: &str, limit: usize) -> Option<Arc<Regex>> {
        self.programs.get(text).filter(|(within, _)| *within == limit)?.1.upgrade()
    }

    fn note(&mut self, text: &str, limit: usize, program: &Arc<Regex>) {
        if self.programs.len() >= self.most {
            self.programs.retain(|_, (_, program)| program.strong_count() > 0);
            self.programs.shrink_to(FEWEST);
            // At most half of them are dead when the next ones are looked for.
            self.most = FEWEST.max(2 * self.programs.len());
        }
        self.programs.insert(text.into(), (limit, Arc::downgrade(program)));
    }
}

/// So many are not worth looking through.
const FEWEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(text: &str) -> Result<Regex, PatternFault> {
        Regex::new(text).map_err(|_| PatternFault::TooLarge)
    }

    #[test]
    fn what_is_held_is_not_compiled_again() {
        let text = "^held-[0-9]{4}$";
        let first = program(text, 1000, || regex(text)).unwrap();
        let again = program(text, 1000, || panic!("compiled again")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        // Within another bound it may be too large.
        assert_eq!(program(text, 10, || Err(PatternFault::TooLarge)).unwrap_err(), PatternFault::TooLarge);
        drop((first, again));
        let mut compiled = false;
        let compile = || {
            compiled = true;
            regex(text)
        };
        program(text, 1000, compile).unwrap();
        assert!(compiled, "nobody held it");
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let mut held = Held::default();
        let (kept, gone) = (Arc::new(regex("a").unwrap()), Arc::new(regex("b").unwrap()));
        held.note("kept", 1, &kept);
        for number in 0..10 * FEWEST {
            held.note(&format!("gone {number}"), 1, &gone);
        }
        drop(gone);
        held.most = 0;
        held.note("last", 1, &kept);
        assert_eq!(held.programs.len(), 2);
        assert!(held.find("kept", 1).is_some() && held.find("gone 1", 1).is_none() && held.find("kept", 2).is_none());
    }
}
