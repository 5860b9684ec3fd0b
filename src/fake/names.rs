//! Names for peers of ours that were given none: a role and three words, easy to say over a radio.

/// A name made of `role` and the bits of `random`.
pub fn name(role: &str, random: u128) -> String {
    let count = WORDS.len() as u128;
    let word = |place: u32| {
        let at = usize::try_from(random / count.pow(place) % count).unwrap_or_default();
        WORDS.get(at).copied().unwrap_or_default()
    };
    format!("{role}-{}-{}-{}", word(0), word(1), word(2))
}

const WORDS: [&str; 163] = [
    "amber", "anvil", "apple", "apron", "arch", "atlas", "badge", "bagel", "barge", "barn", "basil", "beach", "beacon",
    "berry", "birch", "bison", "blaze", "bloom", "bolt", "brass", "breeze", "brick", "bridge", "brook", "broom",
    "cabin", "cable", "candle", "canyon", "cedar", "chalk", "cherry", "cider", "cinder", "clover", "coal", "cobalt",
    "comet", "copper", "coral", "cork", "cotton", "crane", "creek", "crest", "crown", "daisy", "delta", "dome", "dove",
    "drum", "dune", "eagle", "ember", "fable", "falcon", "fern", "ferry", "field", "finch", "flame", "flint", "forest",
    "forge", "fox", "garnet", "gate", "ginger", "glacier", "glade", "grain", "granite", "grove", "gull", "harbor",
    "hazel", "heron", "hill", "honey", "iris", "island", "ivory", "jade", "jasper", "kernel", "kettle", "kite",
    "lagoon", "lake", "lantern", "lark", "lemon", "lilac", "linen", "lotus", "magnet", "maple", "marble", "meadow",
    "mill", "mint", "mirror", "moss", "nectar", "nickel", "oak", "oasis", "ocean", "olive", "onyx", "orbit", "otter",
    "owl", "oxide", "paddle", "pearl", "pebble", "pepper", "pine", "plum", "pond", "poppy", "prairie", "quartz",
    "quill", "raven", "reed", "ridge", "river", "robin", "rocket", "rowan", "ruby", "saddle", "saffron", "sage",
    "sail", "salt", "sand", "sequoia", "shell", "silver", "slate", "spark", "spruce", "steel", "stone", "stork",
    "summit", "swan", "thistle", "timber", "topaz", "tulip", "tundra", "valley", "velvet", "violet", "walnut", "water",
    "willow", "wren", "zinc",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PeerName;

    #[test]
    fn a_made_up_name_is_usable_on_every_link_and_differs_by_chance() {
        for random in [0, 1, u128::MAX, 123_456_789_123_456_789] {
            assert!(PeerName::configured(&name("mcp", random)).is_ok());
        }
        assert_eq!(name("mcp", 0), "mcp-amber-amber-amber");
        assert_ne!(name("mcp", 1), name("mcp", 2));
    }

    #[test]
    fn no_word_stands_twice() {
        let distinct: std::collections::BTreeSet<_> = WORDS.iter().collect();
        assert_eq!(distinct.len(), WORDS.len());
    }
}
