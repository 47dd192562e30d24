//! TLS 1.3 between nodes: both sides show a certificate of the cluster's authority.
//!
//! | file in the directory | content |
//! |---|---|
//! | `ca.pem` | the certificate of the authority |
//! | `ca-key.pem` | its key, which only the making of certificates needs |
//! | `ROLE.pem`, `ROLE-NODE.pem` | a certificate, whose name of kind URI is [`Certified::uri`] |
//! | the same with `-key.pem` | its key |
//!
//! A certificate is for a role and a number, and not for a host: the number says who the peer is,
//! wherever it listens.

mod authority;
mod verify;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sync::locks::Mutex;

use crate::error::{Error, Result};
use crate::peer::{Certified, Role};
pub use authority::{Authority, CERTIFICATE_DAYS};
use verify::AnyNode;

/// The certificate of the authority.
pub(crate) const CA: &str = "ca.pem";
/// Its key.
pub(crate) const CA_KEY: &str = "ca-key.pem";

/// The files of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate of the authority.
    pub ca: PathBuf,
    /// The certificate of the node, and those between it and the authority.
    pub certificate: PathBuf,
    /// The key of the node.
    pub key: PathBuf,
}

/// The TLS settings of a node, read from its files.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    who: Certified,
    loaded: Arc<Mutex<Loaded>>,
}

#[derive(Clone)]
struct Loaded {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Files {
    /// Returns the files of a directory that [`Authority::make`] has filled.
    pub fn of(dir: &Path, who: &Certified) -> Self {
        let stem = stem(who);
        let (certificate, key) = (format!("{stem}.pem"), format!("{stem}-key.pem"));
        Self { ca: dir.join(CA), certificate: dir.join(certificate), key: dir.join(key) }
    }

    /// Returns the files of a process: those of its number, if the directory has them, and
    /// otherwise those of its role.
    pub fn of_process(dir: &Path, role: Role, node: u32) -> Self {
        // The names of the files do not depend on the cluster.
        let files = |node| Self::of(dir, &Certified { cluster: 0, role, node });
        let own = files(Some(node));
        if own.certificate.exists() { own } else { files(None) }
    }
}

/// Returns the first part of the names of a node's files.
pub(crate) fn stem(Certified { role, node, .. }: &Certified) -> String {
    match node {
        Some(node) => format!("{role}-{node}"),
        None => role.to_string(),
    }
}

/// Returns an error about a file.
pub(crate) fn of_file(path: &Path, error: impl fmt::Display) -> Error {
    Error::System { what: path.display().to_string(), cause: error.to_string() }
}

impl Tls {
    /// Reads the files of a node.
    ///
    /// # Errors
    /// [`Error::System`] names the file and its fault.
    pub fn load(files: Files) -> Result<Self> {
        let (loaded, who) = load(&files)?;
        Ok(Self { files, who, loaded: Arc::new(Mutex::new(loaded)) })
    }

    /// Reads the files again, for later connections. Open connections stay open.
    ///
    /// # Errors
    /// Those of [`Tls::load`], and a certificate for another node. The earlier ones stay in use.
    pub fn reload(&self) -> Result<()> {
        let (loaded, who) = load(&self.files)?;
        if who != self.who {
            let cause = format!("it is for {}, and this node is {}", who.uri(), self.who.uri());
            return Err(of_file(&self.files.certificate, cause));
        }
        *self.loaded.lock() = loaded;
        Ok(())
    }

    /// Returns what the certificate says.
    pub fn who(&self) -> Certified {
        self.who
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.lock().server)
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.loaded.lock().client)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, who, .. } = self;
        f.debug_struct("Tls").field("files", files).field("who", who).finish_non_exhaustive()
    }
}

fn load(files: &Files) -> Result<(Loaded, Certified)> {
    let Files { ca, certificate, key } = files;
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>> {
        let found = CertificateDer::pem_file_iter(path).map_err(|error| of_file(path, error))?;
        let found = found.collect::<std::result::Result<Vec<_>, _>>();
        let found = found.map_err(|error| of_file(path, error))?;
        match found.is_empty() {
            true => Err(of_file(path, "it has no certificate")),
            false => Ok(found),
        }
    };
    let mut roots = RootCertStore::empty();
    for root in certificates(ca)? {
        roots.add(root).map_err(|error| of_file(ca, error))?;
    }
    let roots = Arc::new(roots);
    let chain = certificates(certificate)?;
    let first = chain.first().ok_or_else(|| of_file(certificate, "it has no certificate"))?;
    let who = certified(first).map_err(|cause| of_file(certificate, cause))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of_file(key, error))?;
    let provider = Arc::new(ring::default_provider());
    let (server, client) =
        configs(&provider, roots, chain, private).map_err(|error| of_file(certificate, error))?;
    Ok((Loaded { server: Arc::new(server), client: Arc::new(client) }, who))
}

fn configs(
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> std::result::Result<(ServerConfig, ClientConfig), String> {
    let in_words = |error: rustls::Error| error.to_string();
    let versions = &[&rustls::version::TLS13];
    let peers =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider));
    let peers = peers.build().map_err(|error| error.to_string())?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(in_words)?
        .with_client_cert_verifier(peers)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(in_words)?;
    let verifier = Arc::new(AnyNode::new(roots, Arc::clone(provider)));
    let mut client = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(in_words)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)
        .map_err(in_words)?;
    // A resumed session would verify no certificate.
    server.send_tls13_tickets = 0;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    client.resumption = Resumption::disabled();
    Ok((server, client))
}

/// Returns what a certificate says of its holder.
///
/// # Errors
/// It is no certificate of a node.
pub(crate) fn certified(
    certificate: &CertificateDer<'_>,
) -> std::result::Result<Certified, String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
    let mut names = parsed.valid_uri_names().filter_map(Certified::parse);
    match (names.next(), names.next()) {
        (Some(certified), None) => Ok(certified),
        (None, _) => Err("the certificate names no node of a cluster".to_owned()),
        (Some(_), Some(_)) => Err("the certificate names more than one node".to_owned()),
    }
}
