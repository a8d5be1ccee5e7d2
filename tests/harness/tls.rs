//! Servers of TLS, and the authorities that their certificates are of.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use vivarium_egress::message::{AUTHORITY_NAME, Authority};

/// An authority, and what signs in its name.
#[must_use]
pub fn authority() -> (Authority, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let key = KeyPair::generate().unwrap();
    let certificate_pem = params.self_signed(&key).unwrap().pem();
    let authority = Authority { certificate_pem, key_pem: key.serialize_pem() };
    (authority, Issuer::new(params, key))
}

/// What a server needs to prove that it is `name`.
#[must_use]
pub fn server_config(issuer: &Issuer<'_, KeyPair>, name: &str) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    Arc::new(config)
}

/// A TLS server that answers one request for each connection and keeps it.
#[must_use]
pub fn server(issuer: &Issuer<'_, KeyPair>, name: &str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let config = server_config(issuer, name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let got = Arc::new(Mutex::new(Vec::new()));
    let kept = got.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, kept) = (config.clone(), kept.clone());
            thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let mut buffer = vec![0; 16 << 10];
                let Ok(len) = stream.read(&mut buffer) else { return };
                kept.lock().unwrap().push(String::from_utf8_lossy(&buffer[..len]).into_owned());
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
                stream.write_all(answer).unwrap_or_default();
                stream.conn.send_close_notify();
                stream.flush().unwrap_or_default();
            });
        }
    });
    (port, got)
}
