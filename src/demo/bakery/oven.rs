//! The oven, pure: what it is, what may be done to it, and how it heats. Time is an argument, counted from any one moment,
//! and temperature is a function of it.
//!
//! Every transition first lets the time pass that has passed. What is worth telling afterwards is collected and drained
//! by [`Oven::take_news`].

use std::time::Duration;

use super::{
    loaves::{Baked, Loaves},
    news::{Event, News},
};
use crate::{
    node::Failure,
    wire::{Map, Value},
};

/// An oven with a door, a heating and one batch at a time.
#[derive(Clone, Debug)]
pub(crate) struct Oven {
    /// When the time that has passed was last let pass.
    at: Duration,
    celsius: f64,
    setpoint: f64,
    top_setpoint: f64,
    mode: Mode,
    door: Door,
    tags: Map,
    /// Batches begun so far; the number of the next one is one more.
    batches: i64,
    baking: Option<Batch>,
    loaves: Loaves,
    /// What the instruments show more than they measure, in °C.
    offset: f64,
    news: News,
}

/// What the heating does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Off. It keeps the temperature it has: a good oven cools too slowly to be watched.
    Idle,
    /// On its way up to the setpoint.
    Heating,
    /// At the setpoint, or coming down to it.
    Holding,
}

/// The door. The heating is never on while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Open.
    Open,
    /// Closed.
    Closed,
}

/// What is in the oven.
#[derive(Clone, Debug)]
struct Batch {
    number: i64,
    recipe: String,
    loaves: i64,
    done: Duration,
}

impl Oven {
    /// A cold oven with a closed door.
    pub(crate) fn new(at: Duration) -> Self {
        let mut tags = Map::new();
        tags.insert("line.1", 1.0);
        tags.insert("flour", 0.75);
        Self {
            at,
            celsius: AMBIENT,
            setpoint: 180.0,
            top_setpoint: 200.0,
            mode: Mode::Idle,
            door: Door::Closed,
            tags,
            batches: 0,
            baking: None,
            loaves: Loaves::default(),
            offset: 0.0,
            news: News::default(),
        }
    }

    /// The props.
    pub(crate) fn props() -> Map {
        let mut props = Map::new();
        props.insert("unit", "C");
        props.insert("maximum", MAXIMUM);
        props
    }

    /// The state as it was when time was last let pass.
    pub(crate) fn state(&self) -> Map {
        let mut top = Map::new();
        top.insert("setpoint", self.top_setpoint);
        let mut zones = Map::new();
        zones.insert("top", top);
        let mut state = self.reading(self.celsius, self.mode);
        state.insert("zones", zones);
        state.insert("tags", self.tags.clone());
        state.insert("batches", self.batches);
        state
    }

    /// What the instruments show at `now`; nothing changes by looking.
    pub(crate) fn read(&self, now: Duration) -> Map {
        let (celsius, mode) = self.heat_at(now);
        self.reading(celsius, mode)
    }

    /// When something will change by itself next: at most once a second, and never while nothing moves.
    pub(crate) fn next_change(&self) -> Option<Duration> {
        let moves = self.mode == Mode::Heating || (self.mode == Mode::Holding && self.celsius > self.setpoint);
        let step = moves.then(|| self.at.saturating_add(STEP));
        let done = self.baking.as_ref().map(|batch| batch.done);
        match (step, done) {
            (Some(step), Some(done)) => Some(step.min(done)),
            (step, done) => step.or(done),
        }
    }

    /// Lets the time pass until `now`. A clock that went back is taken as one that stood.
    pub(crate) fn advance(&mut self, now: Duration) {
        let now = now.max(self.at);
        let (celsius, mode) = self.heat_at(now);
        if tenths(celsius).to_bits() != tenths(self.celsius).to_bits() || mode != self.mode {
            self.news.changed();
        }
        (self.celsius, self.mode, self.at) = (celsius, mode, now);
        if let Some(batch) = self.baking.take_if(|batch| batch.done <= now) {
            self.end_batch(&batch, batch.loaves);
        }
    }

