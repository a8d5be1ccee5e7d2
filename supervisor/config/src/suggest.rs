//! Suggestions for misspelt names.

/// ` (did you mean "x"?)` if one of `names` is near `given`, else nothing.
pub fn hint<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> String {
    // A third of the letters may be wrong; in a short word, one.
    let allowed = (given.chars().count() / 3).max(1);
    names
        .map(|name| (strsim::levenshtein(given, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| format!(" (did you mean {name:?}?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["max_memory_mb", "max_procs"];
        assert_eq!(hint("max_memory", names.into_iter()), " (did you mean \"max_memory_mb\"?)");
        assert_eq!(hint("maxprocs", names.into_iter()), " (did you mean \"max_procs\"?)");
        assert_eq!(hint("colour", names.into_iter()), "");
    }
}
