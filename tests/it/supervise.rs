//! Programs under the supervisor: what they are given, what limits them, and that nothing of them is left. F-25, F-28.

use std::{path::Path, time::Duration};

use plantbridge::script::{Ended, EndedBy, Input, Limits, Plan, Process, StartFault, Supervisor};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::ChildStdout,
    time::timeout,
};

/// Longer than anything here takes; what takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn supervisor() -> Supervisor {
    Supervisor::at(env!("CARGO_BIN_EXE_plantbridge").into())
}

fn shell(text: &str) -> Plan {
    Plan {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), text.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this".into())],
        directory: std::env::temp_dir(),
        scratch: false,
        input: Input::Closed,
        limits: Limits::default(),
    }
}

async fn start(plan: &Plan) -> Process {
    timeout(PATIENCE, supervisor().start(plan)).await.unwrap().unwrap()
}

/// Runs it to its own end; gives what it wrote.
async fn run(plan: &Plan) -> (Ended, String, String) {
    let Process { line, mut output, mut errors, end, .. } = start(plan).await;
    let (mut out, mut err) = (String::new(), String::new());
    let all = async {
        let (a, b) = tokio::join!(output.read_to_string(&mut out), errors.read_to_string(&mut err));
        a.unwrap();
        b.unwrap();
        end.wait().await
    };
    let ended = timeout(PATIENCE, all).await.unwrap();
    drop(line);
    (ended, out, err)
}

