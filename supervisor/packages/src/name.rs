//! Names of projects and files.

/// The most bytes of a name: what a file system takes (NAME_MAX).
const NAME_MAX_BYTES: usize = 255;

/// The suffix of the file with a wheel's metadata: PEP 658.
pub const METADATA: &str = ".metadata";

/// A project's name in its one normal form (PEP 503); `None` if it is not a name.
#[must_use]
pub fn normalized(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let valid = |c: char| plain(c) || matches!(c, '-' | '_' | '.');
    if name.len() > NAME_MAX_BYTES || !name.chars().all(valid) {
        return None;
    }
    if !name.starts_with(plain) || !name.ends_with(plain) {
        return None;
    }
    let mut normal = String::with_capacity(name.len());
    for part in name.split(['-', '_', '.']).filter(|part| !part.is_empty()) {
        if !normal.is_empty() {
            normal.push('-');
        }
        normal.push_str(&part.to_ascii_lowercase());
    }
    Some(normal)
}

/// The project of a wheel or source archive by its file's name; `None` if the file is neither, or its name is
/// more than one plain component.
#[must_use]
pub fn project_of(file: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+!".contains(c);
    if file.len() > NAME_MAX_BYTES || file.starts_with('.') || !file.chars().all(plain) {
        return None;
    }
    let name = if let Some(stem) = file.strip_suffix(".whl") {
        // name-version(-build)?-python-abi-platform
        let parts = stem.split('-').count();
        stem.split('-').next().filter(|_| parts == 5 || parts == 6)
    } else {
        file.strip_suffix(".tar.gz").and_then(|stem| Some(stem.rsplit_once('-')?.0))
    };
    normalized(name?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_one_form() {
        for (name, expected) in [
            ("Foo", Some("foo")),
            ("a.B__c-._d", Some("a-b-c-d")),
            ("", None),
            ("-a", None),
            ("a-", None),
            ("..", None),
            ("a/b", None),
            ("a\0", None),
            ("é", None),
            ("a b", None),
        ] {
            assert_eq!(normalized(name).as_deref(), expected, "{name:?}");
        }
    }

    #[test]
    fn only_wheels_and_source_archives_are_files() {
        for (file, expected) in [
            ("Foo_Bar-1.0-py3-none-any.whl", Some("foo-bar")),
            (
                "foo-1.0+cpu-2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                Some("foo"),
            ),
            ("foo-bar-1.0.tar.gz", Some("foo-bar")),
            ("foo-1.0.zip", None),
            ("foo-1.0.whl", None),
            ("foo-1.0-py3-none-any.whl.metadata", None),
            ("../foo-1.0.tar.gz", None),
            ("foo/../../x-1.0-py3-none-any.whl", None),
            (".foo-1.0.tar.gz", None),
            ("foo-1.0%2f.tar.gz", None),
            (".tar.gz", None),
        ] {
            assert_eq!(project_of(file).as_deref(), expected, "{file:?}");
        }
    }

    proptest! {
        #[test]
        fn a_normal_name_is_one_plain_component(name in ".*") {
            if let Some(normal) = normalized(&name) {
                prop_assert_eq!(normalized(&normal), Some(normal.clone()));
                prop_assert!(!normal.is_empty() && !normal.contains(['/', '.', '\\', '\0', '%']));
            }
            if project_of(&name).is_some() {
                prop_assert!(!name.contains(['/', '\\', '\0', '%']) && name != ".." );
            }
        }
    }
}
