//! The authority of a cluster: it signs the certificates of nodes.
#![expect(
    clippy::disallowed_methods,
    reason = "certificates are files of an operator, and no part of a store"
)]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use environment::Environment;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use time::OffsetDateTime;

use super::{CA, CA_KEY, Files, certified, of_file, stem};
use crate::error::{Error, Result};
use crate::peer::{Certified, Role};

/// Days for which a certificate of a node is valid.
pub const CERTIFICATE_DAYS: u64 = 397;
/// Days for which the authority is valid.
const AUTHORITY_DAYS: u64 = 10 * 365;
/// Time before now at which certificates begin to be valid: clocks of machines differ.
const BEFORE: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The node whose name the certificate of the authority has, so that it states the cluster.
const NO_NODE: Role = Role::Admin;

/// The authority of a cluster, in a directory.
#[derive(Debug)]
pub struct Authority {
    dir: PathBuf,
    cluster: u64,
    issuer: Issuer<'static, KeyPair>,
    environment: Environment,
}

/// Returns an error of the making of certificates.
fn of_making(error: rcgen::Error) -> Error {
    Error::System { what: "make a certificate".to_owned(), cause: error.to_string() }
}

impl Authority {
    /// Opens the authority in a directory, or makes one for a cluster of this number. The key is
    /// readable by its owner alone.
    ///
    /// # Errors
    /// [`Error::System`] names the file and its fault.
    pub fn open(dir: &Path, cluster: u64, environment: &Environment) -> Result<Self> {
        let (ca, ca_key) = (dir.join(CA), dir.join(CA_KEY));
        let environment = environment.clone();
        if ca.exists() {
            let found = CertificateDer::from_pem_file(&ca).map_err(|error| of_file(&ca, error))?;
            let cluster = certified(&found).map_err(|cause| of_file(&ca, cause))?.cluster;
            let key = fs::read_to_string(&ca_key).map_err(|error| of_file(&ca_key, error))?;
            let key = KeyPair::from_pem(&key).map_err(|error| of_file(&ca_key, error))?;
            // The subject and the key of the issuer are all that a certificate takes from it.
            let issuer = Issuer::new(of_authority(cluster, &environment)?, key);
            return Ok(Self { dir: dir.to_owned(), cluster, issuer, environment });
        }
        fs::create_dir_all(dir).map_err(|error| of_file(dir, error))?;
        refuse_others(dir)?;
        let params = of_authority(cluster, &environment)?;
        // A crash may have left the key alone.
        let key = match fs::read_to_string(&ca_key) {
            Ok(key) => KeyPair::from_pem(&key).map_err(|error| of_file(&ca_key, error))?,
            Err(_) => {
                let key = KeyPair::generate().map_err(of_making)?;
                replace(&ca_key, &key.serialize_pem(), true)?;
                key
            }
        };
        let certificate = params.self_signed(&key).map_err(of_making)?;
        replace(&ca, &certificate.pem(), false)?;
        let issuer = Issuer::new(params, key);
        Ok(Self { dir: dir.to_owned(), cluster, issuer, environment })
    }

    /// Returns the number of the cluster.
    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Makes a certificate and its key, which take the place of earlier ones.
    ///
    /// # Errors
    /// The same.
    pub fn make(&self, role: Role, node: Option<u32>) -> Result<Files> {
        let who = Certified { cluster: self.cluster, role, node };
        let mut params = named(&who, CERTIFICATE_DAYS, &self.environment)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(of_making)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(of_making)?;
        let files = Files::of(&self.dir, &who);
        replace(&files.key, &key.serialize_pem(), true)?;
        replace(&files.certificate, &certificate.pem(), false)?;
        Ok(files)
    }
}

/// Refuses a directory that has certificates, but not that of the authority: another authority
/// would be another cluster.
fn refuse_others(dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).map_err(|error| of_file(dir, error))?;
    for entry in entries {
        let name = entry.map_err(|error| of_file(dir, error))?.file_name();
        let is_certificate = name.to_str().is_some_and(|name| name.ends_with(".pem"));
        if is_certificate && name != CA_KEY {
            return Err(of_file(&dir.join(CA), "it is missing, and other certificates are there"));
        }
    }
    Ok(())
}

/// Returns the content of the certificate of an authority.
fn of_authority(cluster: u64, environment: &Environment) -> Result<CertificateParams> {
    let who = Certified { cluster, role: NO_NODE, node: None };
    let mut params = named(&who, AUTHORITY_DAYS, environment)?;
    params.distinguished_name = DistinguishedName::new();
    let name = format!("Thermocline cluster {cluster:016x}");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Returns the content of a certificate with a node's name.
fn named(who: &Certified, days: u64, environment: &Environment) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    let uri = Ia5String::try_from(who.uri()).map_err(of_making)?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Thermocline {}", stem(who)));
    let now = environment.wall();
    let at = |since_epoch: Duration| {
        let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| Error::System {
            what: "read the clock".to_owned(),
            cause: error.to_string(),
        })
    };
    params.not_before = at(now.saturating_sub(BEFORE))?;
    params.not_after = at(now.saturating_add(DAY.saturating_mul(days as u32)))?;
    Ok(params)
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str, is_secret: bool) -> Result<()> {
    let mode = if is_secret { 0o600 } else { 0o644 };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| of_file(path, error))
}

/// Writes a file in the place of an earlier one.
fn replace(path: &Path, text: &str, is_secret: bool) -> Result<()> {
    let new = path.with_extension("pem.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(of_file(&new, error));
        }
        _ => {}
    }
    write_new(&new, text, is_secret)?;
    fs::rename(&new, path).map_err(|error| of_file(path, error))
}
