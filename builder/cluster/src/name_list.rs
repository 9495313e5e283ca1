//! A list of names in a message.

/// The first `limit` of these names, and how many more there are.
pub fn name_list(names: &[impl AsRef<str>], limit: usize) -> String {
    let first: Vec<&str> = names.iter().take(limit).map(AsRef::as_ref).collect();
    let joined = first.join(", ");
    match names.len().saturating_sub(limit) {
        0 => joined,
        more => format!("{joined} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_at_most_so_many_names() {
        for (names, want) in [
            (&[][..], ""),
            (&["a"], "a"),
            (&["a", "b"], "a, b"),
            (&["a", "b", "c"], "a, b and 1 more"),
            (&["a", "b", "c", "d"], "a, b and 2 more"),
        ] {
            assert_eq!(name_list(names, 2), want, "{names:?}");
        }
    }
}
