//! Single loaves, pure: one at a time, each done by itself after a time that its recipe says.

use std::time::Duration;

use super::oven::interlock;
use crate::node::Failure;

/// The loaf that is in, and how many there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaves {
    begun: i64,
    inside: Option<Loaf>,
}

#[derive(Clone, Debug)]
struct Loaf {
    number: i64,
    began: Duration,
    takes: Duration,
}

/// How far a loaf is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Baked {
    /// On its way, in percent.
    Partly(f64),
    /// Done, at this temperature of the oven in °C.
    Done(f64),
    /// It came out before it was done.
    Spoilt,
}

impl Loaves {
    /// Puts a loaf in. Gives its number.
    ///
    /// # Errors
    /// While another one is in that is not done.
    pub(crate) fn start(&mut self, now: Duration, recipe: &str) -> Result<i64, Failure> {
        if let Some(loaf) = self.inside.as_ref().filter(|loaf| now < loaf.began.saturating_add(loaf.takes)) {
            return Err(interlock(format!("loaf {} is in the oven; wait for it", loaf.number)));
        }
        let takes = match recipe {
            "rye" => QUICKEST * 3,
            "spelt" => QUICKEST * 2,
            _ => QUICKEST,
        };
        self.begun += 1;
        self.inside = Some(Loaf { number: self.begun, began: now, takes });
        Ok(self.begun)
    }

    /// How far this loaf is; one that is done comes out.
    pub(crate) fn look(&mut self, now: Duration, number: i64, celsius: f64) -> Baked {
        let Some(loaf) = self.inside.as_ref().filter(|loaf| loaf.number == number) else { return Baked::Spoilt };
        let share = now.saturating_sub(loaf.began).as_secs_f64() / loaf.takes.as_secs_f64();
        if share < 1.0 {
            return Baked::Partly((share * 100.0).floor());
        }
        self.inside = None;
        Baked::Done(celsius)
    }

    /// Takes this loaf out before it is done.
    pub(crate) fn take_out(&mut self, number: i64) {
        self.inside.take_if(|loaf| loaf.number == number);
    }

    /// Whatever is in is spoilt.
    pub(crate) fn spoil(&mut self) {
        self.inside = None;
    }
}

/// How long the quickest loaf is in.
const QUICKEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_loaf_at_a_time_is_done_by_itself() {
        let mut loaves = Loaves::default();
        assert_eq!(loaves.start(at(0), "spelt"), Ok(1));
        assert!(loaves.start(at(1), "rye").is_err(), "one at a time");
        assert_eq!(loaves.look(at(1), 1, 20.0), Baked::Partly(50.0));
        assert_eq!(loaves.look(at(2), 1, 20.0), Baked::Done(20.0));
        assert_eq!(loaves.look(at(2), 1, 20.0), Baked::Spoilt, "it is out");
        assert_eq!(loaves.start(at(2), "wheat"), Ok(2));
        loaves.take_out(1);
        assert!(loaves.start(at(2), "wheat").is_err(), "that was another one");
        loaves.take_out(2);
        assert_eq!(loaves.start(at(2), "wheat"), Ok(3));
        assert_eq!(loaves.start(at(60), "wheat"), Ok(4), "one that nobody asked about is long done");
    }
}
