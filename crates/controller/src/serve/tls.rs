//! TLS, with a certificate that is read again when its files change.
//!
//! The files are compared by their content, because the kubelet replaces the files of a Secret by
//! symbolic links. A file that cannot be used is logged, and the certificate before stays in use.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use dashboard::http::{Channel, Socket, Transport};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How often the files are read. cert-manager replaces a certificate days before it expires, and a
/// connection that begins in the meantime still gets the one before.
const EVERY: Duration = Duration::from_secs(10);

/// TLS with the PEM files of a certificate chain and of its key.
///
/// # Errors
/// A file cannot be read, or the key is not that of the certificate.
pub(super) fn transport(certificate: PathBuf, key: PathBuf) -> anyhow::Result<Transport> {
    let files = Files { certificate, key };
    let content = files.read()?;
    let current = Arc::new(RwLock::new(files.config(&content)?));
    let shared = Arc::clone(&current);
    let follow = move || files.follow(content, &shared);
    std::thread::Builder::new().name("certificate".into()).spawn(follow)?;
    Ok(Box::new(move |mut socket| {
        let config = Arc::clone(&current.read().unwrap_or_else(PoisonError::into_inner));
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut socket) {
                // The client is sent why, if it is still there.
                socket.end();
                return Err(error);
            }
        }
        Ok(Box::new(Encrypted(StreamOwned::new(connection, socket))))
    }))
}

/// The files of a certificate.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The content of both files.
#[derive(PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn read(&self) -> anyhow::Result<Content> {
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("failed to read {}", path.display()))
        };
        Ok(Content { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn config(&self, content: &Content) -> anyhow::Result<Arc<ServerConfig>> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let chain = CertificateDer::pem_slice_iter(&content.certificate);
        let chain = chain
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| format!("failed to parse the certificate {certificate}"))?;
        anyhow::ensure!(!chain.is_empty(), "{certificate} has no certificate in PEM");
        let private = PrivateKeyDer::from_pem_slice(&content.key)
            .with_context(|| format!("failed to parse the key {key}"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .with_context(|| format!("failed to use {certificate} with the key {key}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Reads the files again and again, for as long as the process lives.
    fn follow(&self, mut used: Content, current: &RwLock<Arc<ServerConfig>>) {
        let mut reported = String::new();
        loop {
            std::thread::sleep(EVERY);
            let read = self.read().and_then(|content| {
                if content == used {
                    return Ok(None);
                }
                let config = self.config(&content)?;
                Ok(Some((content, config)))
            });
            match read {
                Ok(None) => reported.clear(),
                Ok(Some((content, config))) => {
                    used = content;
                    *current.write().unwrap_or_else(PoisonError::into_inner) = config;
                    reported.clear();
                    tracing::info!("the certificate was replaced");
                }
                Err(error) => {
                    // One file may be replaced before the other, so one failure means little.
                    let error = format!("{error:#}");
                    if error != reported {
                        tracing::warn!(error, "the new certificate is not used");
                        reported = error;
                    }
                }
            }
        }
    }
}

/// TLS over a connection.
struct Encrypted(StreamOwned<ServerConnection, Socket>);

impl Read for Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Channel for Encrypted {
    fn socket(&mut self) -> &mut Socket {
        &mut self.0.sock
    }

    fn finish(&mut self) {
        self.0.conn.send_close_notify();
        // The client may have gone.
        let _ = self.flush();
    }
}
