//! The reduced `/etc`: files of the host that programs need and that say nothing of it, and
//! files of our own where the host's would.

use std::fs;
use std::path::Path;

use vivarium_protocol::egress;
use vivarium_protocol::policy::Network;

use super::tree::{self, Access, Source};
use crate::sandbox::{Context, LayerError, system_paths};

/// The host's files and directories that appear as they are: those that are not ours.
pub(super) fn sources(context: &Context) -> Result<Vec<Source>, LayerError> {
    let own = own_files(context);
    let is_own = |path: &str| own.iter().any(|(name, _)| Path::new(path).ends_with(name));
    system_paths::ETC
        .iter()
        .filter(|path| !is_own(path))
        .filter_map(|path| Source::take(Path::new(path), Access::ReadOnlyNoExec).transpose())
        .collect()
}

/// Writes the files that are ours, while the host's `/etc` is still at `/etc`.
pub(super) fn write_own(context: &Context, root: &Path) -> Result<(), LayerError> {
    let etc = root.join("etc");
    tree::make_directory(&etc)?;
    own_files(context)
        .iter()
        .try_for_each(|(name, text)| tree::write_file(&etc.join(name), text, 0o644))
}

/// The host's users are not the session's to know, nor are its names and resolvers, unless the
/// session is to use the host's network. Through passt one address leads to the host's resolver.
fn own_files(context: &Context) -> Vec<(&'static str, String)> {
    let id = Context::KERNEL_ID;
    let home = context.policy.home().unwrap_or(&context.policy.workdir).display();
    let passwd = format!(
        "root:x:0:0::/nonexistent:/usr/sbin/nologin\n\
         sandbox:x:{id}:{id}::{home}:/bin/sh\n\
         nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
    );
    let group = format!("root:x:0:\nsandbox:x:{id}:\nnogroup:x:65534:\n");
    let mut files =
        vec![("passwd", passwd), ("group", group), ("hostname", "vivarium\n".to_owned())];
    let (hosts, switch, resolvers) = match context.policy.network {
        Network::None | Network::Loopback | Network::Trusted => {
            (LOCALHOST.to_owned(), "passwd: files\ngroup: files\nhosts: files\n", String::new())
        }
        Network::Full if context.policy.passt.is_some() => {
            let resolver = context.policy.passt.as_ref().and_then(|passt| passt.resolver);
            // Long answers have to come by UDP: not every passt takes questions by TCP.
            let line = |address| format!("nameserver {address}\noptions edns0\n");
            (LOCALHOST.to_owned(), WITH_DNS, resolver.map(line).unwrap_or_default())
        }
        // Copied rather than bound: on many hosts resolv.conf is a link into /run.
        Network::Full => {
            let host = |name: &str| fs::read_to_string(name).unwrap_or_default();
            (host("/etc/hosts"), WITH_DNS, host("/etc/resolv.conf"))
        }
    };
    files.push(("hosts", hosts));
    files.push(("nsswitch.conf", switch.to_owned()));
    files.push(("resolv.conf", resolvers));
    if let Some(own) = &context.policy.ca_certificate {
        let name = egress::CA_BUNDLE.trim_start_matches("/etc/");
        files.push((name, format!("{}{own}", system_certificates())));
    }
    files
}

const LOCALHOST: &str = "127.0.0.1 localhost vivarium\n::1 localhost\n";
const WITH_DNS: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// The system's certificate authorities, in the one file of them that distributions have; empty if
/// there is none, or one that is too large for the session's root.
fn system_certificates() -> String {
    let read = CERTIFICATES.iter().find_map(|path| fs::read_to_string(path).ok());
    let mut text = read.filter(|text| text.len() <= MAX_CERTIFICATES_BYTES).unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Debian and Alpine; Red Hat; SUSE.
pub(super) const CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Of the root's size, which the mounts layer limits.
const MAX_CERTIFICATES_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use vivarium_protocol::layer::Layer;

    use super::*;
    use crate::sandbox::landlock::fixture;

    #[test]
    fn the_hosts_users_and_resolvers_are_seen_by_nobody() {
        let of = |network| own_files(&fixture::context(&[], network, Path::new("/")));
        let named = |files: &[(&str, String)], name: &str| {
            files.iter().find(|(own, _)| *own == name).unwrap().1.clone()
        };
        for network in [Network::None, Network::Loopback, Network::Trusted] {
            let files = of(network);
            assert!(named(&files, "passwd").contains("sandbox:x:1000:1000::"));
            assert_eq!(named(&files, "resolv.conf"), "");
            assert!(!named(&files, "nsswitch.conf").contains("dns"));
        }
        let mut context = fixture::context(&[], Network::Trusted, Path::new("/"));
        context.policy.ca_certificate = Some("ours".to_owned());
        let bundle = named(&own_files(&context), "session-ca-bundle.pem");
        assert_eq!(bundle.strip_suffix("ours").unwrap(), system_certificates());
        let full = of(Network::Full);
        assert_eq!(named(&full, "hosts"), fs::read_to_string("/etc/hosts").unwrap_or_default());
        assert!(named(&full, "nsswitch.conf").contains("dns"));
    }

    /// Only root can copy mounts.
    #[test]
    fn listed_etc_files_are_bound_unless_replaced() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let context = fixture::context(&[Layer::Mounts], Network::None, Path::new("/"));
        let taken = sources(&context).unwrap();
        let own = own_files(&context);
        for path in system_paths::ETC {
            let path = Path::new(path);
            let is_own = own.iter().any(|(name, _)| path.ends_with(name));
            let is_taken = taken.iter().any(|source| source.path() == path);
            assert_eq!(is_taken, path.exists() && !is_own, "{}", path.display());
        }
        assert!(!taken.is_empty(), "a host without any of them");
    }
}
