//! Bodies that wait for tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::{Instant, pause};
use vivarium_engine::quotas::Quotas;
use vivarium_engine::settings::{self, Rate, Tenant};

use super::*;

/// A tenant with this many bytes a second.
fn shaped(count: u64) -> Shaped {
    let rate = Some(Rate { count, per: Duration::from_secs(1) });
    let quotas = settings::Quotas { transfer_rate: rate, ..Default::default() };
    let all = Quotas::default();
    all.set(&BTreeMap::from([("t".to_owned(), Tenant { quotas, ..Tenant::default() })]));
    Shaped::new(all.of("t"))
}

#[tokio::test]
async fn a_body_takes_as_long_as_its_bytes_and_arrives_whole() {
    pause();
    let shaped = shaped(100_000);
    let content = vec![7; 350_000];
    let chunks = content.chunks(30_000).map(|chunk| Ok::<_, axum::Error>(chunk.to_vec()));
    let chunks: Vec<_> = chunks.collect();
    let since = Instant::now();
    let body = Body::from_stream(futures_util::stream::iter(chunks));
    let body = ShapedBody::new(body, shaped.clone());
    assert_eq!(body.collect().await.unwrap().to_bytes(), content);
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(2500), "{took:?}");
    assert!(took < Duration::from_millis(2700), "{took:?}");
    // Another of the tenant's waits too.
    let body = ShapedBody::new(Body::from(vec![1; 10_000]), shaped);
    assert_eq!(body.size_hint().exact(), Some(10_000));
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), 10_000);
    assert!(since.elapsed() >= Duration::from_millis(2600));
}

#[tokio::test]
async fn two_bodies_share_what_there_is() {
    pause();
    let shaped = Arc::new(shaped(100_000));
    let since = Instant::now();
    let both = [0, 1].map(|_| {
        let body = ShapedBody::new(Body::from(vec![0; 150_000]), (*shaped).clone());
        tokio::spawn(async move { body.collect().await.unwrap().to_bytes().len() })
    });
    for body in both {
        assert_eq!(body.await.unwrap(), 150_000);
    }
    assert!(since.elapsed() >= Duration::from_secs(2), "{:?}", since.elapsed());
}

#[test]
fn requests_that_end_things_are_never_content() {
    let request = |method: &str, path: &str, length: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(length) = length {
            request = request.header(header::CONTENT_LENGTH, length);
        }
        request.body(Body::empty()).unwrap()
    };
    for (method, path, length, expected) in [
        ("DELETE", "/v1/sessions/a", None, false),
        ("POST", "/v1/sessions/a/interrupt", Some("0"), false),
        ("POST", "/v1/sessions/a/execute", Some("65536"), false),
        ("POST", "/v1/sessions/a/execute", Some("65537"), true),
        ("PUT", "/v1/sessions/a/files/b", Some("1000000"), true),
        ("GET", "/v1/sessions/a", None, false),
        ("GET", "/v1/sessions/a/files/b", None, true),
    ] {
        assert_eq!(moves_content(&request(method, path, length)), expected, "{method} {path}");
    }
}
