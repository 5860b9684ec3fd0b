//! TLS for a broker: the roots of the system, further roots, a client certificate; [`Trust`] says what they are needed for.
//! The provider is ring.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rumqttc::tokio_rustls::rustls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{ConfigError, Trust};

/// Which certificates to use. All files are PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Roots trusted besides those of the system.
    pub ca: Option<PathBuf>,
    /// Our own certificate chain and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Certificates, read and checked.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<ClientConfig>);

impl Tls {
    /// Reads the roots of the system and the given files. Certificates are always verified. Blocks on the file system.
    ///
    /// # Errors
    /// A file that cannot be read or used, or no root at all.
    pub fn load(files: &TlsFiles) -> Result<Self, ConfigError> {
        Self::load_trusting(files, Trust::Authorities)
    }

    /// The same, trusting otherwise.
    ///
    /// # Errors
    /// The same.
    pub fn load_trusting(files: &TlsFiles, trust: Trust) -> Result<Self, ConfigError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Whoever names an authority beside the certificate wants both.
        let roots = if trust.needs_roots() || files.ca.is_some() { Some(roots(files)?) } else { None };
        let verifier = trust.verifier(roots, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError::Tls(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(certificates(chain)?, private_key(key)?)
                .map_err(|error| ConfigError::Tls(error.to_string()))?,
        };
        Ok(Self(Arc::new(config)))
    }
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    // What a system store holds beyond that (old, odd) is not ours to judge: one bad entry must not end the rest.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &files.ca {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| unusable(path, "CA certificate", &error))?;
        }
    }
    if roots.is_empty() { Err(ConfigError::NoRoots) } else { Ok(roots) }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls(…)")
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let certificates = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(path, "certificate", &error))?;
    if certificates.is_empty() { Err(unusable(path, "certificate", &"there is none")) } else { Ok(certificates) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| unusable(path, "private key", &error))
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::File { path: path.to_owned(), source })
}

fn unusable(path: &Path, what: &'static str, why: &dyn fmt::Display) -> ConfigError {
    ConfigError::Pem { path: path.to_owned(), what, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> ConfigError {
        let identity = identity.map(|(chain, key)| (chain.to_owned(), key.to_owned()));
        Tls::load(&TlsFiles { ca: ca.map(Path::to_owned), identity }).unwrap_err()
    }

    #[test]
    fn a_file_that_is_missing_or_holds_nothing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, junk) = (folder.path().join("missing.pem"), folder.path().join("junk.pem"));
        std::fs::write(&junk, "no certificate").unwrap();
        assert!(matches!(refusal(Some(&missing), None), ConfigError::File { path, .. } if path == missing));
        assert!(matches!(refusal(Some(&junk), None), ConfigError::Pem { path, .. } if path == junk));
    }
}
