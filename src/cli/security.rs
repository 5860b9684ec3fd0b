//! The flags that say whom we trust and who we are: keys of frames, certificates of brokers. No secret is ever one of
//! their values, because process listings are public: they name files.

use std::path::PathBuf;

use clap::Args;

use super::{StartError, keys};
use crate::{
    link::{
        hub,
        mqtt::{self, Signing},
        tls::{Tls, TlsFiles},
        trust::{Digest, Trust},
    },
    wire::{PeerName, signing::KeyFile},
};

/// Flags of every subcommand that joins a network.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SecurityArgs {
    /// The key file frames are signed with; if it lists peers, only their signed frames are taken. `plantbridge keygen` makes
    /// one.
    #[arg(long, value_name = "KEYFILE")]
    sign: Option<PathBuf>,
    /// Joins a hub although --sign is given. Nothing on a hub is signed: whoever is on it, or holds it, can speak as anybody, and
    /// is heard. For a hub that is trusted with everybody behind it.
    #[arg(long, requires = "sign")]
    hub_unsigned: bool,
    /// The SHA-256 digest of the broker's certificate: this one is trusted and no other. With --ca it has to be of that
    /// authority too.
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pin: Option<Digest>,
    /// The name the broker's certificate is for, where that is not the host of --broker.
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    server_name: Option<String>,
    /// Takes any certificate of a broker, so that whoever is in between can read and change everything. Needs --development.
    #[arg(long, requires = "development", conflicts_with_all = ["pin", "ca"])]
    insecure_tls: bool,
    /// Allows what must never be on beside a plant, and says so at the start.
    #[arg(long)]
    development: bool,
}

impl SecurityArgs {
    /// Reads the key file, if one is named.
    pub(super) fn key_file(&self) -> Result<Option<KeyFile>, StartError> {
        self.sign.as_deref().map(keys::read).transpose()
    }

    /// Makes the links trust what was asked for. What would protect nothing is refused.
    pub(super) fn secure(
        self,
        files: &TlsFiles,
        broker: Option<&mut mqtt::Config>,
        hub: Option<&mut hub::Config>,
    ) -> Result<(), StartError> {
        let trust = self.trust();
        let named = files.ca.is_some() || files.identity.is_some();
        let asked = named || trust != Trust::Authorities || self.server_name.is_some();
        let is_tls = broker.as_ref().is_some_and(|link| link.broker.is_tls())
            || hub.as_ref().is_some_and(|link| link.hub.is_tls());
        if asked && !is_tls {
            let flags = "--ca, --client-cert, --client-key, --pin, --server-name and --insecure-tls";
            return Err(StartError(format!("{flags} need TLS: a broker at mqtts:// or wss://, or a hub at https://")));
        }
        let tls = if named || trust != Trust::Authorities {
            Some(Tls::load_trusting(files, trust).map_err(StartError::new)?)
        } else {
            None
        };
        if let Some(link) = broker {
            link.tls.clone_from(&tls);
            link.server_name = self.server_name;
        }
        if let Some(link) = hub {
            link.tls = tls;
        }
        Ok(())
    }

    /// Which certificate is trusted.
    pub(super) const fn trust(&self) -> Trust {
        match (self.insecure_tls, self.pin) {
            (true, _) => Trust::Anyone,
            (false, Some(digest)) => Trust::Pinned(digest),
            (false, None) => Trust::Authorities,
        }
    }

    /// Whether frames may be taken from a hub beside signed ones from a broker, where both are there. What is not signed would
    /// otherwise be heard beside what is, and nobody would know.
    pub(super) fn allows_hub(&self, signs: bool, hub: bool) -> Result<(), StartError> {
        match (signs && hub, self.hub_unsigned) {
            (true, false) => Err(StartError(
                "--sign with --hub: nothing on a hub is signed, and whoever is on it could speak as anybody; leave one of them \
                 out, or add --hub-unsigned if that hub is trusted with everybody behind it"
                    .into(),
            )),
            (false, true) => {
                Err(StartError("--hub-unsigned is about a hub beside a broker where frames are signed, and there is no hub".into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether any certificate is taken.
    pub(super) const fn is_insecure(&self) -> bool {
        self.insecure_tls
    }

    /// Whether what must never be on beside a plant may be.
    pub(super) const fn is_development(&self) -> bool {
        self.development
    }
}

/// Our name, from the command line or from the key file, which must not contradict each other.
pub(super) fn name_of(
    given: Option<&str>,
    file: Option<&KeyFile>,
    made_up: impl FnOnce() -> String,
) -> Result<PeerName, StartError> {
    let filed = file.and_then(|file| file.name.as_ref());
    let name = match (given, filed) {
        (Some(given), Some(filed)) if given != filed.as_str() => {
            let text = format!(
                "--name {given:?}: the key file is that of {:?}, and others know its key by that name",
                filed.as_str()
            );
            return Err(StartError(text));
        }
        (Some(given), _) => given.to_owned(),
        (None, Some(filed)) => return Ok(filed.clone()),
        (None, None) => made_up(),
    };
    PeerName::configured(&name).map_err(|error| StartError(format!("--name {name:?}: {error}")))
}

/// What an operator should read about how this link is secured. Called once logging runs.
pub(super) fn tell(signing: Option<&Signing>, hub: bool, insecure: bool) {
    if insecure {
        tracing::warn!(
            "--insecure-tls: ANY CERTIFICATE IS TAKEN. Whoever is between us and the broker reads and changes"
        );
        tracing::warn!("everything, commands and passwords included. This is for development, never beside a plant.");
    }
    let Some(signing) = signing else { return };
    if hub {
        tracing::warn!(
            "--hub-unsigned: NOTHING ON THE HUB IS SIGNED OR VERIFIED. Whoever is on it can speak as any peer, and is heard:"
        );
        tracing::warn!("calls from there count as from nobody in particular, and answers from there as anybody's.");
    }
    match &signing.peers {
        Some(peers) => tracing::info!(
            "frames are signed with {}, and taken from the {} peers the key file lists, if signed by them",
            signing.signer.kind(),
            peers.len()
        ),
        None => tracing::info!(
            "frames are signed with {}; the key file lists no peers, so those of others are taken unverified",
            signing.signer.kind()
        ),
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| {
        "a SHA-256 digest is 64 hexadecimal digits, as `openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE` prints them"
            .into()
    })
}

fn server_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let usable = (1..=253).contains(&text.len()) && text.chars().all(plain);
    if usable { Ok(text.to_owned()) } else { Err("a host name or an address is wanted, without a port".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_key_file_must_agree() {
        let file = KeyFile::parse(r#"{"name": "hmi", "secret": "a secret of some length"}"#).unwrap();
        let nobody = || panic!("a name was made up");
        assert_eq!(name_of(None, Some(&file), nobody).unwrap().as_str(), "hmi");
        assert_eq!(name_of(Some("hmi"), Some(&file), nobody).unwrap().as_str(), "hmi");
        let refused = name_of(Some("oven"), Some(&file), nobody).unwrap_err().0;
        assert!(refused.contains("\"oven\"") && refused.contains("\"hmi\""), "{refused}");
        assert_eq!(name_of(None, None, || "made-up".into()).unwrap().as_str(), "made-up");
        let nameless = KeyFile::parse(r#"{"secret": "a secret of some length"}"#).unwrap();
        assert_eq!(name_of(Some("oven"), Some(&nameless), nobody).unwrap().as_str(), "oven");
        assert!(name_of(Some("a/b"), None, nobody).is_err());
    }
}
