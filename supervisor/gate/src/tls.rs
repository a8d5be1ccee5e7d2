//! TLS at the gate: for hosts that get a secret it ends here, and begins anew to the destination, whose
//! certificate is checked as any client would.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client::TlsStream};
use vivarium_egress::Name;
use vivarium_egress::message::{AUTHORITY_NAME, Authority};

pub(crate) mod client_hello;

/// How long a certificate is good for, each way from now: clocks differ.
const VALID: Duration = Duration::days(2);
/// After this long it is made anew.
const RENEW: Duration = Duration::days(1);
/// The most names whose certificates a session keeps.
const MAX_KEPT: usize = 256;
/// What is spoken within TLS.
const ALPN: &[u8] = b"http/1.1";

/// Why TLS can not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// rustls refused it.
    #[error("TLS")]
    Rustls(#[from] rustls::Error),
    /// A certificate could not be made, or an authority is none.
    #[error("certificate")]
    Certificate(#[from] rcgen::Error),
}

/// The gate as a client of destinations.
#[derive(Debug, Clone)]
pub(crate) struct Upstream(Arc<ClientConfig>);

impl Upstream {
    /// With the authorities of a file, and how many these are: without any, no destination is trusted.
    pub(crate) fn read(bundle: &Path) -> Result<(Self, usize), TlsError> {
        let mut roots = RootCertStore::empty();
        if let Ok(certificates) = CertificateDer::pem_file_iter(bundle) {
            roots.add_parsable_certificates(certificates.flatten());
        }
        let count = roots.len();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Nothing of one session's connection is of use to another's.
        config.resumption = rustls::client::Resumption::disabled();
        Ok((Self(Arc::new(config)), count))
    }

    /// Speaks TLS to a destination that proves to be `name`.
    pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: &str,
        stream: S,
    ) -> std::io::Result<TlsStream<S>> {
        let name = ServerName::try_from(name.to_owned()).map_err(std::io::Error::other)?;
        TlsConnector::from(self.0.clone()).connect(name, stream).await
    }
}

/// What signs for a session's hosts.
pub(crate) struct Signer {
    issuer: Issuer<'static, KeyPair>,
    /// Of all the certificates: they are for one session.
    key: KeyPair,
    kept: Mutex<HashMap<Name, (OffsetDateTime, Arc<ServerConfig>)>>,
}

impl Signer {
    /// From what the supervisor made: how its certificate looks is said at [`Authority`].
    pub(crate) fn new(authority: &Authority) -> Result<Self, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
        let issuer = Issuer::new(params, KeyPair::from_pem(&authority.key_pem)?);
        Ok(Self { issuer, key: KeyPair::generate()?, kept: Mutex::default() })
    }

    /// The server's side of TLS for a name.
    pub(crate) fn server(&self, name: &Name) -> Result<Arc<ServerConfig>, TlsError> {
        let now = OffsetDateTime::now_utc();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, config)) = kept.get(name)
            && now - *made < RENEW
        {
            return Ok(config.clone());
        }
        let mut params = CertificateParams::new(vec![name.to_string()])?;
        params.distinguished_name = DistinguishedName::new();
        params.not_before = now - VALID;
        params.not_after = now + VALID;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let config = Arc::new(config);
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(name.clone(), (now, config.clone()));
        Ok(config)
    }
}