fn lines(output: ChildStdout) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(output).lines()
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap()
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Waits until it does not live any more: its files are closed a moment before it is gone, and whoever adopted it reaps it.
async fn gone(pid: u32) {
    let ended = async {
        while lives(pid) {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.expect("it ends");
}

#[tokio::test]
async fn an_exit_code_a_signal_and_both_outputs_come_back() {
    let (ended, out, err) = run(&shell("echo said; echo wrong >&2; exit 7")).await;
    assert_eq!((ended.code, ended.signal, ended.by), (Some(7), None, EndedBy::Itself));
    assert_eq!((out.as_str(), err.as_str()), ("said\n", "wrong\n"));
    let (ended, ..) = run(&shell("kill -9 $$")).await;
    assert_eq!((ended.code, ended.signal, ended.by), (None, Some(9), EndedBy::Itself));
}

/// F-25: an environment is what was given, all of it and nothing else.
#[tokio::test]
async fn the_environment_is_the_one_of_the_plan() {
    let mut plan = shell("");
    plan.program = "env".into();
    plan.arguments.clear();
    let (_, out, _) = run(&plan).await;
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["ONLY=this", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn a_program_has_no_descriptor_of_ours_and_an_empty_input() {
    const TEXT: &str = "cat; ls /proc/self/fd | tr '\\n' ' '";
    let (_, out, _) = run(&shell(TEXT)).await;
    // Whoever runs the tests may hand something down to every child.
    let mut plain = std::process::Command::new("/bin/sh");
    let plain = plain.args(["-c", TEXT]).stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(out, String::from_utf8(plain.stdout).unwrap());
}

#[tokio::test]
async fn what_cannot_be_run_says_why() {
    let mut plan = shell("");
    plan.program = "/nowhere/to/be/found".into();
    assert_eq!(supervisor().start(&plan).await.unwrap_err(), StartFault::Missing);
    plan.program = "/etc/passwd".into();
    assert_eq!(supervisor().start(&plan).await.unwrap_err(), StartFault::NotPermitted);
    let mut plan = shell("");
    plan.directory = "/nowhere/to/be/found".into();
    assert_eq!(supervisor().start(&plan).await.unwrap_err(), StartFault::Missing);
    plan = shell(&"x".repeat(2 << 20));
    assert!(matches!(supervisor().start(&plan).await, Err(StartFault::System(_))));
    assert!(Supervisor::at("/nowhere/to/be/found".into()).start(&shell("")).await.is_err());
    // What is no supervisor says nothing, and that is an end too.
    assert!(Supervisor::at("/bin/true".into()).start(&shell("")).await.is_err());
}

/// A dropped line asks it to end; what ends in time is not killed.
#[tokio::test]
async fn a_program_is_asked_before_it_is_killed() {
    // The shell tells on its standard error of a `sleep` that was ended; with nobody there, that would be its own end.
    let Process { line, output, end, errors: _errors, .. } =
        start(&shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done")).await;
    let mut lines = lines(output);
    assert_eq!(next(&mut lines).await, "ready");
    drop(line);
    assert_eq!(next(&mut lines).await, "bye");
    let ended = end.wait().await;
    assert_eq!((ended.code, ended.by, ended.survivors), (Some(3), EndedBy::Asked, 0));
}

/// A script that ignores SIGTERM, forks, and leaves its group and its session.
#[tokio::test]
async fn nothing_survives_that_ignores_forks_or_leaves() {
    let away = "setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 0.01; done' &";
    let plan = shell(&format!(
        "trap '' TERM; {away} (sh -c 'echo $$; exec sleep 1000' &) ; echo $$; while :; do sleep 0.01; done"
    ));
    let Process { line, output, end, .. } = start(&plan).await;
    let mut lines = lines(output);
    let mut pids = Vec::new();
    for _ in 0..3 {
        pids.push(next(&mut lines).await.parse::<u32>().unwrap());
    }
    assert!(pids.iter().all(|pid| lives(*pid)), "{pids:?}");
    drop(line);
    let ended = timeout(PATIENCE, end.wait()).await.unwrap();
    assert_eq!((ended.signal, ended.by, ended.survivors), (Some(9), EndedBy::Asked, 0));
    assert!(pids.iter().all(|pid| !lives(*pid)), "{pids:?}");
}

/// One that ends and leaves others behind: they go with it, wherever they went.
#[tokio::test]
async fn what_a_program_leaves_behind_is_ended_and_counted() {
    let text = "f=$(mktemp); export f; setsid sh -c 'echo $$ > $f; exec sleep 1000' &
        until [ -s $f ]; do :; done; cat $f; rm $f; exit 0";
    let (ended, out, _) = run(&shell(text)).await;
    assert_eq!((ended.code, ended.by, ended.left_behind, ended.survivors), (Some(0), EndedBy::Itself, 1, 0));
    assert!(!lives(out.trim().parse().unwrap()));
}

/// One that is stopped hears no signal but the last.
#[tokio::test]
async fn a_stopped_program_ends_as_well() {
    let Process { pid, line, output, end, .. } = start(&shell("echo ready; kill -STOP $$; sleep 1000")).await;
    assert_eq!(next(&mut lines(output)).await, "ready");
    drop(line);
    let ended = timeout(PATIENCE, end.wait()).await.unwrap();
    assert_eq!((ended.by, ended.survivors, lives(pid)), (EndedBy::Asked, 0, false));
}

/// Killing the supervisor frees nobody.
#[tokio::test]
async fn a_supervisor_that_is_killed_takes_the_program_along() {
    let Process { pid, line, output, end, .. } = start(&shell("echo $PPID; exec sleep 1000")).await;
    let supervisor = next(&mut lines(output)).await;
    assert!(std::process::Command::new("kill").args(["-9", &supervisor]).status().unwrap().success());
    let ended = timeout(PATIENCE, end.wait()).await.unwrap();
    assert_eq!(ended.by, EndedBy::Lost);
    drop(line);
    gone(pid).await;
}

/// One that kills its supervisor, after it has begun others that left its group, its session, its environment and its mark: they come to
/// us, are killed and reaped, and nobody else's children are.
#[tokio::test]
async fn nothing_survives_that_kills_its_supervisor() {
    let mut neighbour = tokio::process::Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let loops = "trap \"\" TERM HUP; echo $$; while :; do sleep 0.01; done";
    let text = format!(
        "setsid sh -c '{loops}' & (env -i setsid /bin/sh -c 'ulimit -w 7; {loops}' &) ; echo $$; read go; kill -9 $PPID; sleep 1000"
    );
    let plan = Plan { input: Input::Passed, ..shell(&text) };
    let Process { mut line, output, end, .. } = start(&plan).await;
    let mut lines = lines(output);
    let mut pids = Vec::new();
    for _ in 0..3 {
        pids.push(next(&mut lines).await.parse::<u32>().unwrap());
    }
    line.write(b"go\n").await.unwrap();
    let ended = timeout(PATIENCE, end.wait()).await.unwrap();
    assert_eq!((ended.by, ended.signal, ended.survivors), (EndedBy::Lost, Some(9), 0));
    assert!(ended.left_behind >= 2, "{ended:?}");
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()), "killed and reaped: {pids:?}");
    assert!(neighbour.try_wait().unwrap().is_none(), "nobody else is ended");
    neighbour.kill().await.unwrap();
}

/// Nobody has to wait for it, or be there still.
#[tokio::test]
async fn what_kills_its_supervisor_is_ended_when_nobody_waits() {
    let text =
        "setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 0.01; done' & read go; kill -9 $PPID; sleep 1000";
    let Process { mut line, output, end, .. } = start(&Plan { input: Input::Passed, ..shell(text) }).await;
    let mut lines = lines(output);
    let pid: u32 = next(&mut lines).await.parse().unwrap();
    drop(end);
    line.write(b"go\n").await.unwrap();
    // Its output ends with it.
    assert_eq!(timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap(), None);
    gone(pid).await;
}

/// One that stops its supervisor, once or whenever that goes on, is ended all the same.
#[tokio::test]
async fn a_supervisor_that_is_stopped_keeps_nobody() {
    let told = |text: &str| Plan { input: Input::Passed, ..shell(text) };
    let Process { pid, mut line, output, end, .. } =
        start(&told("read go; kill -STOP $PPID; echo ready; exec sleep 1000")).await;
    line.write(b"go\n").await.unwrap();
    assert_eq!(next(&mut lines(output)).await, "ready");
    drop(line);
    let ended = timeout(PATIENCE, end.wait()).await.unwrap();
    assert_eq!((ended.by, ended.signal, lives(pid)), (EndedBy::Asked, Some(15), false));

    let ever = "trap '' TERM; read go; kill -STOP $PPID; echo ready; while :; do kill -STOP $PPID; done";
    // Its `kill` complains once the supervisor is gone: with nobody to hear that, it would be its end.
    let Process { pid, mut line, output, end, errors: _errors } = start(&told(ever)).await;
    line.write(b"go\n").await.unwrap();
    assert_eq!(next(&mut lines(output)).await, "ready");
    drop(line);
    let ended = timeout(Duration::from_secs(10), end.wait()).await.unwrap();
    assert_eq!((ended.by, ended.signal, ended.survivors, lives(pid)), (EndedBy::Overdue, Some(9), 0, false));
}

/// A directory that is a program's own goes with it, though the program does not remove it.
#[tokio::test]
async fn a_scratch_directory_goes_with_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("scratch");
    std::fs::create_dir(&directory).unwrap();
    let plan = Plan { directory: directory.clone(), scratch: true, ..shell("echo full > file; exec sleep 1000") };
    let Process { line, end, .. } = start(&plan).await;
    drop(line);
    assert_eq!(timeout(PATIENCE, end.wait()).await.unwrap().survivors, 0);
    assert!(!directory.exists());
}

/// Asking the supervisor itself, as an init system does with all processes of a service.
#[tokio::test]
async fn a_supervisor_that_is_asked_to_end_ends_in_order() {
    let Process { pid, line, output, end, .. } = start(&shell("echo $PPID; exec sleep 1000")).await;
    let supervisor = next(&mut lines(output)).await;
    assert!(std::process::Command::new("kill").args(["-TERM", &supervisor]).status().unwrap().success());
    let ended = timeout(PATIENCE, end.wait()).await.unwrap();
    assert_eq!((ended.by, ended.signal, lives(pid)), (EndedBy::Asked, Some(15), false));
    drop(line);
}

#[tokio::test]
async fn time_memory_processor_and_files_are_limited() {
    let limited = |text: &str, limits: Limits| Plan { limits, ..shell(text) };
    let (ended, ..) = run(&limited("exec sleep 1000", Limits { run_ms: Some(200), ..Limits::default() })).await;
    assert_eq!((ended.signal, ended.by), (Some(15), EndedBy::Time));

    let memory = Limits { memory: Some(64 << 20), ..Limits::default() };
    let (ended, out, err) = run(&limited("head -c 300000000 /dev/zero | tail | wc -c", memory)).await;
    assert!(out.trim() != "300000000" && err.contains("memory"), "{ended:?} {out} {err}");

    let cpu = Limits { cpu_seconds: Some(1), ..Limits::default() };
    let (ended, ..) = run(&limited("while :; do :; done", cpu)).await;
    assert!(matches!(ended.signal, Some(24 | 9)), "{ended:?}");

    let folder = tempfile::tempdir().unwrap();
    let files = Limits { file_bytes: Some(1 << 20), ..Limits::default() };
    let mut plan = limited("exec head -c 10000000 /dev/zero > full", files);
    plan.directory = folder.path().into();
    let (ended, ..) = run(&plan).await;
    assert_eq!(ended.signal, Some(25));
    assert_eq!(size(&folder.path().join("full")), 1 << 20);

    let open = Limits { open_files: Some(16), ..Limits::default() };
    let (_, out, _) = run(&limited("ulimit -n; ulimit -c", open)).await;
    assert_eq!(out.lines().collect::<Vec<_>>(), ["16", "0"]);
}

fn size(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

/// What is written into the line is what the program reads; one that reads nothing can be ended all the same.
#[tokio::test]
async fn the_line_is_the_input_of_who_wants_one() {
    let Process { mut line, output, end, .. } = start(&Plan { input: Input::Passed, ..shell("exec cat") }).await;
    let mut read = lines(output);
    for text in ["one", "two"] {
        line.write(format!("{text}\n").as_bytes()).await.unwrap();
        assert_eq!(next(&mut read).await, text);
    }
    drop(line);
    assert_eq!(end.wait().await.by, EndedBy::Asked);

    let plan = Plan { input: Input::Passed, ..shell("echo ready; exec sleep 1000") };
    let Process { mut line, output, end, .. } = start(&plan).await;
    assert_eq!(next(&mut lines(output)).await, "ready");
    let flood = vec![b'x'; 8 << 20];
    // The pipe and both sockets are full long before.
    assert!(timeout(Duration::from_millis(300), line.write(&flood)).await.is_err());
    drop(line);
    assert_eq!(timeout(PATIENCE, end.wait()).await.unwrap().by, EndedBy::Asked);
}
