//! TLS of the door: its certificate and key. The provider is ring.

use std::{fmt, io, path::Path, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};

/// A certificate the door shows, read and checked.
#[derive(Clone)]
pub struct DoorTls(Arc<ServerConfig>);

impl fmt::Debug for DoorTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DoorTls")
    }
}

impl DoorTls {
    /// Reads a certificate chain and its key, both PEM. Blocks on the file system.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, String> {
        let at = |path: &Path, why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|why| at(certificate, &why))?;
        if chain.is_empty() {
            return Err(at(certificate, &"it holds no certificate"));
        }
        let key_of = PrivateKeyDer::from_pem_file(key).map_err(|why| at(key, &why))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key_of));
        let mut config = config.map_err(|why| at(certificate, &why))?;
        config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Greets a client, and says whether it speaks HTTP/2.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<(TlsStream<S>, bool)> {
        let stream = TlsAcceptor::from(Arc::clone(&self.0)).accept(stream).await?;
        let two = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
        Ok((stream, two))
    }
}

/// The name of HTTP/2 in a greeting.
const HTTP_2: &[u8] = b"h2";
