//! Who and what is let in, which an operator may change while the door is open. Each request is judged by the rules of one moment.

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    super::{auth::Keys, hosts::Hosts},
    tls::DoorTls,
};

/// Who and what is let in.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whose tokens are known.
    pub keys: Keys,
    /// Under which names, and to which pages, the door answers.
    pub hosts: Hosts,
    /// The certificate it shows; without one it speaks plainly.
    pub tls: Option<DoorTls>,
}

/// Changes the rules of a door that is open. What has been let in goes on; the next request is met by the new ones.
#[derive(Clone, Debug)]
pub struct RulesHandle(watch::Sender<Arc<Rules>>);

impl RulesHandle {
    pub(super) fn new(rules: Rules) -> Self {
        Self(watch::Sender::new(Arc::new(rules)))
    }

    /// From now on these, all of them at once. A client whose token is gone, or was given to another, also ends to listen, and what
    /// one that is gone controls is given back.
    pub fn set(&self, rules: Rules) {
        self.0.send_replace(Arc::new(rules));
    }

    /// Whether the door shows a certificate.
    pub fn has_tls(&self) -> bool {
        self.0.borrow().tls.is_some()
    }

    pub(super) fn read(&self) -> Reader {
        Reader(self.0.subscribe())
    }
}

/// The rules as they are.
#[derive(Clone)]
pub(super) struct Reader(watch::Receiver<Arc<Rules>>);

impl Reader {
    /// Those of this moment.
    pub(super) fn now(&self) -> Arc<Rules> {
        Arc::clone(&self.0.borrow())
    }

    /// Gives them when they have changed. Never again once nobody can change them.
    pub(super) async fn changed(&mut self) -> Arc<Rules> {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.0.borrow_and_update())
    }
}
