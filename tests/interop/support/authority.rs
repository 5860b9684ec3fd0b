//! A certificate authority of one test, with a certificate for the broker and one for the bridge.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The authority; its files live as long as a clone of it.
#[derive(Clone)]
pub(crate) struct Authority(Arc<tempfile::TempDir>);

impl Authority {
    /// A fresh one: `ca`, `broker`, `broker-key`, `client` and `client-key`, as PEM.
    pub(crate) fn new() -> Self {
        let own = Self(Arc::new(tempfile::tempdir().expect("a scratch folder can be made")));
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).expect("an authority signs itself");
        own.write("ca", &ca.pem());
        let issuer = Issuer::new(params, key);
        for (name, subject) in [("broker", "127.0.0.1"), ("client", "bridge-test")] {
            let key = KeyPair::generate().expect("a key can be made");
            let mut params = CertificateParams::new(vec![subject.to_owned()]).expect("a name or an address");
            // With the same name as the authority it would look signed by itself.
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &issuer).expect("the authority signs");
            own.write(name, &certificate.pem());
            own.write(&format!("{name}-key"), &key.serialize_pem());
        }
        own
    }

    /// Where one of its files is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.pem"))
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.file(name), pem).expect("the scratch folder can be written");
    }
}
