//! The tokens of `[[tenant]]`: hashes, entries with scopes, and a file of either.

use jiff::Timestamp;
use vivarium_api_types::{Scope, Scopes, TokenHash};
use vivarium_engine::settings::TenantToken;

use crate::config::value::{Value, ValueError};

/// The longest name of a token.
const MAX_NAME_CHARS: usize = 64;

/// What a value must be. The message never repeats the value, which may be a token.
fn unfit(what: &str) -> ValueError {
    ValueError::Unfit(format!("{what}: give SHA-256 hashes, never tokens"))
}

/// `token_sha256`: hashes of tokens that may run code.
pub(super) fn hashes(value: &Value) -> Result<Vec<TenantToken>, ValueError> {
    let Value::List(items) = value else { return Err(unfit("not a list of strings")) };
    let mut tokens: Vec<TenantToken> = Vec::new();
    for item in items {
        let Value::Text(text) = item else { return Err(unfit("an item is no string")) };
        let hash = hash(text).ok_or_else(|| unfit("an item is not of 64 hexadecimal digits"))?;
        if tokens.iter().any(|token| token.hash == hash) {
            return Err(ValueError::Unfit(format!("{hash} is there twice")));
        }
        tokens.push(hash.into());
    }
    some(tokens)
}

/// `[[tenant.token]]`
pub(super) fn entries(value: &Value) -> Result<Vec<TenantToken>, ValueError> {
    const WANTED: &str = "entries [[tenant.token]]";
    let Value::List(items) = value else { return Err(unfit(&format!("not {WANTED}"))) };
    let entry = |item: &Value| match item {
        Value::Table(members) => entry(members),
        _ => Err(unfit(&format!("an item is none of the {WANTED}"))),
    };
    some(items.iter().map(entry).collect::<Result<_, _>>()?)
}

fn some(tokens: Vec<TenantToken>) -> Result<Vec<TenantToken>, ValueError> {
    if tokens.is_empty() {
        return Err(ValueError::Unfit("an empty list: nobody could be this tenant".to_owned()));
    }
    Ok(tokens)
}

fn entry(members: &[(String, Value)]) -> Result<TenantToken, ValueError> {
    let mut token = None;
    let (mut scopes, mut expires, mut name) = (Scopes::RUN, None, None);
    for (member, value) in members {
        match member.as_str() {
            "hash" => {
                let Value::Text(text) = value else { return Err(unfit("hash: not a string")) };
                let hash = hash(text);
                token = Some(hash.ok_or_else(|| unfit("hash: not of 64 hexadecimal digits"))?);
            }
            "scopes" => scopes = self::scopes(value.texts()?)?,
            "expires" => expires = Some(time(value)?),
            "name" => name = Some(self::name(value.text()?)?),
            // Not repeated: it may be a token too.
            _ => {
                let why = "an entry has hash, scopes, expires and name, and nothing else";
                return Err(ValueError::Unfit(why.to_owned()));
            }
        }
    }
    let hash = token.ok_or_else(|| unfit("an entry has no hash"))?;
    Ok(TenantToken { hash, scopes, expires, name })
}

fn hash(text: &str) -> Option<TokenHash> {
    TokenHash::from_hex(text)
}

fn scopes<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Scopes, ValueError> {
    let parsed = names.into_iter().map(|name| {
        name.parse::<Scope>().map_err(|error| ValueError::Unfit(format!("scopes: {error}")))
    });
    let scopes: Scopes = parsed.collect::<Result<_, _>>()?;
    if scopes.is_empty() {
        let why = "scopes: an empty list: the token would be good for nothing";
        return Err(ValueError::Unfit(why.to_owned()));
    }
    Ok(scopes)
}

fn name(text: &str) -> Result<String, ValueError> {
    let fits = (1..=MAX_NAME_CHARS).contains(&text.chars().count())
        && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\'));
    if fits {
        return Ok(text.to_owned());
    }
    let why = format!("name: 1 to {MAX_NAME_CHARS} printable ASCII characters without blanks");
    Err(ValueError::Unfit(why))
}

/// A date and time with its offset, as TOML has it or as text.
fn time(value: &Value) -> Result<Timestamp, ValueError> {
    let text = match value {
        Value::Text(text) => text.as_str(),
        Value::Other(text) => text.strip_prefix("date ").unwrap_or(text),
        _ => "",
    };
    text.parse().map_err(|_| {
        let why = "expires: give a time with its offset, such as 2027-01-31T00:00:00Z";
        ValueError::Unfit(why.to_owned())
    })
}

