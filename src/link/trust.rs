//! Which certificate of a broker is trusted, and what is said of one that is not.
//!
//! However it is trusted, the broker has to prove in the handshake that it holds the certificate's key.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls;

use super::tls::TlsError;

/// Which certificate of a broker is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// One that an authority made, for the broker's name, and whose time is now.
    #[default]
    Authorities,
    /// This one and no other. If an authority is named too, it has to be one of that authority as well; without one,
    /// neither who made it counts nor its name nor its time.
    Pinned(Digest),
    /// Any. For development only: whoever is in between reads and changes everything.
    Anyone,
}

impl Trust {
    /// Whether the roots of the system are needed.
    pub(super) const fn needs_roots(self) -> bool {
        matches!(self, Self::Authorities)
    }

    /// What verifies certificates; `roots` where an authority is to be asked.
    pub(super) fn verifier(
        self,
        roots: Option<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        let authorities = match roots.filter(|_| self != Self::Anyone) {
            None => None,
            Some(roots) => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                    .build()
                    .map_err(|error| TlsError::Setup(error.to_string()))?,
            ),
        };
        let pin = match self {
            Self::Pinned(digest) => Some(digest),
            Self::Authorities | Self::Anyone => None,
        };
        Ok(match (authorities, pin) {
            (Some(authorities), None) => authorities,
            (authorities, pin) => Arc::new(Chosen { authorities, pin, provider: Arc::clone(provider) }),
        })
    }
}

/// The SHA-256 digest of a certificate, as `openssl x509 -noout -fingerprint -sha256` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Reads 64 hexadecimal digits, with or without colons between the bytes, or the whole line in which openssl prints them.
    pub fn parse(text: &str) -> Option<Self> {
        let text = match text.trim().split_once('=') {
            Some((head, digits)) if head.eq_ignore_ascii_case("sha256 fingerprint") => digits,
            Some(_) => return None,
            None => text,
        };
        let digits: Vec<u8> = match text.len() {
            64 => text.into(),
            95 if text.split(':').all(|byte| byte.len() == 2) => text.bytes().filter(|byte| *byte != b':').collect(),
            _ => return None,
        };
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| pair.get(at).and_then(|digit| char::from(*digit).to_digit(16));
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self(digest))
    }

    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Trusts what was chosen beside, or instead of, what authorities say.
#[derive(Debug)]
struct Chosen {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    pin: Option<Digest>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Chosen {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = Digest::of(end_entity);
        if self.pin.is_some_and(|pinned| pinned != shown) {
            let other = OtherError(Arc::new(NotPinned(shown)));
            return Err(CertificateError::Other(other).into());
        }
        match &self.authorities {
            Some(authorities) => {
                authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Another certificate than the pinned one was shown.
#[derive(Debug, thiserror::Error)]
#[error("the broker shows another certificate than the pinned one; its SHA-256 digest is {0}")]
struct NotPinned(Digest);

/// What is wrong with TLS, as a sentence for whoever has to put it right.
pub(super) fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => {
            format!("the broker ended the TLS handshake, {alert:?}: it may want a certificate of ours, or another one")
        }
        Error::InvalidMessage(_) => "no TLS is spoken there: it may be a port without TLS".into(),
        Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => {
            "the broker speaks neither TLS 1.2 nor TLS 1.3".into()
        }
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    use CertificateError as Cause;
    match error {
        Cause::Expired => "the broker's certificate has expired".into(),
        Cause::ExpiredContext { time, not_after } => {
            format!("the broker's certificate expired {} ago, by this machine's clock", apart(*not_after, *time))
        }
        Cause::NotValidYet => "the broker's certificate is not valid yet".into(),
        Cause::NotValidYetContext { time, not_before } => {
            format!("the broker's certificate is valid in {}, by this machine's clock", apart(*time, *not_before))
        }
        Cause::UnknownIssuer => {
            "nobody trusted here made the broker's certificate: it is self-signed, or of a private authority; name that \
             authority, or pin the certificate"
                .into()
        }
        Cause::NotValidForName => "the broker's certificate is for another name than the one connected to".into(),
        Cause::NotValidForNameContext { expected, presented } => {
            let mut names = String::new();
            for name in presented.iter().take(NAMES) {
                let _ = write!(names, "{}{:?}", if names.is_empty() { "" } else { ", " }, clip(name));
            }
            let names = if names.is_empty() { "no name at all".into() } else { names };
            format!("the broker's certificate is not for {}, it is for {names}", expected.to_str())
        }
        Cause::Other(other) => match other.0.downcast_ref::<NotPinned>() {
            Some(not_pinned) => not_pinned.to_string(),
            // The verifier has no word of its own for these, and no type that could be asked.
            None if other.0.to_string() == "CaUsedAsEndEntity" => {
                "the broker shows an authority's own certificate, as `openssl req -x509` makes one: issue a certificate for the \
                 broker with it, or pin it"
                    .into()
            }
            None => format!("the broker's certificate is not usable: {}", other.0),
        },
        other => format!("the broker's certificate is not usable: {other}"),
    }
}

fn apart(earlier: UnixTime, later: UnixTime) -> String {
    let seconds = later.as_secs().saturating_sub(earlier.as_secs());
    match (seconds / 86_400, seconds / 60) {
        (0, minutes) => format!("{minutes} minutes"),
        (1, _) => "1 day".into(),
        (days, _) => format!("{days} days"),
    }
}

/// A name as a certificate holds it: the verifier writes its kind around it.
fn clip(name: &str) -> String {
    name.split('"').nth(1).unwrap_or(name).chars().take(80).collect()
}

/// How many names of a certificate are told.
const NAMES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_with_and_without_colons() {
        let plain = "00ff".repeat(16);
        let digest = Digest::parse(&plain).unwrap();
        assert_eq!(digest.to_string(), plain);
        let colons = ["00:FF"; 16].join(":");
        assert_eq!(Digest::parse(&colons), Some(digest));
        for head in ["sha256 Fingerprint", "SHA256 Fingerprint"] {
            assert_eq!(Digest::parse(&format!("{head}={colons}\n")), Some(digest));
        }
        assert_eq!(Digest::parse(&format!("sha1 Fingerprint={colons}")), None);
        for odd in ["", "00", &plain[1..], &format!("{plain}0"), &plain.replace('f', "g"), &colons.replace(':', "-")] {
            assert_eq!(Digest::parse(odd), None, "{odd}");
        }
        // As many characters, and colons where digits belong.
        assert_eq!(Digest::parse(&format!("{}:", "0".repeat(94))), None);
        assert_eq!(Digest::parse(&"é".repeat(32)), None);
    }
}
