//! The life of one supervisor, from the plan to the report of the end.

use std::{
    future::pending,
    io,
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{ChildStdin, Command, Stdio},
    time::Duration,
};

use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf, pipe},
    },
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};

use super::{
    super::plan::{Ended, EndedBy, Input, LONGEST_LINE, Order, Plan, Report, StartFault},
    family::Family,
    limits,
};

/// How long the bridge may take to say what is to be run.
const PATIENCE: Duration = Duration::from_secs(10);

/// Supervises one program: the socket to the bridge is standard input.
///
/// # Errors
///
/// When standard input is no socket of a bridge, or nobody is there to be told.
pub async fn run() -> io::Result<()> {
    let socket = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let (read, mut write) = UnixStream::from_std(socket)?.into_split();
    let mut orders = BufReader::new(read);
    let Order { plan, mark } = timeout(PATIENCE, order(&mut orders)).await??;
    // Both before there is a child whose end they could miss.
    let mut signals = Signals::new()?;
    let (head, input) = match begin(&plan, mark) {
        Ok(begun) => begun,
        Err(fault) => return tell(&mut write, &Report::Failed(fault)).await,
    };
    let mut family = Family::of(head);
    // A bridge that is gone already is noticed below.
    let _ = tell(&mut write, &Report::Started(head.as_raw_nonzero().get().unsigned_abs())).await;
    let by = until_over(&mut family, &mut signals, orders, input, plan.limits.run_ms).await;
    let left_behind = if by == EndedBy::Itself { family.count() } else { 0 };
    let survivors = family.end(&mut signals.child).await;
    let exit = family.exit.unwrap_or_default();
    let ended = Ended { code: exit.code, signal: exit.signal, by, left_behind, survivors };
    let told = tell(&mut write, &Report::Ended(ended)).await;
    // Whoever began this may be gone.
    if plan.scratch && survivors == 0 {
        let _ = std::fs::remove_dir_all(&plan.directory);
    }
    told
}

/// What asks us to end, and what tells that a child did.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    child: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            child: signal(SignalKind::child())?,
        })
    }
}

async fn order(orders: &mut BufReader<OwnedReadHalf>) -> io::Result<Order<'static>> {
    let mut line = Vec::new();
    orders.take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
    Ok(serde_json::from_slice(&line)?)
}

async fn tell(write: &mut OwnedWriteHalf, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    write.write_all(&line).await
}

/// Starts the program, in a group of its own. Its outputs are ours, and so the bridge's pipes.
fn begin(plan: &Plan, mark: u64) -> Result<(Pid, Option<pipe::Sender>), StartFault> {
    let system = |error: rustix::io::Errno| StartFault::from(io::Error::from(error));
    Family::adopt().map_err(system)?;
    limits::set(&plan.limits, mark).map_err(system)?;
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).env_clear().current_dir(&plan.directory).process_group(0);
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(if plan.input == Input::Passed { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn()?;
    // Waited for in `Family`, among whatever else becomes ours.
    let input = child.stdin.take().map(sender).transpose()?;
    Ok((Pid::from_child(&child), input))
}

fn sender(input: ChildStdin) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd(input.into())
}

/// Waits for the first of what ends it: itself, the bridge, the system, its time.
async fn until_over(
    family: &mut Family,
    signals: &mut Signals,
    orders: BufReader<OwnedReadHalf>,
    input: Option<pipe::Sender>,
    run_ms: Option<u64>,
) -> EndedBy {
    let mut gone = std::pin::pin!(bridge_gone(orders, input));
    let mut time = std::pin::pin!(async move {
        match run_ms {
            Some(ms) => sleep(Duration::from_millis(ms)).await,
            None => pending().await,
        }
    });
    loop {
        family.reap();
        if family.exit.is_some() {
            return EndedBy::Itself;
        }
        tokio::select! {
            _ = signals.child.recv() => {}
            () = &mut gone => return EndedBy::Asked,
            () = &mut time => return EndedBy::Time,
            _ = signals.terminate.recv() => return EndedBy::Asked,
            _ = signals.interrupt.recv() => return EndedBy::Asked,
            _ = signals.hangup.recv() => return EndedBy::Asked,
        }
    }
}

/// Ends when the bridge has closed its end. What it wrote until then goes to the program, if that is to have it; a program that
/// does not read must not hide that the bridge is gone, so the socket is watched while it is waited for.
async fn bridge_gone(mut orders: BufReader<OwnedReadHalf>, mut input: Option<pipe::Sender>) {
    loop {
        let (taken, lost) = match (orders.fill_buf().await, &mut input) {
            (Ok([]) | Err(_), _) => return,
            (Ok(bytes), None) => (bytes.len(), false),
            (Ok(bytes), Some(program)) => {
                let bytes = bytes.to_owned();
                let written = tokio::select! {
                    written = program.write(&bytes) => written,
                    () = closed(&orders) => return,
                };
                written.map_or((bytes.len(), true), |taken| (taken, false))
            }
        };
        orders.consume(taken);
        if lost {
            input = None;
        }
    }
}

/// Ends when the bridge's end of the socket is closed, whatever is still to be read from it.
async fn closed(orders: &BufReader<OwnedReadHalf>) {
    use tokio::io::Interest;
    loop {
        match orders.get_ref().ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => {
                // Something to read is no news; the next look is worth it a little later.
                sleep(Duration::from_millis(50)).await;
            }
            _ => return,
        }
    }
}
