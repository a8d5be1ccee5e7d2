//! The name somebody may have meant.

/// ` (did you mean "x"?)` if one of `names` is near `given`, else nothing.
pub(crate) fn hint<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> String {
    // A third of the letters may be wrong; of a short word, one.
    let allowed = (given.chars().count() / 3).max(1);
    names
        .map(|name| (distance(given, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| format!(" (did you mean {name:?}?)"))
        .unwrap_or_default()
}

/// Levenshtein's distance: insertions, deletions and replacements of characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a_char) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (b_char, above) in b.iter().zip(row.windows(2)) {
            if let [diagonal, up] = above {
                left = (diagonal + usize::from(*b_char != a_char)).min(up + 1).min(left + 1);
                next.push(left);
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        let names = ["max_memory_mb", "max_procs"];
        assert_eq!(hint("max_memory", names.into_iter()), " (did you mean \"max_memory_mb\"?)");
        assert_eq!(hint("maxprocs", names.into_iter()), " (did you mean \"max_procs\"?)");
        assert_eq!(hint("colour", names.into_iter()), "");
    }
}
