//! What the names of bundles of policies stand for.

use vivarium_api_types::{AuditEventsSpec, CodePolicySpec, ImportsSpec, Preset};

/// Modules that reach nothing outside the process, and that code without effects is written with.
const COMPUTE: &[&str] = &[
    "__future__",
    "abc",
    "array",
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "colorsys",
    "contextlib",
    "contextvars",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "errno",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "itertools",
    "json",
    "keyword",
    "locale",
    "math",
    "numbers",
    "operator",
    "pprint",
    "random",
    "re",
    "reprlib",
    "secrets",
    "statistics",
    "string",
    "struct",
    "textwrap",
    "time",
    "timeit",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "uuid",
    "vivarium",
    "warnings",
    "weakref",
    "zlib",
    "zoneinfo",
];

/// Modules for files and their formats.
const FILES: &[&str] = &[
    "bz2",
    "configparser",
    "csv",
    "filecmp",
    "fileinput",
    "fnmatch",
    "glob",
    "gzip",
    "io",
    "lzma",
    "mimetypes",
    "os",
    "pathlib",
    "pickle",
    "shutil",
    "sqlite3",
    "stat",
    "tarfile",
    "tempfile",
    "tomllib",
    "xml",
    "zipfile",
];

/// Modules for networks, and for waiting on them.
const NETWORK: &[&str] = &[
    "asyncio",
    "concurrent",
    "email",
    "ftplib",
    "http",
    "imaplib",
    "ipaddress",
    "logging",
    "poplib",
    "queue",
    "select",
    "selectors",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "threading",
    "urllib",
    "xmlrpc",
];

/// Events of starting programs and of loading native code.
const OF_PROGRAMS: &[&str] = &[
    "ctypes.dlopen",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
];

/// Events of reaching a network.
const OF_NETWORKS: &[&str] = &[
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyaddr",
    "socket.gethostbyname",
    "socket.sendmsg",
    "socket.sendto",
];

/// Events of changing files, but for opening one, which imports do too, and for changes of modes, owners and times. The
/// documentation lists them.
const OF_FILES: &[&str] = &[
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "shutil.copyfile",
    "shutil.move",
    "shutil.rmtree",
    "sqlite3.connect",
];

/// What a preset stands for.
pub(super) fn expanded(preset: Preset) -> CodePolicySpec {
    let (modules, events): (&[&[&str]], &[&[&str]]) = match preset {
        Preset::Compute => (&[COMPUTE], &[OF_PROGRAMS, OF_NETWORKS, OF_FILES]),
        Preset::Files => (&[COMPUTE, FILES], &[OF_PROGRAMS, OF_NETWORKS]),
        Preset::Network => (&[COMPUTE, FILES, NETWORK], &[OF_PROGRAMS]),
        Preset::Full => return CodePolicySpec::default(),
    };
    let all = |lists: &[&[&str]]| {
        let mut names: Vec<_> = lists.concat().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    CodePolicySpec {
        imports: Some(ImportsSpec { allow: Some(all(modules)), deny: None }),
        audit_events: Some(AuditEventsSpec { deny: all(events) }),
        ..CodePolicySpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_the_changes_of_files_that_are_denied() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");
        let page = std::fs::read_to_string(path).unwrap();
        let start = page.find("Of changes of files `compute` denies").unwrap();
        let (denied, allowed) = page[start..].split_once("It does not deny").unwrap();
        let named = |text: &str| {
            let words = text.split('`').skip(1).step_by(2).filter(|word| word.contains('.'));
            words.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(named(denied).iter().eq(OF_FILES), "{denied}");
        let allowed = named(allowed.split("\n\n").next().unwrap());
        assert!(allowed.contains("os.chmod"));
        assert!(!allowed.iter().any(|name| OF_FILES.contains(&name.as_str())), "{allowed:?}");
    }

    #[test]
    fn presets_are_policies_and_each_has_what_the_one_before_has() {
        let of = |preset| {
            let spec = expanded(preset);
            assert_eq!(spec.check(), Ok(()), "{preset:?}");
            (spec.imports.unwrap().allow.unwrap(), spec.audit_events.unwrap().deny)
        };
        let all = [Preset::Compute, Preset::Files, Preset::Network].map(of);
        for [(modules, events), (more, fewer)] in all.array_windows() {
            assert!(modules.iter().all(|name| more.contains(name)) && modules.len() < more.len());
            assert!(fewer.iter().all(|name| events.contains(name)) && events.len() > fewer.len());
        }
        for (modules, _) in all {
            let mut unique = modules.clone();
            unique.dedup();
            assert_eq!(unique, modules);
        }
        assert_eq!(expanded(Preset::Full), CodePolicySpec::default());
    }
}
