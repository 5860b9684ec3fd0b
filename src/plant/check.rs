//! Whether a live peer still satisfies a contract, and what two live peers expose differently.

use std::{sync::Arc, time::Duration};

use super::{ContractSource, Plant, PlantError, Purpose, Unsaid, is_fake};
use crate::{
    contract::{
        Contract, Description,
        compat::{self, Difference, Report},
    },
    script::beside,
    wire::PeerName,
};

/// A peer, held against a contract.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The peer.
    pub peer: PeerName,
    /// Whether it says that it is a fake.
    pub fake: bool,
    /// What messages call the contract.
    pub contract: String,
    /// What was found.
    pub report: Report,
    /// Why the peer could not be described, if it could not: then nothing was compared.
    pub silent: Option<Unsaid>,
    /// What of its description could not be read, or cannot be checked here.
    pub unread: Vec<String>,
}

/// What is said of a side that is no device.
pub(crate) fn said_of_a_fake(peer: &PeerName) -> String {
    format!("{peer} is a fake: this says nothing about any device")
}

/// Two peers, held against each other.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The one.
    pub left: PeerName,
    /// The other.
    pub right: PeerName,
    /// Whether one of them says that it is a fake.
    pub fake: bool,
    /// What they expose differently.
    pub differences: Vec<Difference>,
    /// What of their descriptions could not be read.
    pub unread: Vec<String>,
}

impl Plant {
    /// Holds a peer, asked afresh, against a contract. One that says nothing of itself is no pass: all of the contract is
    /// undescribed then.
    ///
    /// # Errors
    ///
    /// When the contract cannot be used or the peer is not there.
    pub async fn check_peer(&self, peer: &str, source: ContractSource, wait: Duration) -> Result<Checked, PlantError> {
        let sourced = self.contract(source, Purpose::Compare).await?;
        let (label, stored) = (sourced.label, sourced.contract);
        let (peer, description) = match self.describe(peer, wait).await {
            Ok(described) => (described.peer, described.description),
            Err(PlantError::Undescribed { peer, unsaid }) => return Ok(silent(peer, unsaid, label, stored)),
            Err(error) => return Err(error),
        };
        let (fake, unread) = (is_fake(&description), unread(&description));
        let report = beside(move || compat::check(&stored, &description)).await;
        Ok(Checked { peer, fake, contract: label, report, silent: None, unread })
    }

    /// Asks two peers to describe themselves and says what differs.
    ///
    /// # Errors
    ///
    /// When one of them is not there or says nothing of itself.
    pub async fn diff_peers(&self, left: &str, right: &str, wait: Duration) -> Result<Compared, PlantError> {
        let (left, right) = tokio::join!(self.describe(left, wait), self.describe(right, wait));
        let (left, right) = (left?, right?);
        let read = |side: &Arc<Description>, peer: &PeerName| {
            unread(side).into_iter().map(|problem| format!("{peer}: {problem}")).collect::<Vec<_>>()
        };
        let mut unread = read(&left.description, &left.peer);
        unread.extend(read(&right.description, &right.peer));
        let fakes = [&left, &right].into_iter().filter(|side| is_fake(&side.description));
        unread.extend(fakes.clone().map(|side| said_of_a_fake(&side.peer)));
        let fake = fakes.count() > 0;
        let (one, other) = (left.description, right.description);
        let differences = beside(move || compat::differences(&*one, &*other)).await;
        Ok(Compared { left: left.peer, right: right.peer, fake, differences, unread })
    }
}

/// Of a peer that says nothing of itself nothing is compared.
fn silent(peer: PeerName, unsaid: Unsaid, contract: String, stored: Contract) -> Checked {
    let names = stored.namespaces.into_iter().map(|namespace| namespace.name);
    let report = Report { undescribed: names.filter(|name| name != "msgrpc").collect(), ..Report::default() };
    Checked { peer, fake: false, contract, report, silent: Some(unsaid), unread: Vec::new() }
}

fn unread(description: &Description) -> Vec<String> {
    let problems = description.problems.iter().map(ToString::to_string);
    let unchecked = description.unchecked.iter().map(|problem| format!("compared by its text alone: {problem}"));
    problems.chain(unchecked).collect()
}
