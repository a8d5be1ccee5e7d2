//! Paths as E2B's clients give them, and as the API takes and gives them.

/// Where a sandbox begins. In a session it leads to the working directory.
pub(super) const HOME: &str = "/home/user";

/// Other names of the working directory, which answers do not have.
const ALIASES: [&str; 2] = ["/workspace", "/mnt/data"];

/// The absolute path that a path means, without `.`, `..` and empty parts; relative ones start at home.
pub(super) fn absolute(path: &str) -> String {
    let from = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{HOME}{rest}"),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("{HOME}/{path}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = format!("/{}", parts.join("/"));
    let below = |alias: &&str| {
        let rest = path.strip_prefix(*alias)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{HOME}{rest}"))
    };
    ALIASES.iter().find_map(below).unwrap_or(path)
}

/// The absolute path of one that the API gave.
pub(super) fn told(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{HOME}/{path}") }
}

/// The last part of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_at_home() {
        for (given, expected) in [
            ("a.txt", "/home/user/a.txt"),
            ("./a//b/", "/home/user/a/b"),
            ("~/a", "/home/user/a"),
            ("~", "/home/user"),
            ("~other", "/home/user/~other"),
            ("", "/home/user"),
            (".", "/home/user"),
            ("/tmp/../home/user/x", "/home/user/x"),
            ("../../../..", "/"),
            ("/", "/"),
            ("/workspace", "/home/user"),
            ("/workspace/a", "/home/user/a"),
            ("/mnt/data/../data/a", "/home/user/a"),
            ("/workspaces", "/workspaces"),
        ] {
            assert_eq!(absolute(given), expected, "{given}");
        }
        assert_eq!(told("a/b"), "/home/user/a/b");
        assert_eq!(told("/tmp/b"), "/tmp/b");
        assert_eq!(name("/tmp/b"), "b");
    }
}