/// The lines of a `token_hashes_file`: a hash, and then `scopes=`, `expires=` and `name=` where they
/// are not the usual. Blank lines and those that begin with `#` say nothing.
///
/// # Errors
/// What is wrong, with the number of the line.
pub(crate) fn lines(text: &str) -> Result<Vec<TenantToken>, ValueError> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next().filter(|first| !first.starts_with('#')) else { continue };
        let at = |error: ValueError| ValueError::Unfit(format!("line {}: {error}", index + 1));
        let hash = hash(first).ok_or_else(|| at(unfit("not 64 hexadecimal digits")))?;
        let mut token = TenantToken::from(hash);
        for word in words {
            match word.split_once('=') {
                Some(("scopes", list)) => token.scopes = scopes(list.split(',')).map_err(at)?,
                Some(("expires", when)) => {
                    token.expires = Some(time(&Value::Text(when.to_owned())).map_err(at)?);
                }
                Some(("name", given)) => token.name = Some(name(given).map_err(at)?),
                _ => return Err(at(unfit("after the hash come scopes=, expires= and name="))),
            }
        }
        tokens.push(token);
    }
    some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(members: &[(&str, Value)]) -> Value {
        let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Value::List(vec![Value::Table(members.collect())])
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn an_entry_has_scopes_an_end_and_a_name() {
        let hash = TokenHash::of("a").to_string();
        let scopes = Value::List(vec![text("read"), text("admin")]);
        let found = entries(&table(&[
            ("hash", text(&hash)),
            ("scopes", scopes),
            ("expires", text("2030-01-02T03:04:05+01:00")),
            ("name", text("ci")),
        ]));
        let expected = TenantToken {
            hash: TokenHash::of("a"),
            scopes: [Scope::Read, Scope::Admin].into_iter().collect(),
            expires: Some("2030-01-02T02:04:05Z".parse().unwrap()),
            name: Some("ci".to_owned()),
        };
        assert_eq!(found.unwrap(), [expected]);
        assert_eq!(entries(&table(&[("hash", text(&hash))])).unwrap()[0].scopes, Scopes::RUN);
    }

    #[test]
    fn a_bad_entry_is_refused_without_repeating_what_may_be_a_token() {
        const TOKEN: &str = "viv_secret";
        let hash = ("hash", text(&TokenHash::of("a").to_string()));
        for bad in [
            text(TOKEN),
            Value::List(vec![text(TOKEN)]),
            Value::List(vec![]),
            table(&[("hash", text(TOKEN))]),
            table(&[("scopes", Value::List(vec![text("run")]))]),
            table(&[hash.clone(), ("token", text(TOKEN))]),
            table(&[hash.clone(), (TOKEN, text(""))]),
            table(&[hash.clone(), ("scopes", Value::List(vec![]))]),
            table(&[hash.clone(), ("expires", text(TOKEN))]),
            table(&[hash.clone(), ("expires", text("2030-01-01"))]),
            table(&[hash.clone(), ("name", text("a b"))]),
        ] {
            let error = entries(&bad).unwrap_err().to_string();
            assert!(!error.contains(TOKEN), "{error}");
        }
        let scopes = Value::List(vec![text("root")]);
        let error = entries(&table(&[hash, ("scopes", scopes)])).unwrap_err().to_string();
        assert!(error.contains("\"root\" is not one of"), "{error}");
    }

    #[test]
    fn a_file_has_a_token_in_each_line() {
        let hash = TokenHash::of("a");
        let text = format!(
            "# for CI\n\n{hash}\n{hash} scopes=read,run name=ci expires=2030-01-01T00:00:00Z\n"
        );
        let tokens = lines(&text).unwrap();
        assert_eq!(tokens.len(), 2);
        assert_eq!(tokens[1].scopes.listed(), [Scope::Read, Scope::Run]);
        assert_eq!((tokens[1].name.as_deref(), tokens[1].expires.is_some()), (Some("ci"), true));
        for (bad, line) in [
            ("viv_secret\n".to_owned(), "line 1: not 64"),
            (format!("\n{hash} viv_secret\n"), "line 2: after the hash"),
            (format!("{hash} scopes=\n"), "line 1: scopes: \"\" is not"),
            (String::new(), "an empty list"),
        ] {
            let error = lines(&bad).unwrap_err().to_string();
            assert!(error.starts_with(line) && !error.contains("viv_secret"), "{error}");
        }
    }
}
