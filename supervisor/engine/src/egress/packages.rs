//! Packages of sessions: where the gate has them from, and how pip and uv find the gate's index.

use std::io::{self, Read};
use std::path::Path;

use vivarium_egress::{Allow, Host, Unlisted};
use vivarium_packages::source::LOGIN_MAX_BYTES;
use vivarium_packages::{HOST, Login, Source};

use super::regular::open_regular;
use crate::settings::{PackageSource, Settings};

/// What pip and uv ask if nobody tells them otherwise.
const PUBLIC_INDEX: &str = "pypi.org";

/// Has pip and uv ask no index, where there is none to be reached.
const OFFLINE: [(&str, &str); 2] = [("PIP_NO_INDEX", "1"), ("UV_OFFLINE", "1")];

/// Has them ask one that is not allowed no more than once.
const ONCE: [(&str, &str); 2] = [("PIP_RETRIES", "0"), ("UV_HTTP_RETRIES", "0")];

/// Seconds that they wait: the gate answers once it has verified the whole of a file.
const PATIENCE: [(&str, &str); 2] = [("PIP_DEFAULT_TIMEOUT", "600"), ("UV_HTTP_TIMEOUT", "600")];

/// What the gate is to serve a tenant's sessions, if anything.
pub(super) fn source(settings: &Settings, tenant: &str) -> Option<Source> {
    let PackageSource { index, login_file, find_links } = settings.packages_of(tenant);
    let login = login_file.and_then(|path| {
        login(path)
            .inspect_err(|error| {
                let path = path.display();
                tracing::error!(tenant, %path, %error, "the package index is asked without a login");
            })
            .ok()
    });
    let source = Source { index_url: index.cloned(), login, find_links: find_links.to_vec() };
    (!source.is_empty()).then_some(source)
}

fn login(path: &Path) -> io::Result<Login> {
    let mut text = String::new();
    let max = u64::try_from(LOGIN_MAX_BYTES + 3).unwrap_or(u64::MAX);
    open_regular(path)?.take(max).read_to_string(&mut text)?;
    let bad = || io::Error::other("not USER:PASSWORD in printable ASCII");
    Login::parse(&text).ok_or_else(bad)
}

/// The variables by which pip and uv find the index, or know that there is none. None of them replaces one
/// that the session has.
pub(super) fn variables(
    settings: &Settings,
    tenant: &str,
    allow: &[Allow],
    unlisted: Unlisted,
) -> Vec<(&'static str, String)> {
    let fixed = |all: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        all.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    if settings.packages_of(tenant).is_empty() {
        return match PUBLIC_INDEX.parse::<Host>() {
            // It may be reached all the same.
            _ if unlisted != Unlisted::Refuse => Vec::new(),
            Ok(public) if allow.iter().any(|entry| entry.matches(&public, 443)) => Vec::new(),
            _ if allow.is_empty() => fixed(&OFFLINE),
            _ => fixed(&ONCE),
        };
    }
    let mut found = fixed(&PATIENCE);
    let index = format!("http://{HOST}/simple/");
    found.push(("PIP_INDEX_URL", index.clone()));
    found.push(("PIP_TRUSTED_HOST", HOST.to_owned()));
    found.push(("UV_DEFAULT_INDEX", index));
    found
}

/// Adds these to the variables of a session that names no index itself.
pub(super) fn equip(env: &mut Vec<(String, String)>, variables: &[(&'static str, String)]) {
    let names_index = |tool: &str| {
        let mut names = env.iter().map(|(name, _)| name.as_str());
        names.any(|name| name.starts_with(tool) && name.contains("INDEX"))
    };
    let own = ["PIP_", "UV_"].map(|tool| (tool, names_index(tool)));
    for (name, value) in variables {
        let has_own = own.iter().any(|(tool, has)| *has && name.starts_with(tool));
        if !has_own && env.iter().all(|(given, _)| given != name) {
            env.push(((*name).to_owned(), value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use vivarium_packages::Url;

    use super::*;
    use crate::engine::testing::settings;
    use crate::settings::{ApprovalRule, PackageIndex};

    fn equipped(
        settings: &Settings,
        allow: &[&str],
        env: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let allow: Vec<Allow> = allow.iter().map(|entry| entry.parse().unwrap()).collect();
        let given = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut env = given.collect();
        let unlisted = super::super::rules::unlisted(settings, "default", ApprovalRule::Allow);
        equip(&mut env, &variables(settings, "default", &allow, unlisted));
        env
    }

    fn value<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
        env.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn pip_and_uv_find_the_index_unless_the_session_names_another() {
        let mut settings = settings();
        let url = Url::parse("https://a.example/simple").unwrap();
        settings.packages.index = Some(PackageIndex::At(url));
        let own = "http://packages.vivarium.internal/simple/";
        let env = equipped(&settings, &[], &[]);
        assert_eq!(value(&env, "PIP_INDEX_URL"), Some(own));
        assert_eq!(value(&env, "UV_DEFAULT_INDEX"), Some(own));
        let env = equipped(&settings, &[], &[("PIP_INDEX_URL", "https://b.example")]);
        assert_eq!(value(&env, "PIP_INDEX_URL"), Some("https://b.example"));
        assert_eq!(value(&env, "PIP_TRUSTED_HOST"), None);
        assert_eq!(value(&env, "UV_DEFAULT_INDEX"), Some(own));
    }

    #[test]
    fn without_a_source_nobody_waits() {
        let settings = settings();
        assert!(source(&settings, "default").is_none());
        assert_eq!(value(&equipped(&settings, &[], &[]), "PIP_NO_INDEX"), Some("1"));
        assert_eq!(value(&equipped(&settings, &["a.example"], &[]), "PIP_RETRIES"), Some("0"));
        assert!(equipped(&settings, &["pypi.org"], &[]).is_empty());
        let mut asking = settings.clone();
        asking.approval.egress = ApprovalRule::Ask;
        assert!(equipped(&asking, &[], &[]).is_empty());
        let env = equipped(&settings, &[], &[("PIP_EXTRA_INDEX_URL", "https://b.example")]);
        assert_eq!(value(&env, "PIP_NO_INDEX"), None);
        assert_eq!(value(&env, "UV_OFFLINE"), Some("1"));
    }

    #[test]
    fn a_login_is_read_and_never_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("login");
        let error = login(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "user:s3cret\n").unwrap();
        assert_eq!(login(&path).unwrap(), Login::parse("user:s3cret").unwrap());
        for bad in ["s3cret", "", &format!("s3cret:{}", "x".repeat(LOGIN_MAX_BYTES))] {
            std::fs::write(&path, bad).unwrap();
            assert!(!login(&path).unwrap_err().to_string().contains("s3cret"));
        }
    }
}
