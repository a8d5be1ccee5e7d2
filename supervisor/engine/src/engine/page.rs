//! Parts of lists.

use vivarium_api_types::Page;

use super::EngineError;

/// The most items in one part of a list.
const MAX_PAGE: usize = 1000;

/// How many items are asked for.
pub(super) fn page_size(page: &Page) -> Result<usize, EngineError> {
    if (1..=MAX_PAGE).contains(&page.limit) {
        return Ok(page.limit);
    }
    let reason = format!("give a whole number from 1 to {MAX_PAGE}, not {}", page.limit);
    Err(EngineError::invalid("limit", reason))
}

/// Cuts a part of a list to its size; the last id if there is a next part, which one more than asked for tells.
pub(super) fn cut_page<T>(
    found: &mut Vec<T>,
    limit: usize,
    id: impl Fn(&T) -> &String,
) -> Option<String> {
    let is_cut = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| is_cut).map(|last| id(last).clone())
}
