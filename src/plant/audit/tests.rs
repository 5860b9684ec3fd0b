//! A trail on a disk, through days, restarts, bounds and what somebody does to it.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use proptest::prelude::*;

use super::{
    chain::Hash,
    folder::files,
    line::{Asked, Ending, Event, MAX_LINE, Names},
    show::show,
    trail::{Keep, Trail},
    verify::{Finding, Unverified, Verified, verify},
    *,
};

const DAY: i64 = 86_400_000;
const NOON: i64 = 1_786_104_000_000;
const KEEP: Keep = Keep { days: 90, bytes: 1 << 30 };

fn trail(path: &Path, now: i64) -> Trail {
    Trail::continued(path, KEEP, now).unwrap().0
}

fn asked(method: &str) -> Asked {
    let names = Names { peer: Some("bakery".into()), method: Some(method.into()), ..Names::default() };
    Asked { client: "stdio".into(), tool: "call_method".into(), names, args: "0".repeat(64) }
}

/// Writes so many lines, a second apart.
fn write(trail: &mut Trail, from: i64, lines: usize) {
    for (at, number) in (from..).step_by(1_000).zip(0..lines) {
        trail.append(at, &Event::Begun(&asked(&format!("m{number}")))).unwrap();
    }
}

fn names(path: &Path) -> Vec<String> {
    files(path).unwrap().iter().map(ToString::to_string).collect()
}

fn only_file(path: &Path) -> PathBuf {
    path.join(names(path).first().unwrap())
}

fn good(path: &Path) -> Verified {
    verify(path, None).unwrap()
}

fn broken(path: &Path) -> Finding {
    match verify(path, None) {
        Err(Unverified::Broken(finding)) => finding,
        other => panic!("{other:?}"),
    }
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_trail_goes_on_over_days_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut first = trail(path, NOON);
    write(&mut first, NOON, 3);
    write(&mut first, NOON + DAY, 2);
    drop(first);
    let mut second = trail(path, NOON + DAY + 60_000);
    write(&mut second, NOON + DAY + 61_000, 1);
    assert_eq!(names(path), ["2026-08-07-0001.jsonl", "2026-08-08-0001.jsonl"]);
    let verified = good(path);
    assert_eq!((verified.files, verified.lines), (2, 8));
    assert_eq!(verified.first, Some((1, "2026-08-07T12:00:00.000Z".into())));
    assert_eq!(verified.last, Some((8, "2026-08-08T12:01:01.000Z".into())));
    assert_eq!(verified.notes, [""; 0]);
    let head = verified.head.unwrap();
    write(&mut second, NOON + DAY + 62_000, 5);
    assert!(verify(path, Some(head)).is_ok(), "the noted line is there still");
    assert!(matches!(verify(path, Some(Hash::of(b"x"))), Err(Unverified::Lost(_))));
}

/// The end can be cut off and no line tells; a hash that was noted does.
#[test]
fn a_cut_end_shows_to_who_noted_the_head() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut trail(folder.path(), NOON), NOON, 5);
    let head = good(folder.path()).head;
    let file = only_file(folder.path());
    let text = fs::read_to_string(&file).unwrap();
    let cut: Vec<&str> = text.lines().take(4).collect();
    fs::write(&file, cut.join("\n") + "\n").unwrap();
    assert_eq!(good(folder.path()).lines, 4);
    assert!(matches!(verify(folder.path(), head), Err(Unverified::Lost(_))));
}

#[test]
fn a_clock_that_goes_back_is_noted_and_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut trail = trail(folder.path(), NOON);
    write(&mut trail, NOON, 2);
    write(&mut trail, NOON - 3 * DAY, 2);
    write(&mut trail, NOON, 1);
    assert_eq!(names(folder.path()), ["2026-08-07-0001.jsonl"]);
    let verified = good(folder.path());
    assert_eq!(verified.lines, 6);
    assert_eq!(verified.notes, ["2026-08-07-0001.jsonl:4: the clock went back here, to 2026-08-04T12:00:00.000Z"]);
}

/// A process that dies over a line leaves a part of it; the next one puts that aside and says so.
#[test]
fn a_torn_end_is_put_aside_and_told_from_tampering() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&mut trail(path, NOON), NOON, 2);
    append(&only_file(path), b"{\"seq\":4,\"at\":\"2026-");
    let verified = good(path);
    assert!(verified.lines == 3 && verified.notes[0].contains("not whole"), "{verified:?}");
    drop(trail(path, NOON + 5_000));
    let kept = path.join("2026-08-07-0001.jsonl.torn-1");
    assert_eq!(fs::read(&kept).unwrap(), b"{\"seq\":4,\"at\":\"2026-");
    let verified = good(path);
    assert_eq!(verified.lines, 5, "three, opened, recovered");
    assert!(verified.notes[0].contains("a process died over a line here"), "{verified:?}");
    fs::write(&kept, "something else").unwrap();
    assert!(broken(path).what.contains("is not what it was"));
    fs::remove_file(&kept).unwrap();
    assert!(good(path).notes[0].contains("not there any more"));
}

