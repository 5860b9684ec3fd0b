//! The packaging line, pure: it packs, jams when too much comes at once, and stands until the jam is cleared.

use super::news::{Event, News};
use super::oven::interlock;
use crate::{node::Failure, wire::Map};

/// A line with a speed, a counter and a weakness.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    speed: f64,
    jam: bool,
    packed: i64,
    news: News,
}

impl Line {
    /// A line that runs slowly and has packed nothing.
    pub(crate) fn new() -> Self {
        Self { speed: 20.0, jam: false, packed: 0, news: News::default() }
    }

    /// The props.
    pub(crate) fn props() -> Map {
        let mut props = Map::new();
        props.insert("maximum", MAXIMUM);
        props
    }

    /// The state.
    pub(crate) fn state(&self) -> Map {
        let mut state = Map::new();
        state.insert("speed", self.speed);
        state.insert("jam", self.jam);
        state.insert("packed", self.packed);
        state
    }

    /// Sets the speed, in packages a minute, no higher than the maximum. Gives what it took.
    ///
    /// # Errors
    /// While it is jammed, except to stop it.
    pub(crate) fn set_speed(&mut self, per_minute: f64) -> Result<f64, Failure> {
        let taken = per_minute.clamp(0.0, MAXIMUM);
        if self.jam && taken > 0.0 {
            return Err(jammed());
        }
        if taken.to_bits() != self.speed.to_bits() {
            self.speed = taken;
            self.news.changed();
        }
        Ok(taken)
    }

    /// Packs so many loaves. Gives how many it has packed in all. More than it can take at once are packed up to there,
    /// and jam it.
    ///
    /// # Errors
    /// While it is jammed or stands.
    pub(crate) fn pack(&mut self, loaves: i64) -> Result<i64, Failure> {
        if self.jam {
            return Err(jammed());
        }
        if self.speed <= 0.0 {
            return Err(interlock("the line stands; set it going with setSpeed(20)"));
        }
        self.packed = self.packed.saturating_add(loaves.min(AT_ONCE));
        self.news.changed();
        if loaves > AT_ONCE {
            (self.jam, self.speed) = (true, 0.0);
            self.news.event("jammed", vec![self.packed.into()]);
        }
        Ok(self.packed)
    }

    /// Clears the jam, if there is one. The line stands afterwards.
    pub(crate) fn clear_jam(&mut self) {
        if std::mem::take(&mut self.jam) {
            self.news.changed();
            self.news.event("cleared", vec![]);
        }
    }

    /// What happened since this was last asked: the new state if it changed, and the events, oldest first.
    pub(crate) fn take_news(&mut self) -> (Option<Map>, Vec<Event>) {
        let (changed, events) = self.news.take();
        (changed.then(|| self.state()), events)
    }
}

fn jammed() -> Failure {
    interlock("the line is jammed; somebody has to look, then clearJam()")
}

/// No speed is higher, in packages a minute.
const MAXIMUM: f64 = 120.0;
/// Loaves it takes at once.
const AT_ONCE: i64 = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Value;

    #[test]
    fn speed_is_clamped() {
        let mut line = Line::new();
        assert_eq!(line.set_speed(9000.0), Ok(MAXIMUM));
        assert_eq!(line.take_news().0.unwrap().get("speed"), Some(&Value::Float(MAXIMUM)));
        assert_eq!(line.set_speed(MAXIMUM), Ok(MAXIMUM));
        assert_eq!(line.take_news(), (None, vec![]));
    }

    #[test]
    fn too_much_at_once_jams_it_until_the_jam_is_cleared() {
        let mut line = Line::new();
        assert_eq!(line.pack(200), Ok(200));
        assert_eq!(line.pack(201), Ok(400));
        let (state, events) = line.take_news();
        assert_eq!(state.unwrap().get("jam"), Some(&Value::Bool(true)));
        assert_eq!(events, [Event { name: "jammed", args: vec![Value::Int(400)] }]);
        assert_eq!(line.pack(1).unwrap_err().code, "Forbidden");
        assert_eq!(line.set_speed(10.0).unwrap_err().code, "Forbidden");
        assert_eq!(line.set_speed(0.0), Ok(0.0), "stopping is always allowed");
        line.clear_jam();
        assert_eq!(line.take_news().1, [Event { name: "cleared", args: vec![] }]);
        assert!(line.pack(1).is_err(), "it stands");
        assert_eq!(line.set_speed(10.0), Ok(10.0));
        assert_eq!(line.pack(1), Ok(401));
    }
}