    /// Sets the setpoint, no higher than the maximum. Gives what it took.
    pub(crate) fn set_setpoint(&mut self, now: Duration, celsius: f64) -> f64 {
        self.advance(now);
        let taken = celsius.clamp(0.0, MAXIMUM);
        if taken.to_bits() != self.setpoint.to_bits() {
            self.setpoint = taken;
            self.news.changed();
            self.steer();
        }
        taken
    }

    /// Sets the setpoint of the upper zone, no higher than the maximum. Gives what it took.
    pub(crate) fn set_top_setpoint(&mut self, now: Duration, celsius: f64) -> f64 {
        self.advance(now);
        let taken = celsius.clamp(0.0, MAXIMUM);
        if taken.to_bits() != self.top_setpoint.to_bits() {
            self.top_setpoint = taken;
            self.news.changed();
        }
        taken
    }

    /// Turns the heating on or off. Gives the mode it is in then.
    ///
    /// # Errors
    /// The interlock: it is not turned on while the door is open.
    pub(crate) fn set_heating(&mut self, now: Duration, on: bool) -> Result<Mode, Failure> {
        self.advance(now);
        if on && self.door == Door::Open {
            return Err(interlock(
                "the oven does not heat with the door open; close it first with setDoor(\"closed\")",
            ));
        }
        if on && self.mode == Mode::Idle {
            self.mode = Mode::Heating;
            self.news.changed();
            self.steer();
        } else if !on {
            self.turn_off();
        }
        Ok(self.mode)
    }

    /// Opens or closes the door. Opening turns the heating off and spoils what is in the oven.
    pub(crate) fn set_door(&mut self, now: Duration, door: Door) -> Door {
        self.advance(now);
        if door != self.door {
            self.door = door;
            self.news.changed();
            self.news.event("doorChanged", vec![door.as_str().into()]);
            if door == Door::Open {
                self.loaves.spoil();
                self.turn_off();
            }
        }
        door
    }

    /// Sets a tag. Gives its value.
    ///
    /// # Errors
    /// When there are as many tags as it holds and none of this name.
    pub(crate) fn set_tag(&mut self, now: Duration, name: &str, value: f64) -> Result<f64, Failure> {
        self.advance(now);
        let before = self.tags.get(name).and_then(Value::as_f64);
        if before.is_none() && self.tags.len() >= MAX_TAGS {
            return Err(interlock(format!("the oven holds {MAX_TAGS} tags, and none of them is '{name}'")));
        }
        if before.map(f64::to_bits) != Some(value.to_bits()) {
            self.tags.insert(name, value);
            self.news.changed();
        }
        Ok(value)
    }

    /// Puts a batch in. Gives its number.
    ///
    /// # Errors
    /// While the door is open, while it is not at temperature, and while another batch is in.
    pub(crate) fn start_batch(&mut self, now: Duration, recipe: &str, loaves: i64) -> Result<i64, Failure> {
        self.advance(now);
        if self.door == Door::Open {
            return Err(interlock("no batch is started with the door open; close it first with setDoor(\"closed\")"));
        }
        if self.mode != Mode::Holding || self.celsius > self.setpoint {
            let (celsius, setpoint, mode) = (tenths(self.celsius), tenths(self.setpoint), self.mode.as_str());
            return Err(interlock(format!(
                "the oven is {mode} at {celsius} °C and not at its setpoint of {setpoint} °C; a batch is started only there"
            )));
        }
        if let Some(batch) = &self.baking {
            return Err(interlock(format!("batch {} is in the oven; wait for its batchDone", batch.number)));
        }
        self.batches += 1;
        let done = self.at.saturating_add(BAKING);
        self.baking = Some(Batch { number: self.batches, recipe: recipe.to_owned(), loaves, done });
        self.news.changed();
        Ok(self.batches)
    }

    /// The loaves, each baked by itself, at `now`.
    ///
    /// # Errors
    /// While the door is open.
    pub(crate) fn loaves(&mut self, now: Duration) -> Result<&mut Loaves, Failure> {
        self.advance(now);
        match self.door {
            Door::Open => {
                Err(interlock("nothing is baked with the door open; close it first with setDoor(\"closed\")"))
            }
            Door::Closed => Ok(&mut self.loaves),
        }
    }

