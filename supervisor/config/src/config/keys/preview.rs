//! `[preview]`

use std::net::IpAddr;

use http::Uri;
use vivarium_engine::settings::PreviewUrl;

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::ValueError;

/// The longest name of DNS, less the label of a preview, and its dot.
const MAX_HOST_BYTES: usize = 253 - 64;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "url",
        kind: Kind::Text,
        default: DefaultValue::Unset("no previews"),
        flag: None,
        reloads: false,
        doc: "URL below whose host previews have theirs: `https://preview.example.org` shows them at \
              `https://LABEL.preview.example.org`. A reverse proxy has to end TLS for \
              `*.preview.example.org` and pass requests on with their `Host`. Use a domain of its own: \
              what runs in sessions can set cookies for the domains above.",
        set: Setter::Preview(|preview, value| put(&mut preview.url, url(value.text()?).map(Some))),
    },
    Key {
        name: "lifetime",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"1h\""),
        flag: None,
        reloads: false,
        doc: "Time for which the URL of a preview, and the cookie that it sets, can be used.",
        set: Setter::Preview(|preview, value| put(&mut preview.lifetime, value.duration())),
    },
];

fn url(text: &str) -> Result<PreviewUrl, ValueError> {
    let unfit = || {
        let why = "is not http:// or https:// with the name of a host, and a port or not";
        ValueError::Unfit(format!("{text:?} {why}"))
    };
    let uri: Uri = text.parse().map_err(|_| unfit())?;
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
    let host = uri.host().filter(|host| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        host.bytes().all(is_name)
            && host.parse::<IpAddr>().is_err()
            && host.len() <= MAX_HOST_BYTES
            && host.split('.').all(|label| (1..=63).contains(&label.len()))
    });
    let (Some(scheme), Some(host), Some(authority)) = (scheme, host, uri.authority()) else {
        return Err(unfit());
    };
    let port = authority.as_str().strip_prefix(host).ok_or_else(unfit)?;
    let port = match port.strip_prefix(':') {
        Some(port) => Some(port.parse().map_err(|_| unfit())?),
        None if port.is_empty() => None,
        None => return Err(unfit()),
    };
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        return Err(unfit());
    }
    Ok(PreviewUrl { scheme: scheme.to_owned(), host: host.to_ascii_lowercase(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_a_scheme_and_a_host() {
        let of = |scheme: &str, host: &str, port| {
            Ok(PreviewUrl { scheme: scheme.to_owned(), host: host.to_owned(), port })
        };
        assert_eq!(url("https://Preview.Example.org/"), of("https", "preview.example.org", None));
        assert_eq!(
            url("http://preview.localhost:8470"),
            of("http", "preview.localhost", Some(8470))
        );
        for wrong in [
            "",
            "preview.example.org",
            "ftp://a",
            "https://",
            "https://127.0.0.1",
            "https://[::1]",
            "https://a/b",
            "https://a/?b",
            "https://u@a",
            "https://a:0x",
            "https://a..b",
            "https://a_b",
        ] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
