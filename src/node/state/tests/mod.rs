//! Tests of the machine as a whole: one against recorded traffic, two against each other over a bad network.

mod bench;
mod context;
mod deferred;
mod hosted;
mod hostile;
mod links;
mod listening;
mod model;
mod owed;
mod queue;
mod recorded;
mod returning;
mod scenes;
mod serving;
mod sim;
mod streams;
mod two_links;
