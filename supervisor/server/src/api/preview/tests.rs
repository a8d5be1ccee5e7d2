use super::*;
use axum::body::Body;

const URL: &str = "preview.example.org";

fn previews() -> Previews {
    let url = PreviewUrl { scheme: "https".to_owned(), host: URL.to_owned(), port: None };
    let lifetime = std::time::Duration::from_secs(60);
    Previews::new(&Preview { url: Some(url), lifetime })
}

fn request(target: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

#[test]
fn whatever_names_a_host_of_previews_is_for_one() {
    let previews = previews();
    for (target, hosts, expected) in [
        ("/", &["a.preview.example.org"][..], true),
        ("/", &["A.Preview.Example.org:443"], true),
        ("/", &["a.preview.example.org."], true),
        ("/", &["a.b.preview.example.org"], true),
        ("/", &["preview.example.org"], true),
        ("/", &["localhost", "a.preview.example.org"], true),
        ("http://a.preview.example.org/", &["localhost"], true),
        ("http://localhost/", &["a.preview.example.org"], true),
        ("/", &["example.org"], false),
        ("/", &["apreview.example.org"], false),
        ("/", &["a.preview.example.org.evil"], false),
        ("/", &["localhost"], false),
        ("/", &[], false),
    ] {
        let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        assert_eq!(previews.is_for(&request(target, &headers)), expected, "{target} {hosts:?}");
        let off = Previews::new(&Preview { url: None, ..previews.settings.clone() });
        assert!(!off.is_for(&request(target, &headers)));
    }
}

#[test]
fn token_leaves_the_query() {
    let of = |query| {
        let (given, rest) = take_parameter(query);
        (given.map(str::to_owned), rest)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(""), (None, String::new()));
    assert_eq!(of("a=b&c"), (None, "?a=b&c".to_owned()));
    assert_eq!(of("vivarium-preview=x"), (some("x"), String::new()));
    assert_eq!(of("a&vivarium-preview=x&b&vivarium-preview=y"), (some("x"), "?a&b".to_owned()));
    assert_eq!(of("xvivarium-preview=x"), (None, "?xvivarium-preview=x".to_owned()));
}

#[test]
fn server_gets_its_own_cookies_only() {
    let ours = format!("a=1; {COOKIE}=secret;b=2");
    let again = format!("{}=secret", COOKIE.to_lowercase());
    let mut headers =
        request("/", &[("cookie", &ours), ("cookie", &again), ("cookie", "c=3")]).headers().clone();
    keep_own_cookies(&mut headers);
    let left: Vec<_> = headers.get_all("cookie").iter().collect();
    assert_eq!(left, ["a=1; b=2; c=3"]);
    let mut headers = request("/", &[("cookie", &again)]).headers().clone();
    keep_own_cookies(&mut headers);
    assert!(headers.is_empty());
}

#[test]
fn pages_of_other_origins_can_go_there_and_no_more() {
    let own = "https://a.preview.example.org";
    let is_refused =
        |headers: &[(&str, &str)]| refuse_other_origins(&request("/", headers), own).is_err();
    let navigates = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    for headers in [
        &[][..],
        &[("origin", own)],
        &[("origin", own), ("sec-fetch-site", "same-origin"), ("upgrade", "websocket")],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "cross-site"), navigates[0], navigates[1]],
    ] {
        assert!(!is_refused(headers), "{headers:?}");
    }
    for headers in [
        &[("origin", "https://b.preview.example.org")][..],
        &[("origin", "null")],
        &[("origin", "http://a.preview.example.org")],
        &[("origin", "https://b.preview.example.org"), ("upgrade", "websocket")],
        &[("sec-fetch-site", "same-site")],
        &[
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-mode", "no-cors"),
            ("sec-fetch-dest", "image"),
        ],
        &[("sec-fetch-site", "same-site"), navigates[0], ("sec-fetch-dest", "iframe")],
        &[("origin", "null"), ("sec-fetch-site", "cross-site"), navigates[0], navigates[1]],
    ] {
        assert!(is_refused(headers), "{headers:?}");
    }
}
