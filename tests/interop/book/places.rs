//! The addresses a page shows, and those they stand for while it is tried.

use crate::support::{Bridge, PLANTBRIDGE};

/// What a page calls its broker.
const BROKERS: [&str; 2] = ["mqtt://127.0.0.1:1883", "mqtt://broker.plant.example:1883"];
/// What a page calls its door.
const DOOR: &str = "http://127.0.0.1:8850";
/// What a page calls the port of its health and metrics.
const HEALTH: &str = "9464";
/// Where a page says that the binary is.
const BINARY: &str = "/usr/local/bin/plantbridge";

/// Where things really are.
#[derive(Default)]
pub(super) struct Places {
    broker: Option<String>,
    door: Option<String>,
    health: Option<String>,
    /// A bakery of ours, for a page that has none.
    bakery: Option<Bridge>,
}

impl Places {
    /// Takes note of the addresses that something which stays up has told.
    pub(super) fn learn(&mut self, said: &str) {
        self.broker = address(said, "", "mqtt://127.0.0.1:").or_else(|| self.broker.take());
        self.door = address(said, "MCP over HTTP is at ", "http://127.0.0.1:").or_else(|| self.door.take());
        self.health = address(said, "health and metrics are at http://127.0.0.1:", "").or_else(|| self.health.take());
    }

    /// A text of the page with the addresses it stands for. Ports are taken where they are free.
    pub(super) fn put_into(&mut self, text: &str) -> String {
        let mut out = text.replace(BINARY, PLANTBRIDGE);
        for (fixed, free) in
            [("--port 8850", "--port 0"), ("port = 8850", "port = 0"), ("--metrics-port 9464", "--metrics-port 0")]
        {
            out = out.replace(fixed, free);
        }
        for example in BROKERS.into_iter().filter(|example| text.contains(example)) {
            out = out.replace(example, self.broker());
        }
        for (example, place) in [(DOOR, &self.door), (HEALTH, &self.health)] {
            if let Some(place) = place {
                out = out.replace(example, place);
            }
        }
        out
    }

    /// What came, with the addresses as the page has them.
    pub(super) fn take_out(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (place, example) in [(&self.broker, BROKERS[0]), (&self.door, DOOR)] {
            if let Some(place) = place {
                out = out.replace(place, example);
            }
        }
        out
    }

    fn broker(&mut self) -> &str {
        let bakery = &mut self.bakery;
        self.broker.get_or_insert_with(|| {
            let (bridge, url) = Bridge::demo();
            *bakery = Some(bridge);
            url
        })
    }
}

/// The last address that begins with `stem`, after these words, up to the end of its port.
fn address(said: &str, words: &str, stem: &str) -> Option<String> {
    let (_, rest) = said.rsplit_once(&format!("{words}{stem}"))?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!port.is_empty()).then(|| format!("{stem}{port}"))
}
