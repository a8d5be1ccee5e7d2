//! The variables of a session at a checkpoint, by name, and what differs from one checkpoint to another.
//!
//! A session's kernel says them (agent/python/image/variables.py), and so may its code: what is kept is bounded and
//! can be printed, and tells of that session alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use vivarium_api_types::Variable;

const MAX_NAMES: usize = 500;
const MAX_CHARS: usize = 100;
/// Of all names and types together: records are in memory.
const MAX_BYTES: usize = 32 << 10;

/// A name, that of its object's type, and a fingerprint of what it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Name(String, String, u32);

/// The variables of a session at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    /// The newest first.
    names: Vec<Name>,
    /// Whether there are older ones.
    more: bool,
}

/// What differs from one moment to another, in the order of names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) added: Vec<Variable>,
    pub(crate) removed: Vec<Variable>,
    pub(crate) changed: Vec<Variable>,
    /// Whether other names may differ too.
    pub(crate) more: bool,
}

impl Names {
    /// No variables.
    pub(crate) const NONE: &'static Self = &Self { names: Vec::new(), more: false };

    /// Those of a checkpoint whose variables nobody noted.
    pub(crate) const UNKNOWN: &'static Self = &Self { names: Vec::new(), more: true };

    /// What a kernel said, as far as it is kept.
    pub(crate) fn checked(said: Vec<Name>, more: bool) -> Self {
        let (count, mut bytes, mut known) = (said.len(), 0, BTreeSet::new());
        let fits = |Name(name, kind, _): &Name| {
            bytes += name.len() + kind.len();
            bytes <= MAX_BYTES
        };
        let mut names: Vec<_> = said.into_iter().take(MAX_NAMES).take_while(fits).collect();
        names.retain(|name| name.is_plain() && known.insert(name.0.clone()));
        Self { more: more || names.len() < count, names }
    }

    /// What is different here from what was before.
    ///
    /// Of names that one side alone has, those are told that the other surely had not. Names are in the order in which
    /// they were bound first: what is newer here than a name of both was made since.
    pub(crate) fn since(&self, before: &Self) -> Difference {
        let (here, there) = (self.by_name(), before.by_name());
        let is_of_both = |name: &Name| there.contains_key(&*name.0);
        let made_since = match self.names.iter().rposition(is_of_both) {
            _ if !before.more => self.names.len(),
            oldest_of_both => oldest_of_both.unwrap_or_default(),
        };
        let newer = self.names.iter().take(made_since);
        let is_gone = |name: &&Name| !self.more && !here.contains_key(&*name.0);
        let is_other = |name: &&Name| there.get(&*name.0).is_some_and(|other| other != name);
        Difference {
            added: described(newer.filter(|name| !is_of_both(name))),
            removed: described(before.names.iter().filter(is_gone)),
            changed: described(self.names.iter().filter(is_other)),
            more: self.more || before.more,
        }
    }

    fn by_name(&self) -> BTreeMap<&str, &Name> {
        self.names.iter().map(|name| (&*name.0, name)).collect()
    }
}

impl Name {
    /// Whether it is short, and nothing that a terminal would obey.
    fn is_plain(&self) -> bool {
        let is_short = |text: &str| text.chars().count() <= MAX_CHARS;
        let Self(name, kind, _) = self;
        let mut all = name.chars().chain(kind.chars());
        !name.is_empty() && is_short(name) && is_short(kind) && !all.any(char::is_control)
    }
}

