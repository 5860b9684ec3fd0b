//! What the fuzzer kept (`fuzz/corpus`), and what it begins from, given to its targets once more: what was mended stays so,
//! without a fuzzer.

use std::{fs, path::Path};

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use targets::TARGETS;

macro_rules! replayed {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!(TARGETS.map(|target| target.name), [$(stringify!($name)),*]);
        }
    };
}

replayed! {
    contract fake_script flat_frame guard http_head hub_packet mqtt_frame pattern requests signing texts values
}

fn replay(name: &str) {
    let target = TARGETS.into_iter().find(|target| target.name == name).unwrap();
    let seeds = (target.seeds)();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 4 && !files.is_empty(), "{} seeds and {} files", seeds.len(), files.len());
    for seed in &seeds {
        (target.run)(seed);
    }
    for file in files {
        let input = fs::read(&file).unwrap();
        // What the target says goes before; the file is how it is tried again.
        let held = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(held.is_ok(), "{}", file.display());
    }
}
