//! The second floor: the same call by the MQTT client library of the bridge over its link, and nothing above that.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A running `benches/link.rs`; killed when dropped.
#[derive(Debug)]
pub(super) struct Library {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Library {
    /// Starts it on a broker, and waits until it is up.
    pub(super) fn join(program: &Path, port: u16) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg(format!("mqtt://127.0.0.1:{port}")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (to, from) = pipes.ok_or("the caller of the library has no pipes")?;
        let mut library = Self { process, to, from: BufReader::new(from) };
        match library.line()?.trim() {
            "up" => Ok(library),
            other => Err(format!("the caller of the library did not come up: {other:?}")),
        }
    }

    /// Calls `peer` one time after another; how long each call took goes to `samples`.
    pub(super) fn sequential(&mut self, peer: &str, calls: usize, samples: &mut Vec<Duration>) -> Result<(), String> {
        let times = self.ask(&format!("seq {peer} {calls}\n"))?;
        samples.extend(times);
        Ok(())
    }

    /// Calls with so many in flight, and says how long all of them took.
    pub(super) fn flight(&mut self, peer: &str, calls: usize, in_flight: usize) -> Result<Duration, String> {
        let times = self.ask(&format!("flight {peer} {calls} {in_flight}\n"))?;
        times.first().copied().ok_or_else(|| "no time was told".to_owned())
    }

    fn ask(&mut self, line: &str) -> Result<Vec<Duration>, String> {
        self.to.write_all(line.as_bytes()).map_err(|error| format!("the caller of the library: {error}"))?;
        let answer = self.line()?;
        let times: Result<Vec<u64>, _> = answer.split_whitespace().map(str::parse).collect();
        let times = times.map_err(|_| format!("the caller of the library said {answer:?}"))?;
        Ok(times.into_iter().map(Duration::from_nanos).collect())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(0) => Err("the caller of the library has ended".to_owned()),
            Ok(_) => Ok(line),
            Err(error) => Err(format!("the caller of the library: {error}")),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // One that has ended by itself needs no end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
