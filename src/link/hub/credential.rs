//! What is presented to a hub that asks who we are: one token for all connections, or one that is minted for each.

use std::time::Duration;

use super::Config;
use crate::link::now_ms;
use crate::wire::PeerName;
use crate::wire::signing::{Claims, Minter, Secret};

/// What a peer of ours is to a hub that lets us vouch for it. It is minted anew for each connection, so that one that was
/// overheard is soon worth nothing.
#[derive(Clone, Debug)]
pub struct Passport {
    /// Mints it.
    pub minter: Minter,
    /// What the peer is.
    pub roles: &'static [&'static str],
    /// How many hands it is away from a person.
    pub generation: u8,
    /// How long one holds. It is asked for when a connection begins, and no later.
    pub life: Duration,
}

/// What is presented on one connection.
#[derive(Debug)]
pub(super) struct Credential {
    token: Option<Secret>,
    /// Whether we minted it.
    pub(super) minted: bool,
}

impl Credential {
    /// That of the next connection; the error says why there is none.
    pub(super) fn of(config: &Config) -> Result<Self, String> {
        match &config.passport {
            Some(passport) => Ok(Self { token: Some(passport.minted(&config.me)?), minted: true }),
            None => Ok(Self { token: config.token.clone(), minted: false }),
        }
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(Secret::expose)
    }
}

impl Passport {
    fn minted(&self, subject: &PeerName) -> Result<Secret, String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| format!("the system gives no random bytes: {error}"))?;
        let id = format!("fake-{:032x}", u128::from_le_bytes(random));
        let now = u64::try_from(now_ms()).unwrap_or_default();
        let life = u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX);
        Ok(self.minter.mint(&Claims {
            id: &id,
            subject,
            roles: self.roles,
            generation: self.generation,
            issued_ms: now,
            expires_ms: now.saturating_add(life),
        }))
    }
}
