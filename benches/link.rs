//! The second floor of `cargo xtask bench`: the same call over our own link, by the same MQTT client library and a runtime,
//! without anything of the bridge above it. Driven over its pipes: `seq N` and `flight N K` are answered with nanoseconds.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use plantbridge::link::mqtt::{BrokerUrl, Config, start};
use plantbridge::link::{Link, LinkEvent, LinkId, Outbound};
use plantbridge::wire::frame::Answer;
use plantbridge::wire::name::Prefix;
use plantbridge::wire::topic::Topics;
use plantbridge::wire::{Frame, Message, PeerName, ReplyRoute, Request, Value};

/// What goes wrong here is told to whoever started this.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let Some(url) = std::env::args().nth(1).filter(|argument| argument.starts_with("mqtt://")) else {
        return Err("usage: link mqtt://HOST:PORT, driven by `cargo xtask bench`".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut caller = runtime.block_on(Caller::join(&url))?;
    let mut out = std::io::stdout();
    writeln!(out, "up")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let times = match words.as_slice() {
            ["seq", peer, calls] => runtime.block_on(caller.sequential(peer, calls.parse()?))?,
            ["flight", peer, calls, at_once] => {
                vec![runtime.block_on(caller.flight(peer, calls.parse()?, at_once.parse()?))?]
            }
            _ => return Err(format!("what is {line:?}?").into()),
        };
        let times: Vec<String> = times.iter().map(|time| time.as_nanos().to_string()).collect();
        writeln!(out, "{}", times.join(" "))?;
        out.flush()?;
    }
    Ok(())
}

/// A caller on its own link.
struct Caller {
    link: Link,
    me: PeerName,
    next: u64,
}

impl Caller {
    async fn join(url: &str) -> Outcome<Self> {
        let me = PeerName::configured("bench-link")?;
        let config = Config::new(BrokerUrl::parse(url)?, Topics::new(&Prefix::default(), me.clone())?);
        let mut caller = Self { link: start(config, LinkId(0)), me, next: 0 };
        while !matches!(caller.event().await?, LinkEvent::Up) {}
        Ok(caller)
    }

    /// One call after another.
    async fn sequential(&mut self, peer: &str, calls: usize) -> Outcome<Vec<Duration>> {
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let begun = Instant::now();
            self.call(peer)?;
            self.answer().await?;
            times.push(begun.elapsed());
        }
        Ok(times)
    }

    /// So many calls with so many in flight.
    async fn flight(&mut self, peer: &str, calls: usize, at_once: usize) -> Outcome<Duration> {
        let begun = Instant::now();
        let mut started = at_once.min(calls);
        for _ in 0..started {
            self.call(peer)?;
        }
        for _ in 0..calls {
            self.answer().await?;
            if started < calls {
                started += 1;
                self.call(peer)?;
            }
        }
        Ok(begun.elapsed())
    }

    fn call(&mut self, peer: &str) -> Outcome<()> {
        self.next += 1;
        let request = Request {
            correlation: self.next.to_string().into(),
            path: "bench".into(),
            method: "echo".into(),
            args: vec!["0123456789abcdef".into()],
            version: None,
            ttl: Some(10_000),
            expiry: None,
            idempotency_key: None,
            fence: None,
            reply: ReplyRoute::default(),
        };
        let target = PeerName::configured(peer)?;
        let frame = Frame { source: self.me.clone(), target, message: Message::Request(request) };
        Ok(self.link.outbound.try_send(Outbound::Frame { id: self.next, frame: Box::new(frame), claim: None })?)
    }

    async fn answer(&mut self) -> Outcome<()> {
        loop {
            let LinkEvent::Frame(frame) = self.event().await? else { continue };
            return match frame.message {
                Message::Reply(reply) if reply.answer == Answer::Value(Some(Value::from("0123456789abcdef"))) => Ok(()),
                other => Err(format!("not an echo: {other:?}").into()),
            };
        }
    }

    async fn event(&mut self) -> Outcome<LinkEvent> {
        self.link.events.recv().await.ok_or_else(|| "the link has ended".into())
    }
}
