//! `[packages]`, and what tenants have of it

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vivarium_packages::Url;

use super::{Settings, Tenant};

/// `[packages]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    pub index: Option<PackageIndex>,
    /// A login for the index, until [`Self::index`] has it.
    pub login_file: Option<PathBuf>,
    pub find_links: Vec<PathBuf>,
    /// Not configured: below the state directory.
    pub cache_dir: Option<PathBuf>,
    pub max_cache_mb: u64,
}

/// An index upstream, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageIndex {
    At(Url),
    /// None, also where all others have one.
    None,
}

/// What a tenant has in place of `[packages]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantPackages {
    pub index: Option<PackageIndex>,
    pub login_file: Option<PathBuf>,
    pub find_links: Option<Vec<PathBuf>>,
}

/// Where the packages of a tenant come from. A login is only ever for the index that it was given with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageSource<'a> {
    pub index: Option<&'a Url>,
    pub login_file: Option<&'a Path>,
    pub find_links: &'a [PathBuf],
}

impl PackageSource<'_> {
    pub const fn is_empty(&self) -> bool {
        self.index.is_none() && self.find_links.is_empty()
    }
}

fn url(index: Option<&PackageIndex>) -> Option<&Url> {
    match index {
        Some(PackageIndex::At(url)) => Some(url),
        Some(PackageIndex::None) | None => None,
    }
}

impl Settings {
    pub fn packages_of(&self, tenant: &str) -> PackageSource<'_> {
        let (all, own) = (&self.packages, self.tenants.get(tenant).map(|tenant| &tenant.packages));
        let (index, login_file) = match own {
            Some(TenantPackages { index: Some(index), login_file, .. }) => {
                (Some(index), login_file)
            }
            _ => (all.index.as_ref(), &all.login_file),
        };
        let find_links = own.and_then(|own| own.find_links.as_ref()).unwrap_or(&all.find_links);
        PackageSource { index: url(index), login_file: login_file.as_deref(), find_links }
    }

    fn package_sources(&self) -> impl Iterator<Item = PackageSource<'_>> {
        let names = self.ceilings().into_keys();
        names.map(|tenant| self.packages_of(&tenant))
    }

    /// Where the gate keeps packages, if any tenant has some from an index.
    pub fn packages_cache(&self) -> Option<PathBuf> {
        let is_needed = self.package_sources().any(|source| source.index.is_some());
        is_needed.then(|| self.packages_cache_dir())
    }

    fn packages_cache_dir(&self) -> PathBuf {
        let configured = self.packages.cache_dir.clone();
        configured.unwrap_or_else(|| self.server.state_dir.join("packages"))
    }

    /// The directories of wheels of all tenants.
    pub fn packages_directories(&self) -> BTreeSet<PathBuf> {
        self.package_sources().flat_map(|source| source.find_links.to_vec()).collect()
    }

    /// What is wrong with the sources of packages, each with the path of its key.
    pub fn packages_errors(&self) -> Vec<(String, String)> {
        let mut errors = Vec::new();
        let cache = self.packages_cache_dir();
        if cache == Path::new("/") {
            errors.push(("packages.cache_dir".to_owned(), "a directory of its own".to_owned()));
        }
        let mut check = |key: &dyn Fn(&str) -> String,
                         index: Option<&PackageIndex>,
                         login: bool,
                         links: &[PathBuf]| {
            if login && !url(index).is_some_and(Url::is_https) {
                let why = "it goes with an index_url that is https: it would be read on its way";
                errors.push((key("login_file"), why.to_owned()));
            }
            for directory in links {
                if directory.starts_with(&cache) || directory == Path::new("/") {
                    let why =
                        format!("{}: not the root, nor in packages.cache_dir", directory.display());
                    errors.push((key("find_links"), why));
                }
            }
        };
        let all = &self.packages;
        let of_all = |key: &str| format!("packages.{key}");
        check(&of_all, all.index.as_ref(), all.login_file.is_some(), &all.find_links);
        for (name, Tenant { packages, .. }) in &self.tenants {
            let of_tenant = |key: &str| format!("tenant.{name}.packages_{key}");
            let links = packages.find_links.as_deref().unwrap_or_default();
            check(&of_tenant, packages.index.as_ref(), packages.login_file.is_some(), links);
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{settings, tenant};

    fn at(url: &str) -> Option<PackageIndex> {
        Some(PackageIndex::At(Url::parse(url).unwrap()))
    }

    #[test]
    fn a_login_is_for_the_index_that_it_was_given_with() {
        let mut settings = settings();
        settings.packages.index = at("https://a.example/simple");
        settings.packages.login_file = Some("/login".into());
        settings.packages.find_links = vec!["/wheels".into()];
        for (name, index) in
            [("same", None), ("own", at("https://b.example/")), ("none", Some(PackageIndex::None))]
        {
            let mut one = tenant(name);
            one.packages.index = index;
            settings.tenants.insert(name.to_owned(), one);
        }
        let login = |name: &str| settings.packages_of(name).login_file;
        assert_eq!(login("same"), Some(Path::new("/login")));
        assert_eq!((login("own"), login("none")), (None, None));
        let index = |name: &str| settings.packages_of(name).index.map(ToString::to_string);
        assert_eq!(index("own").as_deref(), Some("https://b.example/"));
        assert_eq!(index("none"), None);
        assert_eq!(settings.packages_of("none").find_links, [PathBuf::from("/wheels")]);
        assert_eq!(settings.packages_errors(), []);
    }

    #[test]
    fn what_would_leak_or_widen_is_refused() {
        let mut settings = settings();
        assert!(settings.packages_cache().is_none() && settings.packages_directories().is_empty());
        settings.packages.index = at("http://a.example/simple");
        settings.packages.login_file = Some("/login".into());
        settings.packages.cache_dir = Some("/cache".into());
        settings.packages.find_links = vec!["/".into(), "/cache/x".into(), "/wheels".into()];
        let mut one = tenant("1");
        one.packages.login_file = Some("/login".into());
        settings.tenants.insert("one".to_owned(), one);
        let errors = settings.packages_errors();
        let paths: Vec<_> = errors.iter().map(|(path, _)| path.as_str()).collect();
        let expected = [
            "packages.login_file",
            "packages.find_links",
            "packages.find_links",
            "tenant.one.packages_login_file",
        ];
        assert_eq!(paths, expected);
        assert_eq!(settings.packages_cache(), Some("/cache".into()));
    }
}