/// Dying between making a file and its first line leaves an empty one, and dying over the first line a torn one alone.
#[test]
fn a_file_without_a_line_is_continued() {
    for left in [b"".as_slice(), b"{\"seq"] {
        let folder = tempfile::tempdir().unwrap();
        write(&mut trail(folder.path(), NOON), NOON, 2);
        fs::write(folder.path().join("2026-08-08-0001.jsonl"), left).unwrap();
        drop(trail(folder.path(), NOON + DAY));
        assert_eq!(good(folder.path()).files, 2);
        let alone = tempfile::tempdir().unwrap();
        fs::write(alone.path().join("2026-08-07-0001.jsonl"), left).unwrap();
        drop(trail(alone.path(), NOON));
        assert_eq!(good(alone.path()).first.unwrap().0, 1);
    }
}

/// What is no end of a trail is not continued: it is evidence.
#[test]
fn an_end_that_is_not_ours_is_not_continued() {
    let lines = [
        "not JSON\n".to_owned(),
        "x".repeat(MAX_LINE + 1),
        format!("{{\"seq\":9,\"at\":\"x\",\"prev\":\"{}\",\"event\":\"begun\"}}\n", Hash::of(b"x")),
    ];
    for line in lines {
        let folder = tempfile::tempdir().unwrap();
        write(&mut trail(folder.path(), NOON), NOON, 2);
        append(&only_file(folder.path()), line.as_bytes());
        let before = fs::read(only_file(folder.path())).unwrap();
        let refusal = Trail::continued(folder.path(), KEEP, NOON).unwrap_err().to_string();
        assert!(refusal.contains("audit verify"), "{refusal}");
        assert_eq!(fs::read(only_file(folder.path())).unwrap(), before, "it is left as it was found");
    }
}

/// Old files go, a line says which, and what is left is whole from its first line on.
#[test]
fn what_is_over_the_bounds_is_dropped_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep { days: 2, bytes: 1 << 30 };
    let mut trail = Trail::continued(folder.path(), keep, NOON).unwrap().0;
    for day in 0..6 {
        write(&mut trail, NOON + day * DAY, 3);
    }
    assert_eq!(names(folder.path()), ["2026-08-10-0001.jsonl", "2026-08-11-0001.jsonl", "2026-08-12-0001.jsonl"]);
    let verified = good(folder.path());
    assert!(verified.first.unwrap().0 > 1 && verified.lines > 9);
    // A process that died over it left one of those behind that it had said were gone.
    let all = tempfile::tempdir().unwrap();
    let mut trail = Trail::continued(all.path(), KEEP, NOON).unwrap().0;
    (0..4).for_each(|day| write(&mut trail, NOON + day * DAY, 3));
    drop(trail);
    let kept = fs::read(all.path().join("2026-08-09-0001.jsonl")).unwrap();
    drop(Trail::continued(all.path(), Keep { days: 1, bytes: 1 << 30 }, NOON + 4 * DAY).unwrap());
    fs::write(all.path().join("2026-08-09-0001.jsonl"), kept).unwrap();
    assert_eq!(good(all.path()).files, 2);
    // Whoever removes one more has no line that says so.
    fs::remove_file(only_file(folder.path())).unwrap();
    let finding = broken(folder.path());
    assert_eq!((finding.file.as_str(), finding.line), ("2026-08-11-0001.jsonl", 1));
    assert!(finding.what.contains("no line says that it was dropped"), "{finding:?}");
}

#[test]
fn bytes_are_bounded_and_a_restart_keeps_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep { days: 9, bytes: 64 * 1024 };
    for _ in 0..3 {
        let mut trail = Trail::continued(folder.path(), keep, NOON).unwrap().0;
        write(&mut trail, NOON, 400);
        let sizes = names(folder.path()).into_iter().map(|name| fs::metadata(folder.path().join(name)).unwrap().len());
        let total: u64 = sizes.sum();
        assert!(total <= keep.bytes + 4_096 && total > keep.bytes / 2, "{total}");
        good(folder.path());
    }
    assert!(names(folder.path())[0].as_str() > "2026-08-07-0010.jsonl");
}

/// A trail that is taken away, or whose file is another, is not written to; put back, it is.
#[test]
#[cfg(unix)]
fn a_directory_that_is_taken_away_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("trail"), folder.path().join("away"));
    let mut trail = trail(&path, NOON);
    fs::rename(&path, &away).unwrap();
    assert!(trail.append(NOON, &Event::Closed).is_err());
    fs::create_dir(&path).unwrap();
    fs::write(path.join("2026-08-07-0001.jsonl"), "").unwrap();
    assert!(trail.append(NOON, &Event::Closed).unwrap_err().to_string().contains("not where it was"));
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    assert_eq!(trail.append(NOON, &Event::Closed).unwrap(), 2);
    assert_eq!(good(&path).lines, 2);
}

