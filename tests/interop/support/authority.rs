//! A certificate authority of one test, with a certificate for the broker and one for the bridge.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use sha2::{Digest as _, Sha256};

/// What certificate the broker shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A good one.
    Good,
    /// One whose time is over.
    Expired,
    /// One whose time has not come.
    Early,
    /// One for `broker.plant.example`.
    OtherName,
    /// One that nobody made but itself.
    SelfSigned,
    /// One that makes others, and itself.
    Authority,
}

/// The authority; its files live as long as a clone of it.
#[derive(Clone)]
pub(crate) struct Authority(Arc<tempfile::TempDir>);

impl Authority {
    /// A fresh one: `ca`, `broker`, `broker-key`, `client` and `client-key`, as PEM.
    pub(crate) fn new() -> Self {
        Self::showing(Shown::Good)
    }

    /// The same, with another certificate for the broker.
    pub(crate) fn showing(shown: Shown) -> Self {
        let own = Self(Arc::new(tempfile::tempdir().expect("a scratch folder can be made")));
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).expect("an authority signs itself");
        own.write("ca", &ca.pem());
        let issuer = Issuer::new(params, key);
        let host = if shown == Shown::OtherName { "broker.plant.example" } else { "127.0.0.1" };
        for (name, subject) in [("broker", host), ("client", "bridge-test")] {
            let key = KeyPair::generate().expect("a key can be made");
            let mut params = CertificateParams::new(vec![subject.to_owned()]).expect("a name or an address");
            // With the same name as the authority it would look signed by itself.
            params.distinguished_name.push(DnType::CommonName, name);
            match shown {
                Shown::Expired if name == "broker" => {
                    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
                }
                Shown::Authority if name == "broker" => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
                Shown::Early if name == "broker" => params.not_before = date_time_ymd(3000, 1, 1),
                _ => {}
            }
            let certificate = match shown {
                Shown::SelfSigned | Shown::Authority if name == "broker" => params.self_signed(&key),
                _ => params.signed_by(&key, &issuer),
            };
            let certificate = certificate.expect("it is signed");
            own.write(name, &certificate.pem());
            own.write(&format!("{name}-key"), &key.serialize_pem());
            own.write(&format!("{name}-digest"), &hex::encode(Sha256::digest(certificate.der())));
        }
        own
    }

    /// The SHA-256 digest of the broker's certificate.
    pub(crate) fn digest(&self) -> String {
        fs::read_to_string(self.file("broker-digest")).expect("it was written")
    }

    /// Where one of its files is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.pem"))
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.file(name), pem).expect("the scratch folder can be written");
    }
}
