//! The text of an error for people.

/// The message of an error, without the trailing ` (os error N)` of system errors.
pub fn error_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    if let Some(number) = text.rfind(" (os error ").filter(|_| text.ends_with(')')) {
        text.truncate(number);
    }
    text
}

/// The text with its control characters as escape sequences: texts from registries, images and
/// configs may contain any, and a terminal obeys them.
pub fn escape_control(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}
