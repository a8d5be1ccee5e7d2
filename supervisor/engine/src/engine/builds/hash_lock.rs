//! Whether an order names all that it installs by strong hashes: then it can be kept to wheels, and nothing
//! but their files comes to be in the environment.
//!
//! What is read here is what the client wrote. uv holds the rest: with `--require-hashes` also what
//! packages depend on has to be named so, and with `--no-build` nothing of a package runs.

use vivarium_api_types::BuildRequest;

/// The algorithms that nobody can find another file for, and their lengths in hexadecimal digits.
const STRONG: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

pub(super) fn is_locked(request: &BuildRequest) -> bool {
    match (&request.requirements, &request.lock) {
        (Some(requirements), _) => requirements_are_locked(requirements),
        (None, Some(lock)) => lock_is_locked(lock),
        (None, None) => false,
    }
}

/// Of a requirements.txt: every line is a requirement with hashes. A line that is an option (`-r`,
/// `--no-binary`) may turn that into something else.
fn requirements_are_locked(text: &str) -> bool {
    let joined = text.replace("\r\n", "\n").replace("\\\n", " ");
    let lines: Vec<_> =
        joined.lines().map(without_comment).filter(|line| !line.is_empty()).collect();
    let is_locked = |line: &&str| {
        let words = line.split_whitespace();
        let hashes: Vec<_> = words.filter_map(|word| word.strip_prefix("--hash")).collect();
        let strong = |hash: &&str| hash.strip_prefix('=').is_some_and(is_strong);
        !line.starts_with('-') && !hashes.is_empty() && hashes.iter().all(strong)
    };
    !lines.is_empty() && lines.iter().all(is_locked)
}

/// A comment begins at the line's start or after a blank: pip, "Requirements File Format".
fn without_comment(line: &str) -> &str {
    let line = line.trim();
    let mut signs = line.match_indices('#').map(|(index, _)| index);
    let is_start = |index: &usize| {
        line.get(..*index).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t']))
    };
    let end = signs.find(is_start).unwrap_or(line.len());
    line.get(..end).unwrap_or_default().trim_end()
}

/// Of a uv.lock: it has hashes, and each is strong.
fn lock_is_locked(text: &str) -> bool {
    let Ok(lock) = text.parse::<toml::Table>() else { return false };
    let mut hashes = Vec::new();
    lock.values().for_each(|value| collect_hashes(value, &mut hashes));
    !hashes.is_empty() && hashes.into_iter().all(is_strong)
}

fn collect_hashes<'a>(value: &'a toml::Value, found: &mut Vec<&'a str>) {
    match value {
        toml::Value::Array(values) => values.iter().for_each(|value| collect_hashes(value, found)),
        toml::Value::Table(table) => {
            for (key, value) in table {
                match value.as_str().filter(|_| key == "hash") {
                    Some(hash) => found.push(hash),
                    None => collect_hashes(value, found),
                }
            }
        }
        _ => (),
    }
}

fn is_strong(hash: &str) -> bool {
    hash.split_once(':').is_some_and(|(algorithm, digits)| {
        STRONG.contains(&(algorithm, digits.len()))
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_locked_by(requirements: &str) -> bool {
        let requirements = Some(requirements.to_owned());
        is_locked(&BuildRequest { requirements, ..BuildRequest::default() })
    }

    #[test]
    fn every_line_of_requirements_has_strong_hashes() {
        let (a, b) = ("a".repeat(64), "0".repeat(128));
        for locked in [
            format!("six==1.16 --hash=sha256:{a}"),
            format!(
                "# of CI\n\nsix==1.16 \\\n    --hash=sha256:{a} \\\n    --hash=sha512:{b}\n    # via mine\n"
            ),
            format!("six @ https://a.example/six.whl#egg=six --hash=sha256:{a} # why\r\n"),
        ] {
            assert!(is_locked_by(&locked), "{locked}");
        }
        for open in [
            "".to_owned(),
            "# six".to_owned(),
            "six==1.16".to_owned(),
            format!("six==1.16 # --hash=sha256:{a}"),
            format!("six==1.16 --hash=sha256:{a}\ntiny"),
            format!("six==1.16 --hash=md5:{}", "a".repeat(32)),
            format!("six==1.16 --hash=sha256:{a} --hash=md5:{}", "a".repeat(32)),
            format!("six==1.16 --hash=sha256:{}", "a".repeat(63)),
            format!("six==1.16 --hash sha256:{a}"),
            format!("six==1.16 --hash=sha256:{a}\n--no-binary :all:"),
            format!("-e . --hash=sha256:{a}"),
        ] {
            assert!(!is_locked_by(&open), "{open}");
        }
    }

    #[test]
    fn every_hash_of_a_lock_is_strong() {
        let lock = |hash: &str| {
            let text = format!(
                "version = 1\n[[package]]\nname = \"six\"\nwheels = [{{ url = \"u\", hash = \"{hash}\" }}]\n"
            );
            let (pyproject, lock) = (Some(String::new()), Some(text));
            is_locked(&BuildRequest { pyproject, lock, ..BuildRequest::default() })
        };
        assert!(lock(&format!("sha256:{}", "a".repeat(64))));
        assert!(!lock("md5:aaaa") && !lock(&"a".repeat(64)));
        let without = BuildRequest {
            pyproject: Some("dependencies = []".to_owned()),
            ..BuildRequest::default()
        };
        assert!(!is_locked(&without));
        let of_directory = Some("version = 1\n[[package]]\nname = \"six\"\n".to_owned());
        assert!(!is_locked(&BuildRequest { lock: of_directory, ..without }));
    }
}
