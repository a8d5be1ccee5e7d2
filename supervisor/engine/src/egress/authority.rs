//! A session's certificate authority, for the hosts of its tenant's secrets.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use vivarium_egress::message::{AUTHORITY_NAME, Authority};

#[derive(Debug, thiserror::Error)]
#[error("make a certificate authority")]
pub struct AuthorityError(#[from] rcgen::Error);

/// Makes one with a key of its own.
pub(super) fn make() -> Result<Authority, AuthorityError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    // It signs for hosts and for no other authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    Ok(Authority { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_differ_and_do_not_show_their_keys() {
        let (one, other) = (make().unwrap(), make().unwrap());
        assert!(one.certificate_pem.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(one.key_pem.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_ne!(one, other);
        assert!(!format!("{one:?}").contains("PRIVATE"));
    }
}
