//! A child process that prints one JSON value per line. Its standard error goes to a file: what it wrote before an answer can be
//! read once the answer has come, however busy the machine is.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;

use super::PATIENCE;

/// A running child; killed when dropped.
pub(crate) struct Child {
    name: String,
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Read while something else was waited for, oldest first.
    kept: VecDeque<Value>,
    stderr: File,
    reader: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts it with its input and output piped, and its complaints in a file that nobody has a name for.
    pub(crate) fn start(name: &str, command: &mut Command) -> Self {
        let complaints = tempfile::NamedTempFile::new().expect("a file can be made");
        // A second opening has a place of its own: reading does not move where the child writes.
        let stderr = complaints.reopen().expect("it is there");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(complaints.into_file());
        let mut process = piped.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let stdin = process.stdin.take();
        let (say, lines) = channel();
        let stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let reader = std::thread::spawn(move || {
            // A line that is no UTF-8 is passed on damaged: reading it as JSON then fails where it can be seen.
            for line in stdout.split(b'\n').map_while(Result::ok) {
                let _ = say.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        // The command keeps its end of the file, and may be started again.
        command.stderr(Stdio::null());
        Self { name: name.to_owned(), process, stdin, lines, kept: VecDeque::new(), stderr, reader: Some(reader) }
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal, by its own id.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "{} is not there", self.name);
    }

    /// What it wrote to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        let (mut file, mut text) = (&self.stderr, Vec::new());
        file.rewind().and_then(|()| file.read_to_end(&mut text)).expect("a file of ours can be read");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Writes one line to its standard input.
    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is still open");
        let written = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush());
        if let Err(error) = written {
            panic!("{} takes no more input: {error}\n{}", self.name, self.stderr());
        }
    }

    /// Closes its standard input.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// The next line that `wanted` accepts, which yields what is returned. Other lines are kept for later waits.
    pub(crate) fn wait_for<T>(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> Option<T>) -> T {
        for at in 0..self.kept.len() {
            if let Some(found) = wanted(&self.kept[at]) {
                self.kept.remove(at);
                return found;
            }
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let value = self.read(what, until);
            match wanted(&value) {
                Some(found) => return found,
                None => self.kept.push_back(value),
            }
        }
    }

    /// The lines waiting now that `wanted` accepts; the others stay. Nothing is waited for.
    pub(crate) fn heard<T>(&mut self, wanted: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        while let Ok(line) = self.lines.try_recv() {
            let value = self.parse(&line);
            self.kept.push_back(value);
        }
        self.kept.iter().filter_map(wanted).collect()
    }

    /// Waits until it has ended, and until everything it printed was read as JSON.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        // Its output ends when it does; reading to the end is the wait.
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let value = self.parse(&line);
                    self.kept.push_back(value);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("{} does not end\n{}", self.name, self.stderr()),
            }
        }
        let status = self.process.wait().expect("it was started by us");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no reader panics");
        }
        status
    }

    fn read(&self, what: &str, until: Instant) -> Value {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => self.parse(&line),
            Err(RecvTimeoutError::Disconnected) => panic!("{} ended before {what}\n{}", self.name, self.stderr()),
            Err(RecvTimeoutError::Timeout) => {
                panic!("{}: no {what}; it said {:?}\n{}", self.name, self.kept, self.stderr())
            }
        }
    }

    fn parse(&self, line: &str) -> Value {
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{} printed a line that is no JSON ({error}): {line}", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
