//! Text from outside as it may appear in messages, listings and logs.

/// With control characters escaped, so that it stays on its line.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// As [`plain`], and cut to a length that a message can bear.
pub(super) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => plain(&text[..end]) + "...",
        None => plain(text),
    }
}
