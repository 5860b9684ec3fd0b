//! Compatibility: whether a caller who was built against one contract is still served by another one, or by a live peer
//! (semantics 5). Pure and bounded, whatever either side says.
//!
//! The texts are those of the reference (S-053). What the reference leaves out of the comparison, and what it takes for
//! compatible although it breaks a caller, is compared here; the list is beside the test of the vectors.

mod assign;
pub mod difference;
mod explain;
mod namespace;
mod report;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use difference::{Difference, differences};
use namespace::{Comparison, Told};
pub use report::{Breaking, CompatibilityVerdict, Report, Unchecked, incompatible_version};

use super::{Contract, Description, Namespace};

/// Compares `stored`, which a caller was built against, with `current`, which is to be served now.
pub fn compare(stored: &Contract, current: &Contract) -> Report {
    let mut comparison = Comparison::new(&stored.types, &current.types, Told::Contract);
    run(&mut comparison, &stored.namespaces, &current.namespaces, |_| false)
}

/// Compares `stored`, which a caller was built against, with what a live peer says of itself.
///
/// What the peer does not say is not taken for agreement: see [`Report::unchecked`] and [`Report::undescribed`].
pub fn check(stored: &Contract, live: &Description) -> Report {
    let mut comparison = Comparison::new(&stored.types, &live.types, Told::Description);
    run(&mut comparison, &stored.namespaces, &live.namespaces, is_undescribed)
}

fn run<'t>(
    comparison: &mut Comparison<'t>,
    stored: &'t [Namespace],
    current: &'t [Namespace],
    undescribed: impl Fn(&Namespace) -> bool,
) -> Report {
    let by_name: HashMap<&str, &Namespace> =
        current.iter().map(|namespace| (namespace.name.as_str(), namespace)).collect();
    for namespace in stored.iter().filter(|namespace| namespace.name != "msgrpc") {
        match by_name.get(namespace.name.as_str()) {
            None => comparison.report.missing.push(namespace.name.clone()),
            Some(current) if undescribed(current) => comparison.report.undescribed.push(namespace.name.clone()),
            Some(current) => {
                comparison.report.checked.push(namespace.name.clone());
                comparison.namespace(namespace, current);
            }
        }
    }
    std::mem::take(&mut comparison.report)
}

/// Served, with methods, of which none is described.
fn is_undescribed(namespace: &Namespace) -> bool {
    !namespace.methods.is_empty() && namespace.methods.iter().all(|method| method.params.is_none())
}
