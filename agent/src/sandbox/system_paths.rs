//! Which of the host's paths Python needs to read, for the two layers that say so: the mounts
//! layer binds them, the Landlock layer allows them.
//!
//! Never listed here: a directory that holds a user's files, a service's sockets or state, or
//! a secret. A path that does not exist on a host is skipped by both layers.

/// Programs and libraries. On a merged-/usr system most of them are links into /usr. Not /opt, which
/// holds whole services with their sockets: what an interpreter needs of it is its prefix.
pub(crate) const READ_EXECUTE: &[&str] =
    &["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin"];

/// What of /etc is harmless and useful; each for the reason beside it. Everything else of it
/// stays outside: it holds keys, password hashes, and how the host is set up.
pub(crate) const ETC: &[&str] = &[
    // The dynamic linker's.
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    // Names behind the links in /usr/bin and for BLAS and LAPACK in /usr/lib.
    "/etc/alternatives",
    // Time, locale and terminal.
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/terminfo",
    // Names of ids, hosts, services and protocols: getpwuid(3), getaddrinfo(3).
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/gai.conf",
    "/etc/resolv.conf",
    "/etc/networks",
    "/etc/protocols",
    "/etc/services",
    // Public certificates (Debian, Red Hat), never /etc/ssl/private.
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    // Which system this is: platform.freedesktop_os_release().
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/redhat-release",
    // Types of files: mimetypes, libmagic.
    "/etc/mime.types",
    "/etc/magic",
    "/etc/magic.mime",
    // Python's and its libraries' own.
    "/etc/python3",
    "/etc/python3.9",
    "/etc/python3.10",
    "/etc/python3.11",
    "/etc/python3.12",
    "/etc/python3.13",
    "/etc/python3.14",
    "/etc/python3.15",
    "/etc/matplotlibrc",
    "/etc/fonts",
];

/// The devices a session has.
pub(crate) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Where a session that has a root of its own has its terminals, and what leads to the caller's.
pub(crate) const TERMINALS: &str = "/dev/pts";
pub(crate) const OWN_TERMINAL: &str = "/dev/tty";

/// The processors, for whoever sizes a pool of threads or looks up caches: OpenBLAS, glibc.
pub(crate) const SYS_CPU: &str = "/sys/devices/system/cpu";

/// A file that the mounts layer makes and that no Landlock rule names: that it can not be read shows
/// the rules to be in force.
pub(crate) const UNLISTED: &str = "/.unlisted";

/// What of the host's own /proc is read where the session has none of its own: the machine's
/// size and load, no process.
pub(crate) const HOST_PROC: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_absolute_and_listed_once() {
        let mut all: Vec<_> = [READ_EXECUTE, ETC, DEVICES, HOST_PROC, &[SYS_CPU]].concat();
        assert!(all.iter().all(|path| path.starts_with('/') && !path.contains("..")));
        let listed = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), listed);
    }

    #[test]
    fn nothing_listed_opens_all_of_etc_or_its_secrets() {
        for secret in ["/etc", "/etc/shadow", "/etc/ssl", "/etc/ssl/private", "/etc/sudoers"] {
            let opened = ETC.iter().any(|path| std::path::Path::new(secret).starts_with(path));
            assert!(!opened, "{secret}");
        }
    }
}