    /// How far a loaf is. Opening the door spoils it.
    pub(crate) fn loaf(&mut self, now: Duration, number: i64) -> Baked {
        self.advance(now);
        self.loaves.look(self.at, number, tenths(self.celsius))
    }

    /// Sets what the instruments show more than they measure. Gives what it took.
    pub(crate) fn calibrate(&mut self, now: Duration, offset: f64) -> f64 {
        self.advance(now);
        let taken = offset.clamp(-MAX_OFFSET, MAX_OFFSET);
        if taken.to_bits() != self.offset.to_bits() {
            self.offset = taken;
            self.news.changed();
        }
        taken
    }

    /// What happened since this was last asked: the new state if it changed, and the events, oldest first.
    pub(crate) fn take_news(&mut self) -> (Option<Map>, Vec<Event>) {
        let (changed, events) = self.news.take();
        (changed.then(|| self.state()), events)
    }

    /// Temperature and mode at `now`, if nobody touches anything until then.
    fn heat_at(&self, now: Duration) -> (f64, Mode) {
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        match self.mode {
            Mode::Idle => (self.celsius, Mode::Idle),
            Mode::Heating => {
                let celsius = (self.celsius + seconds * WARMING).min(self.setpoint);
                (celsius, if celsius < self.setpoint { Mode::Heating } else { Mode::Holding })
            }
            Mode::Holding => ((self.celsius - seconds * COOLING).max(self.setpoint), Mode::Holding),
        }
    }

    /// Brings the mode in line with a new setpoint while the heating is on.
    fn steer(&mut self) {
        if self.mode == Mode::Idle {
            return;
        }
        self.mode = if self.celsius < self.setpoint { Mode::Heating } else { Mode::Holding };
        if self.celsius > self.setpoint + TOLERANCE {
            self.news.event("overTemperature", vec![tenths(self.celsius).into(), tenths(self.setpoint).into()]);
        }
    }

    fn turn_off(&mut self) {
        if self.mode != Mode::Idle {
            self.mode = Mode::Idle;
            self.news.changed();
        }
        if let Some(batch) = self.baking.take() {
            self.end_batch(&batch, 0);
        }
    }

    fn end_batch(&mut self, batch: &Batch, good: i64) {
        self.news.event("batchDone", vec![batch.number.into(), batch.recipe.as_str().into(), good.into()]);
    }

    fn reading(&self, celsius: f64, mode: Mode) -> Map {
        let mut reading = Map::new();
        reading.insert("celsius", tenths(celsius + self.offset));
        reading.insert("setpoint", self.setpoint);
        reading.insert("mode", mode.as_str());
        reading.insert("door", self.door.as_str());
        reading
    }
}

impl Mode {
    /// The word of the contract.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Heating => "heating",
            Self::Holding => "holding",
        }
    }
}

impl Door {
    /// The word of the contract.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }

    /// Reads the word of the contract.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Open, Self::Closed].into_iter().find(|door| door.as_str() == word)
    }
}

/// A refusal before anything was done; `Forbidden` tells the caller just that, where `Exception` would say that it ran.
pub(super) fn interlock(why: impl Into<String>) -> Failure {
    Failure::coded("Forbidden", why)
}

/// A temperature as instruments show it.
fn tenths(celsius: f64) -> f64 {
    (celsius * 10.0).round() / 10.0
}

