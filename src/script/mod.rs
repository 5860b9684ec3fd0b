//! Programs that are not ours, run beside the bridge and never in it.
//!
//! [`Supervisor`] starts one under a supervisor of our own: a second process of this binary that limits it, holds it
//! together with everything it begins, and ends all of it when the bridge says so or is gone. Who needs to run something,
//! scripts and handlers of fakes alike, begins here and nowhere else.

mod plan;
mod process;
pub mod supervise;

pub use plan::{Ended, EndedBy, Input, Limits, Plan, StartFault};
pub use process::{End, Line, Process, Supervisor};
