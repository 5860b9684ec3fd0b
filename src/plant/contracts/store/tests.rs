//! The store over real directories: links, junk, places that cannot be written, writers at once.

use std::{fs, path::Path, sync::Arc};

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn document(version: &str) -> Value {
    from_json(json!({"schema": 1, "version": version, "namespaces": {"pump": {"methods": {}}}}))
}

fn name(text: &str) -> ContractName {
    ContractName::parse(text).unwrap()
}

fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("contracts"));
    (folder, store)
}

fn files(store: &Store) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(&store.path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What is there must be gone or unchanged, never half of it, and nothing else may be left.
fn only(store: &Store, expected: &[(&str, &str)]) {
    let names: Vec<String> = expected.iter().map(|(name, _)| format!("{name}.types.json")).collect();
    assert_eq!(files(store), names);
    for (contract, version) in expected {
        assert_eq!(store.read(&name(contract)).unwrap().document, document(version));
    }
}

/// tools.md 3.5: saved, listed, read back; a directory that is not there is an empty list and is made by the first save.
#[test]
fn contracts_are_saved_listed_and_read_back() {
    let (_folder, store) = store();
    assert!(store.list().unwrap().contracts.is_empty());
    assert_eq!(store.read(&name("pump")).unwrap_err(), StoreFault::Unknown(Vec::new()));
    let first = store.save(&name("pump"), &document("1"), &Condition::default()).unwrap();
    assert_eq!(first.overwrote, None);
    let second = store.save(&name("pump"), &document("2"), &Condition::default()).unwrap();
    assert_eq!(second.overwrote, Some(first.sha256));
    let text = fs::read_to_string(store.path.join("pump.types.json")).unwrap();
    assert_eq!(text, written::to_text(&document("2")));
    let read = store.read(&name("pump")).unwrap();
    assert_eq!((&read.sha256, read.bytes), (&second.sha256, text.len() as u64));
    let listing = store.list().unwrap();
    let summary = listing.contracts[0].summary.as_ref().unwrap();
    assert_eq!((listing.contracts.len(), listing.junk.len(), listing.more), (1, 0, false));
    assert_eq!(
        (summary.namespaces.as_slice(), summary.version.as_deref()),
        (["pump".to_owned()].as_slice(), Some("2"))
    );
    assert_eq!(summary.sha256, second.sha256);
    assert_eq!(store.read(&name("pimp")).unwrap_err(), StoreFault::Unknown(vec!["pump".to_owned()]));
    assert_eq!(store.delete(&name("pump"), &Condition::default()).unwrap(), second.sha256);
    only(&store, &[]);
}

/// tools.md 3.5: a change is made only while what it expects holds.
#[test]
fn conditions_are_kept() {
    let (_folder, store) = store();
    let absent = Condition { absent: true, sha256: None };
    let hash = |hash: &str| Condition { absent: false, sha256: Some(hash.to_owned()) };
    let none = store.save(&name("a"), &document("1"), &hash("00")).unwrap_err();
    assert_eq!(none, StoreFault::Changed(None));
    let first = store.save(&name("a"), &document("1"), &absent).unwrap();
    let there = StoreFault::Changed(Some(first.sha256.clone()));
    assert_eq!(store.save(&name("a"), &document("2"), &absent).unwrap_err(), there);
    assert_eq!(store.save(&name("a"), &document("2"), &hash("00")).unwrap_err(), there);
    assert_eq!(store.delete(&name("a"), &hash("00")).unwrap_err(), there);
    only(&store, &[("a", "1")]);
    store.save(&name("a"), &document("2"), &hash(&first.sha256.to_uppercase())).unwrap();
    let now = store.read(&name("a")).unwrap().sha256;
    assert_eq!(store.delete(&name("a"), &hash(&first.sha256)).unwrap_err(), StoreFault::Changed(Some(now)));
    only(&store, &[("a", "2")]);
}

/// F-27: of many writers at once one is the first, each of the others sees what is there, and the file is one of them,
/// whole.
#[test]
fn writers_at_once_do_not_mix() {
    let (_folder, store) = store();
    let store = Arc::new(store);
    let absent = Condition { absent: true, sha256: None };
    let saved: Vec<_> = std::thread::scope(|scope| {
        let write = |at: usize| {
            let (store, absent) = (store.clone(), absent.clone());
            scope.spawn(move || store.save(&name("a"), &document(&at.to_string()), &absent))
        };
        let writers: Vec<_> = (0..8).map(write).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let won: Vec<usize> = (0..8).filter(|at| saved[*at].is_ok()).collect();
    assert_eq!(won.len(), 1, "{saved:?}");
    only(&store, &[("a", &won[0].to_string())]);
    // The next change of whoever read it is made by one of them.
    let expected = Condition { absent: false, sha256: Some(saved[won[0]].as_ref().unwrap().sha256.clone()) };
    let changed: usize = std::thread::scope(|scope| {
        let write = |at: usize| {
            let (store, expected) = (store.clone(), expected.clone());
            scope.spawn(move || store.save(&name("a"), &document(&format!("next {at}")), &expected).is_ok())
        };
        let writers: Vec<_> = (0..8).map(write).collect();
        writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum()
    });
    assert_eq!(changed, 1);
}

/// F-27: two stores over one directory, as two processes are: nothing that came meanwhile is overwritten as if absent.
#[test]
fn another_process_is_not_overwritten_as_if_nothing_were_there() {
    let (_folder, one) = store();
    let two = Store::new(one.path.clone());
    let stores = [&one, &two];
    for round in 0..20 {
        let contract = name(&format!("r{round}"));
        let absent = Condition { absent: true, sha256: None };
        let won: usize = std::thread::scope(|scope| {
            let writers = stores.map(|store| {
                let (contract, absent) = (&contract, &absent);
                scope.spawn(move || usize::from(store.save(contract, &document("1"), absent).is_ok()))
            });
            writers.map(|writer| writer.join().unwrap()).iter().sum()
        });
        assert_eq!(won, 1);
    }
    assert_eq!(files(&one).len(), 20);
}

/// F-27: a link is never followed, wherever it leads and whatever is asked.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let (folder, store) = store();
    fs::create_dir(&store.path).unwrap();
    let outside = folder.path().join("secret.json");
    fs::write(&outside, "{\"namespaces\":{}}").unwrap();
    std::os::unix::fs::symlink(&outside, store.path.join("a.types.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", store.path.join("b.types.json")).unwrap();
    for contract in ["a", "b"].map(name) {
        assert_eq!(store.read(&contract).unwrap_err(), StoreFault::File(FileFault::Link));
        let link = store.save(&contract, &document("1"), &Condition::default()).unwrap_err();
        assert_eq!(link, StoreFault::File(FileFault::Link));
        assert_eq!(store.delete(&contract, &Condition::default()).unwrap_err(), StoreFault::File(FileFault::Link));
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "{\"namespaces\":{}}");
    assert_eq!(files(&store), ["a.types.json", "b.types.json"]);
    let why: Vec<String> = store.list().unwrap().junk.into_iter().map(|junk| junk.why).collect();
    assert_eq!(why, ["a symbolic link, which is not followed"; 2]);
}

/// The directory is where a person said it is, and may be a link of theirs.
#[cfg(unix)]
#[test]
fn the_directory_itself_may_be_a_link() {
    let (folder, store) = store();
    fs::create_dir(&store.path).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&store.path, &link).unwrap();
    Store::new(link).save(&name("a"), &document("1"), &Condition::default()).unwrap();
    only(&store, &[("a", "1")]);
}

/// Junk is listed with the reason, and harms nobody.
#[cfg(unix)]
#[test]
fn junk_is_listed_and_harms_nobody() {
    let (_folder, store) = store();
    store.save(&name("good"), &document("1"), &Condition::default()).unwrap();
    let put = |file: &str, text: &[u8]| fs::write(store.path.join(file), text).unwrap();
    put("README.md", b"hello");
    put("con.types.json", b"{}");
    put("-x.types.json", b"{}");
    put(".good.types.json.00.tmp", b"{\"half\":");
    put("broken.types.json", b"{\"half\":");
    put("latin.types.json", b"{\"a\":\"\xe9\"}");
    put("list.types.json", b"[]");
    put("twice.types.json", b"{\"namespaces\":{\"a\":{},\"b\":{\"methods\":{\"m\":1,\"m\":2}}}}");
    put("future.types.json", b"{\"schema\":2,\"namespaces\":{}}");
    put("huge.types.json", &vec![b' '; usize::try_from(LARGEST).unwrap() + 1]);
    put("deep.types.json", "[".repeat(100_000).as_bytes());
    fs::create_dir(store.path.join("sub.types.json")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        store.path.join("pipe.types.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    let listing = store.list().unwrap();
    let said = |summary: &Result<Summary, String>| summary.as_ref().map_or_else(Clone::clone, |_| "good".to_owned());
    let contracts: Vec<(String, String)> =
        listing.contracts.iter().map(|listed| (listed.name.to_string(), said(&listed.summary))).collect();
    let expected = [
        ("broken", "not JSON: EOF while parsing a value at line 1 column 8"),
        ("deep", "not JSON: recursion limit exceeded at line 1 column 128"),
        ("future", "its `schema` is not 1, the only one known here"),
        ("good", "good"),
        ("huge", "it has 4194305 bytes, and at most 4194304 are read"),
        ("latin", "not JSON: invalid unicode code point at line 1 column 7"),
        ("list", "not a contract: it has no `namespaces`"),
        ("twice", "/namespaces/b/methods/m: this key stands more than once in its object"),
    ];
    let expected: Vec<(String, String)> = expected.map(|(name, why)| (name.to_owned(), why.to_owned())).into();
    assert_eq!(contracts, expected);
    let junk: Vec<(String, String)> = listing.junk.into_iter().map(|junk| (junk.file, junk.why)).collect();
    let expected = [
        ("-x.types.json", "not a usable contract name"),
        (".good.types.json.00.tmp", "left by a write that did not end; it can be removed"),
        ("README.md", "not a contract: its name does not end in .types.json"),
        ("con.types.json", "not a usable contract name: it is the name of a device on some systems"),
        ("pipe.types.json", "not a plain file"),
        ("sub.types.json", "a directory"),
    ];
    let expected: Vec<(String, String)> = expected.map(|(name, why)| (name.to_owned(), why.to_owned())).into();
    assert_eq!(junk, expected);
    assert_eq!(store.read(&name("pipe")).unwrap_err(), StoreFault::File(FileFault::NotAFile));
    assert!(matches!(store.save(&name("sub"), &document("1"), &Condition::default()), Err(StoreFault::File(_))));
    assert!(matches!(store.read(&name("twice")), Err(StoreFault::Ambiguous(problems)) if problems.len() == 1));
    let large = FileFault::TooLarge { bytes: LARGEST + 1, limit: LARGEST };
    assert_eq!(store.read(&name("huge")).unwrap_err(), StoreFault::File(large));
    store.save(&name("broken"), &document("2"), &Condition::default()).unwrap();
}

/// A contract that is too large is not written, and one more than may be is not either.
#[test]
fn sizes_and_numbers_are_bounded() {
    let (_folder, store) = store();
    let large = document(&"x".repeat(usize::try_from(LARGEST).unwrap()));
    let fault = store.save(&name("a"), &large, &Condition::default()).unwrap_err();
    assert!(matches!(fault, StoreFault::File(FileFault::TooLarge { .. })), "{fault:?}");
    fs::create_dir_all(&store.path).unwrap();
    for at in 0..MAX_CONTRACTS {
        fs::write(store.path.join(format!("c{at}.types.json")), "{}").unwrap();
    }
    assert_eq!(store.save(&name("a"), &document("1"), &Condition::default()).unwrap_err(), StoreFault::Full);
    store.save(&name("c7"), &document("1"), &Condition::default()).unwrap();
    assert_eq!(store.list().unwrap().contracts.len(), MAX_CONTRACTS);
}

/// A name that differs in capitals alone would be the same file elsewhere.
#[test]
fn names_that_differ_in_capitals_alone_are_not_both_saved() {
    let (_folder, store) = store();
    store.save(&name("Pump"), &document("1"), &Condition::default()).unwrap();
    let fault = store.save(&name("pump"), &document("2"), &Condition::default()).unwrap_err();
    let other_system = matches!(fault, StoreFault::Changed(_));
    assert!(other_system || fault == StoreFault::Twin("Pump.types.json".to_owned()), "{fault:?}");
    only(&store, &[("Pump", "1")]);
}

/// Where nothing can be written, that is what is said, and nothing is left.
#[test]
fn a_place_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let fault = Store::new(path).save(&name("a"), &document("1"), &Condition::default()).unwrap_err();
        assert!(matches!(fault, StoreFault::File(FileFault::System(_) | FileFault::There)), "{fault:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    // A directory in which even the superuser can make no file.
    #[cfg(target_os = "linux")]
    {
        let store = Store::new(Path::new("/proc/self/task").to_owned());
        let fault = store.save(&name("a"), &document("1"), &Condition::default()).unwrap_err();
        assert!(matches!(fault, StoreFault::File(_)), "{fault:?}");
    }
}

/// A directory without permission to write: what was there stays, whole, and can still be read.
#[cfg(unix)]
#[test]
fn a_read_only_directory_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, store) = store();
    store.save(&name("a"), &document("1"), &Condition::default()).unwrap();
    let allow = |mode: u32| fs::set_permissions(&store.path, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    let saved = store.save(&name("a"), &document("2"), &Condition::default());
    let deleted = store.delete(&name("a"), &Condition::default());
    allow(0o755);
    if rustix::process::geteuid().is_root() {
        // Permissions do not bind the superuser, whom the test above covers.
        return;
    }
    let denied = StoreFault::File(FileFault::System("the system does not permit it"));
    assert_eq!((saved.unwrap_err(), deleted.unwrap_err()), (denied.clone(), denied));
    only(&store, &[("a", "1")]);
}

/// What a system says becomes words that help.
#[test]
fn faults_of_the_system_have_words() {
    use std::io::ErrorKind;
    let text = |kind: ErrorKind| FileFault::from(std::io::Error::from(kind)).to_string();
    assert_eq!(text(ErrorKind::StorageFull), "the disk is full");
    assert_eq!(text(ErrorKind::ReadOnlyFilesystem), "it is on a disk that is read-only");
    assert_eq!(text(ErrorKind::PermissionDenied), "the system does not permit it");
    assert!(text(ErrorKind::Other).contains("the log"));
}