/// A call is shown once, with its end; one without an end as what began.
#[test]
fn calls_are_shown_with_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = trail(folder.path(), NOON);
    let (one, two) = (asked("one"), asked("two"));
    let call = first.append(NOON, &Event::Begun(&one)).unwrap();
    first.append(NOON, &Event::Begun(&two)).unwrap();
    let names = &one.names;
    first
        .append(NOON, &Event::Ended { call, client: "stdio", tool: "call_method", names, ending: &Ending::OK, us: 7 })
        .unwrap();
    drop(first);
    drop(trail(folder.path(), NOON));
    let told = |calls| {
        let mut told = Vec::new();
        let unread = show(folder.path(), calls, |shown: Shown| {
            told.push(format!("{} {}", shown.text("event"), shown.text("method")));
            Ok::<_, Unusable>(())
        });
        assert_eq!(unread.unwrap(), 0);
        told
    };
    assert_eq!(told(false), ["opened ", "begun one", "begun two", "ended one", "opened "]);
    assert_eq!(told(true), ["opened ", "ended one", "begun two", "opened "]);
}

/// Twelve lines of a trail, each with its line feed.
static TWELVE: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    write(&mut trail(folder.path(), NOON), NOON, 11);
    let bytes = fs::read(only_file(folder.path())).unwrap();
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
});

/// What is said of those once they are tampered with.
fn tampered(with: impl FnOnce(&mut Vec<Vec<u8>>)) -> Result<Verified, Unverified> {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = TWELVE.clone();
    with(&mut lines);
    fs::write(folder.path().join("2026-08-07-0001.jsonl"), lines.concat()).unwrap();
    verify(folder.path(), None)
}

fn named(result: Result<Verified, Unverified>) -> u64 {
    match result {
        Err(Unverified::Broken(finding)) => finding.line,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever byte of whatever line but the last is changed to whatever, that line is named.
    #[test]
    fn an_edited_line_is_named(line in 0_usize..11, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut changed = true;
        let result = tampered(|lines| {
            let at = at.index(lines[line].len());
            changed = lines[line][at] != byte;
            lines[line][at] = byte;
        });
        if changed {
            prop_assert_eq!(named(result), line as u64 + 1);
        }
    }

    /// Lines that are taken out, moved, doubled or exchanged are found where the trail stops being one.
    #[test]
    fn a_line_that_is_not_in_its_place_is_named(a in 1_usize..11, b in 1_usize..11) {
        prop_assume!(a != b);
        let first = a.min(b);
        prop_assert_eq!(named(tampered(|lines| lines.swap(a, b))), first as u64 + 1, "exchanged");
        prop_assert_eq!(named(tampered(|lines| drop(lines.remove(a)))), a as u64 + 1, "taken out");
        prop_assert_eq!(named(tampered(|lines| { let line = lines[a].clone(); lines.insert(a + 1, line); })), a as u64 + 2, "doubled");
        prop_assert_eq!(named(tampered(|lines| { let line = lines.remove(a); lines.insert(b, line); })), first as u64 + 1, "moved");
    }
}

/// The first line of all is missed, wherever it went.
#[test]
fn a_first_line_that_is_gone_is_missed() {
    assert_eq!(named(tampered(|lines| drop(lines.remove(0)))), 1);
    assert!(tampered(|lines| lines.swap(0, 1)).is_err());
    assert!(tampered(|lines| lines.swap(0, 11)).is_err());
    assert!(tampered(|lines| lines.rotate_left(1)).is_err());
}

/// A line that is made up, in its place by number and by hash, is the one that is named.
#[test]
fn a_line_that_was_put_in_is_named() {
    let put_in = tampered(|lines| {
        let before = Head { seq: 4, hash: Hash::of(lines[3].strip_suffix(b"\n").unwrap()) };
        let mut line = line::line(before, NOON, &Event::Begun(&asked("never"))).unwrap();
        line.push(b'\n');
        lines.insert(4, line);
    });
    match put_in {
        Err(Unverified::Broken(finding)) => {
            assert_eq!(finding.line, 5);
            assert!(finding.what.contains("put in"), "{finding:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// Whatever lies in the directory, checking it ends and says something.
#[test]
fn junk_is_found_and_nothing_else() {
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(verify(empty.path(), None), Err(Unverified::Unreadable(_))));
    for junk in [b"\n".as_slice(), b"{}\n", &b"\xff".repeat(100_000), b"{\"seq\":1e400}\n", &b"[".repeat(20_000)] {
        fs::write(empty.path().join("2026-08-07-0001.jsonl"), junk).unwrap();
        fs::write(empty.path().join("2026-08-07-0002.jsonl"), "").unwrap();
        assert_eq!(broken(empty.path()).line, 1);
        assert!(show(empty.path(), true, |_| Ok::<_, Unusable>(())).unwrap() > 0);
    }
}