/// No setpoint is higher, in °C.
pub(crate) const MAXIMUM: f64 = 280.0;
/// The temperature of the bakery, in °C.
const AMBIENT: f64 = 20.0;
/// °C a second while heating: from cold to bread in under a minute, for nobody watches a demo for longer.
const WARMING: f64 = 4.0;
/// °C a second while coming down to a lower setpoint.
const COOLING: f64 = 2.0;
/// °C over the setpoint from which it is told.
const TOLERANCE: f64 = 10.0;
/// How often a moving temperature is told.
const STEP: Duration = Duration::from_secs(1);
/// No offset is larger, in °C.
const MAX_OFFSET: f64 = 5.0;
/// How long a batch is in.
const BAKING: Duration = Duration::from_secs(20);
/// How many tags it holds; the contract says the same.
const MAX_TAGS: usize = 32;

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these numbers are exact in binary")]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// An oven at its setpoint of 180 °C, with everything told.
    fn hot() -> (Oven, u64) {
        let mut oven = Oven::new(at(0));
        oven.set_heating(at(0), true).unwrap();
        oven.advance(at(40));
        assert_eq!(oven.mode, Mode::Holding);
        oven.take_news();
        (oven, 40)
    }

    fn names(events: &[Event]) -> Vec<&str> {
        events.iter().map(|event| event.name).collect()
    }

    #[test]
    fn setpoints_are_clamped_to_the_maximum() {
        let mut oven = Oven::new(at(0));
        assert_eq!(oven.set_setpoint(at(0), 190.0), 190.0);
        assert_eq!(oven.set_setpoint(at(0), 9000.0), MAXIMUM);
        assert_eq!(oven.set_setpoint(at(0), f64::INFINITY), MAXIMUM);
        assert_eq!(oven.set_top_setpoint(at(0), 281.0), MAXIMUM);
        let state = oven.state();
        assert_eq!(state.get("setpoint"), Some(&Value::Float(MAXIMUM)));
        assert_eq!(
            Value::from(state).get("zones").unwrap().get("top").unwrap().get("setpoint").unwrap().as_f64(),
            Some(MAXIMUM)
        );
    }

    #[test]
    fn temperature_is_a_function_of_time() {
        let mut oven = Oven::new(at(0));
        oven.set_heating(at(0), true).unwrap();
        assert_eq!(oven.read(at(10)).get("celsius"), Some(&Value::Float(60.0)));
        // In one step or in many, it gets there at the same time.
        let mut stepped = oven.clone();
        for second in 1..=39 {
            stepped.advance(at(second));
            assert_eq!(stepped.mode, Mode::Heating, "{second}");
        }
        stepped.advance(at(40));
        oven.advance(at(40));
        assert_eq!((oven.celsius, oven.mode), (180.0, Mode::Holding));
        assert_eq!((stepped.celsius, stepped.mode), (180.0, Mode::Holding));
    }

    #[test]
    fn nothing_is_told_while_nothing_moves_and_at_most_once_a_second_while_it_does() {
        let mut oven = Oven::new(at(0));
        assert_eq!(oven.next_change(), None);
        oven.advance(at(1000));
        assert_eq!(oven.take_news(), (None, vec![]));
        oven.set_heating(at(1000), true).unwrap();
        let mut told = 0;
        let mut last = at(1000);
        while let Some(due) = oven.next_change() {
            assert!(due >= last + STEP, "{due:?} after {last:?}");
            oven.advance(due);
            told += usize::from(oven.take_news().0.is_some());
            last = due;
        }
        assert_eq!((told, oven.mode), (40, Mode::Holding));
        oven.advance(at(5000));
        assert_eq!(oven.take_news(), (None, vec![]), "a held temperature is no news");
    }

    #[test]
    fn the_heating_is_not_turned_on_while_the_door_is_open() {
        let mut oven = Oven::new(at(0));
        oven.set_door(at(0), Door::Open);
        oven.take_news();
        let refused = oven.set_heating(at(1), true).unwrap_err();
        assert_eq!(refused.code, "Forbidden");
        assert_eq!(oven.take_news(), (None, vec![]));
        assert_eq!(oven.set_heating(at(1), false), Ok(Mode::Idle), "off is always allowed");
        oven.set_door(at(2), Door::Closed);
        assert_eq!(oven.set_heating(at(2), true), Ok(Mode::Heating));
    }

    #[test]
    fn opening_the_door_turns_the_heating_off_and_is_told() {
        let mut oven = Oven::new(at(0));
        oven.set_heating(at(0), true).unwrap();
        oven.take_news();
        oven.set_door(at(5), Door::Open);
        let (state, events) = oven.take_news();
        let state = state.unwrap();
        assert_eq!(state.get("mode"), Some(&"idle".into()));
        assert_eq!(state.get("celsius"), Some(&Value::Float(40.0)), "the time until then has passed");
        assert_eq!(events, [Event { name: "doorChanged", args: vec!["open".into()] }]);
        assert_eq!(oven.next_change(), None);
        oven.set_door(at(6), Door::Open);
        assert_eq!(oven.take_news(), (None, vec![]), "an open door that is opened is no news");
    }

    #[test]
    fn a_batch_needs_a_closed_oven_at_temperature_and_ends_by_itself() {
        let mut cold = Oven::new(at(0));
        assert_eq!(cold.start_batch(at(0), "rye", 40).unwrap_err().code, "Forbidden");
        let (mut oven, now) = hot();
        assert_eq!(oven.start_batch(at(now), "rye", 40), Ok(1));
        assert_eq!(oven.state().get("batches"), Some(&Value::Int(1)));
        assert!(oven.start_batch(at(now), "rye", 40).is_err(), "one at a time");
        oven.take_news();
        let due = oven.next_change().unwrap();
        oven.advance(due);
        let done = Event { name: "batchDone", args: vec![1.into(), "rye".into(), 40.into()] };
        assert_eq!(oven.take_news().1, [done]);
        assert_eq!(oven.start_batch(due, "spelt", 1), Ok(2));
    }

    #[test]
    fn an_open_door_spoils_the_batch() {
        let (mut oven, now) = hot();
        oven.start_batch(at(now), "rye", 40).unwrap();
        oven.take_news();
        oven.set_door(at(now + 1), Door::Open);
        let (_, events) = oven.take_news();
        assert_eq!(names(&events), ["doorChanged", "batchDone"]);
        assert_eq!(events[1].args[2], Value::Int(0));
        oven.advance(at(now + 100));
        assert_eq!(oven.take_news(), (None, vec![]));
    }

    #[test]
    fn a_setpoint_far_below_the_temperature_is_an_alarm_and_is_cooled_down_to() {
        let (mut oven, now) = hot();
        oven.set_setpoint(at(now), 175.0);
        assert_eq!(names(&oven.take_news().1), [""; 0], "within the tolerance");
        oven.set_setpoint(at(now), 160.0);
        assert_eq!(names(&oven.take_news().1), ["overTemperature"]);
        assert!(oven.start_batch(at(now), "rye", 1).is_err(), "it is still too hot");
        oven.advance(at(now + 10));
        assert_eq!((oven.celsius, oven.next_change()), (160.0, None));
        assert_eq!(oven.start_batch(at(now + 10), "rye", 1), Ok(1));
    }

    #[test]
    fn a_loaf_is_spoilt_by_an_open_door() {
        let mut oven = Oven::new(at(0));
        assert_eq!(oven.loaves(at(0)).unwrap().start(at(0), "rye"), Ok(1));
        assert_eq!(oven.loaf(at(1), 1), Baked::Partly(33.0));
        oven.set_door(at(1), Door::Open);
        assert_eq!(oven.loaf(at(1), 1), Baked::Spoilt);
        assert_eq!(oven.loaves(at(1)).unwrap_err().code, "Forbidden");
        oven.set_door(at(2), Door::Closed);
        assert_eq!(oven.loaves(at(2)).unwrap().start(at(2), "wheat"), Ok(2));
        assert_eq!(oven.loaf(at(3), 2), Baked::Done(AMBIENT));
    }

    #[test]
    fn calibration_moves_what_is_shown_and_nothing_else() {
        let mut oven = Oven::new(at(0));
        assert_eq!(oven.calibrate(at(0), 1.5), 1.5);
        assert_eq!(oven.take_news().0.unwrap().get("celsius"), Some(&Value::Float(21.5)));
        assert_eq!((oven.celsius, oven.calibrate(at(0), 99.0)), (AMBIENT, MAX_OFFSET));
    }

    #[test]
    fn tags_are_bounded() {
        let mut oven = Oven::new(at(0));
        for number in oven.tags.len()..MAX_TAGS {
            oven.set_tag(at(0), &format!("tag.{number}"), 1.0).unwrap();
        }
        assert_eq!(oven.set_tag(at(0), "one.more", 1.0).unwrap_err().code, "Forbidden");
        assert_eq!(oven.set_tag(at(0), "line.1", 7.0), Ok(7.0), "one that is there can still be set");
    }

    #[test]
    fn a_clock_that_goes_back_stands() {
        let (mut oven, now) = hot();
        oven.set_setpoint(at(now), 200.0);
        oven.advance(at(0));
        assert_eq!((oven.at, oven.celsius), (at(now), 180.0));
    }
}
