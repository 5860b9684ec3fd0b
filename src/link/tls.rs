//! TLS for a broker or a hub: the roots of the system, further roots, a client certificate; [`Trust`] says what they are needed
//! for. The provider is ring.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls;

pub(super) use rustls::{ClientConnection, ProtocolVersion};

use super::seat::down;
use super::socket::Prompt;
use super::trust::{Trust, sentence};
use super::{DownKind, DownReason};

/// Which certificates to use. All files are PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Roots trusted besides those of the system.
    pub ca: Option<PathBuf>,
    /// Our own certificate chain and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What is wrong with certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that could not be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that holds no certificate or key.
    #[error("{path} holds no usable {what}: {why}")]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What the parser says.
        why: String,
    },
    /// The system has no roots and none were given.
    #[error("this system offers no root certificates; name a CA file")]
    NoRoots,
    /// Certificate and key do not go together, or TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// Certificates, read and checked.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Reads the roots of the system and the given files. Certificates are always verified. Blocks on the file system.
    ///
    /// # Errors
    /// A file that cannot be read or used, or no root at all.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        Self::load_trusting(files, Trust::Authorities)
    }

    /// The same, trusting otherwise.
    ///
    /// # Errors
    /// The same.
    pub fn load_trusting(files: &TlsFiles, trust: Trust) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Whoever names an authority beside the certificate wants both.
        let roots = if trust.needs_roots() || files.ca.is_some() { Some(roots(files)?) } else { None };
        let verifier = trust.verifier(roots, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(certificates(chain)?, private_key(key)?)
                .map_err(|error| TlsError::Setup(error.to_string()))?,
        };
        Ok(Self(Arc::new(config)))
    }

    /// The same, for whoever named no files: read in the background, as reading blocks.
    pub(super) async fn of_the_system() -> Result<Self, DownReason> {
        match tokio::task::spawn_blocking(|| Self::load(&TlsFiles::default())).await {
            Ok(Ok(loaded)) => Ok(loaded),
            Ok(Err(error)) => Err(down(DownKind::Tls, error.to_string())),
            Err(error) => Err(down(DownKind::Tls, error.to_string())),
        }
    }
}

/// TLS on `stream`, with whoever shows a certificate for `name`.
pub(super) async fn secure(tls: &Tls, name: &str, stream: Prompt) -> Result<TlsStream<Prompt>, DownReason> {
    let name = ServerName::try_from(name.to_owned());
    let name = name.map_err(|_| down(DownKind::Tls, "the host is no name that a certificate could be for"))?;
    TlsConnector::from(Arc::clone(&tls.0)).connect(name, stream).await.map_err(|error| match tls_cause(&error) {
        Some(cause) => down(DownKind::Tls, cause),
        None => down(DownKind::Unreachable, error.to_string()),
    })
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // What a system store holds beyond that (old, odd) is not ours to judge: one bad entry must not end the rest.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &files.ca {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| unusable(path, "CA certificate", &error))?;
        }
    }
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls(…)")
    }
}

/// The TLS error below `error`, if one is there. The TLS layer wraps its errors as I/O errors of any depth.
pub(super) fn tls_cause(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(sentence(error));
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(path, "certificate", &error))?;
    if certificates.is_empty() { Err(unusable(path, "certificate", &"there is none")) } else { Ok(certificates) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| unusable(path, "private key", &error))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn unusable(path: &Path, what: &'static str, why: &dyn fmt::Display) -> TlsError {
    TlsError::Pem { path: path.to_owned(), what, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> TlsError {
        let identity = identity.map(|(chain, key)| (chain.to_owned(), key.to_owned()));
        Tls::load(&TlsFiles { ca: ca.map(Path::to_owned), identity }).unwrap_err()
    }

    #[test]
    fn a_file_that_is_missing_or_holds_nothing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, junk) = (folder.path().join("missing.pem"), folder.path().join("junk.pem"));
        std::fs::write(&junk, "no certificate").unwrap();
        assert!(matches!(refusal(Some(&missing), None), TlsError::File { path, .. } if path == missing));
        assert!(matches!(refusal(Some(&junk), None), TlsError::Pem { path, .. } if path == junk));
    }
}
