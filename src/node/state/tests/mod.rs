//! Tests of the machine as a whole: one against recorded traffic, two against each other over a bad network.

mod hostile;
mod links;
mod model;
mod recorded;
mod sim;
