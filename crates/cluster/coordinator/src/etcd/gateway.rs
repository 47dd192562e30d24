//! Calls of etcd's JSON gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::EtcdTls;
use crate::store::StoreError;

/// The members of an etcd.
pub(super) struct Gateway {
    agent: Agent,
    endpoints: Vec<String>,
    /// The member that has replied last.
    present: AtomicUsize,
}

fn unavailable(what: impl ToString) -> StoreError {
    StoreError::Unavailable(what.to_string())
}

/// Returns bytes as the gateway wants them.
pub(super) fn in_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the bytes of a field. An absent one is empty.
pub(super) fn bytes_of(field: Option<&Value>) -> Result<Vec<u8>, StoreError> {
    let text = field.and_then(Value::as_str).unwrap_or_default();
    STANDARD.decode(text).map_err(|error| unavailable(format_args!("etcd: {error}")))
}

/// Returns the number of a field. The gateway writes 64-bit numbers as texts, and leaves out zeros.
pub(super) fn number_of(field: Option<&Value>) -> u64 {
    match field {
        Some(Value::String(text)) => text.parse().unwrap_or(0),
        Some(number) => number.as_u64().unwrap_or(0),
        None => 0,
    }
}

fn tls_config(EtcdTls { ca, client }: &EtcdTls) -> Result<TlsConfig, StoreError> {
    let wrong = |error: ureq::Error| unavailable(format_args!("a certificate of etcd: {error}"));
    let roots = Certificate::from_pem(ca).map_err(wrong)?;
    let mut config = TlsConfig::builder()
        .root_certs(RootCerts::from([roots]))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    if let Some((certificate, key)) = client {
        let certificate = Certificate::from_pem(certificate).map_err(wrong)?;
        let key = PrivateKey::from_pem(key).map_err(wrong)?;
        check_pair(certificate.der(), key.der()).map_err(unavailable)?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&[certificate], key)));
    }
    Ok(config.build())
}

/// Refuses a key that is not that of the certificate.
fn check_pair(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let chain = vec![CertificateDer::from(certificate.to_vec())];
    let key = PrivateKeyDer::try_from(key.to_vec())?;
    let pair = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider());
    pair.map(drop).map_err(|error| format!("the certificate and the key for etcd: {error}"))
}

impl Gateway {
    /// Returns the gateway of members. Nothing is sent yet.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: a certificate or a key cannot be read.
    pub(super) fn new(
        endpoints: &[String],
        tls: Option<&EtcdTls>,
        call: Duration,
    ) -> Result<Self, StoreError> {
        let mut config =
            Agent::config_builder().timeout_global(Some(call)).http_status_as_error(false);
        if let Some(tls) = tls {
            config = config.tls_config(tls_config(tls)?);
        }
        let endpoints = endpoints.iter().map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        Ok(Self {
            agent: Agent::new_with_config(config.build()),
            endpoints: endpoints.collect(),
            present: AtomicUsize::new(0),
        })
    }

    /// Calls a member. A call that fails is not repeated, since it may have happened. The next call
    /// goes to the next member.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, StoreError> {
        let present = self.present.load(Relaxed);
        let count = self.endpoints.len().max(1);
        let endpoint = self.endpoints.get(present % count);
        let endpoint = endpoint.ok_or_else(|| unavailable("no address of etcd is given"))?;
        let reply = self.call(&format!("{endpoint}/v3/{path}"), body);
        if reply.is_err() {
            // Another thread may have moved on already.
            let next = present.wrapping_add(1);
            let _ = self.present.compare_exchange(present, next, Relaxed, Relaxed);
        }
        reply.map_err(|cause| unavailable(format_args!("etcd at {endpoint}: {cause}")))
    }

    fn call(&self, url: &str, body: &Value) -> Result<Value, String> {
        let mut response = self
            .agent
            .post(url)
            .content_type("application/json")
            .send(body.to_string())
            .map_err(|error| error.to_string())?;
        let status = response.status();
        let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let reply: Result<Value, _> = serde_json::from_str(&text);
        if !status.is_success() {
            let message = reply.ok().and_then(|reply| {
                let message = reply.get("message").or_else(|| reply.get("error"))?;
                message.as_str().map(str::to_owned)
            });
            return Err(message.unwrap_or_else(|| format!("HTTP status {status}")));
        }
        reply.map_err(|_| "it does not speak the JSON gateway of etcd".to_owned())
    }
}