fn described<'n>(names: impl Iterator<Item = &'n Name>) -> Vec<Variable> {
    let mut variables: Vec<_> = names
        .map(|Name(name, kind, _)| Variable { name: name.clone(), kind: kind.clone() })
        .collect();
    variables.sort_by(|one, other| one.name.cmp(&other.name));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str, kind: &str, fingerprint: u32) -> Name {
        Name(name.to_owned(), kind.to_owned(), fingerprint)
    }

    /// Names of type `int`, the newest first, each with a fingerprint.
    fn names(all: &[(&str, u32)], more: bool) -> Names {
        Names::checked(all.iter().map(|(it, value)| name(it, "int", *value)).collect(), more)
    }

    fn told(variables: &[Variable]) -> Vec<&str> {
        variables.iter().map(|variable| &*variable.name).collect()
    }

    /// Added, removed and changed names, and whether there may be more.
    fn differs(before: &Names, after: &Names) -> String {
        let Difference { added, removed, changed, more } = after.since(before);
        format!("{:?} {:?} {:?} {more}", told(&added), told(&removed), told(&changed))
    }

    #[test]
    fn names_are_added_removed_and_changed() {
        let before = names(&[("c", 3), ("b", 2), ("a", 1)], false);
        let after = names(&[("e", 5), ("d", 4), ("c", 9), ("a", 1)], false);
        assert_eq!(differs(&before, &after), r#"["d", "e"] ["b"] ["c"] false"#);
        assert_eq!(differs(&after, &before), r#"["b"] ["d", "e"] ["c"] false"#);
        assert_eq!(differs(&after, &after), "[] [] [] false");
        assert_eq!(differs(Names::NONE, &before), r#"["a", "b", "c"] [] [] false"#);
        // Of another type it is another object, whatever its fingerprint.
        let text = Names::checked(vec![name("a", "str", 1)], false);
        let changed = text.since(&names(&[("a", 1)], false)).changed;
        assert_eq!(changed, [Variable { name: "a".into(), kind: "str".into() }]);
    }

    #[test]
    fn nothing_is_told_of_names_that_may_have_been_there() {
        let before = names(&[("c", 3), ("b", 2)], true);
        let after = names(&[("d", 4), ("b", 9), ("a", 1)], true);
        // "a" may be older than "b" was, and "c" may be older than "a" is.
        assert_eq!(differs(&before, &after), r#"["d"] [] ["b"] true"#);
        let all = names(&[("d", 4), ("b", 9), ("a", 1)], false);
        assert_eq!(differs(&before, &all), r#"["d"] ["c"] ["b"] true"#);
        assert_eq!(differs(Names::NONE, &after), r#"["a", "b", "d"] [] [] true"#);
        for (from, to) in [(Names::UNKNOWN, &all), (&all, Names::UNKNOWN)] {
            assert_eq!(differs(from, to), "[] [] [] true");
        }
    }

    #[test]
    fn what_a_kernel_says_is_bounded_and_plain() {
        let long = "n".repeat(MAX_CHARS);
        let said = vec![
            name(&long, &long, 1),
            name(&format!("{long}n"), "int", 1),
            name("a", &format!("{long}n"), 1),
            name("", "int", 1),
            name("a\n+ b", "int", 1),
            name("a", "\u{1b}[2J", 1),
            name("a", "\u{9b}2J", 1),
            name("π", "int", 1),
            name("π", "str", 2),
        ];
        let kept = Names::checked(said, false);
        assert_eq!(kept.names, [name(&long, &long, 1), name("π", "int", 1)]);
        assert!(kept.more);
        let many = |count: usize| (0..count).map(|at| name(&format!("n{at}"), "int", 0)).collect();
        assert_eq!(Names::checked(many(MAX_NAMES), false).names.len(), MAX_NAMES);
        assert!(!Names::checked(many(MAX_NAMES), false).more);
        let kept = Names::checked(many(MAX_NAMES + 1), false);
        assert!(kept.names.len() == MAX_NAMES && kept.more);
        let wide = |at| name(&format!("{at:0>100}"), &"\u{10400}".repeat(MAX_CHARS), 0);
        let kept = Names::checked((0..MAX_NAMES).map(wide).collect(), false);
        assert!(kept.names.len() == MAX_BYTES / 500 && kept.more, "{}", kept.names.len());
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        let written = r#"{"names":[["b","dict",7],["a","int",4294967295]],"more":false}"#;
        let read: Names = serde_json::from_str(written).unwrap();
        assert_eq!(
            read,
            Names::checked(vec![name("b", "dict", 7), name("a", "int", u32::MAX)], false)
        );
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
    }
}
