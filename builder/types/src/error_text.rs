//! The text of an error for people.

/// The message of an error, without the trailing ` (os error N)` of system errors.
pub fn error_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    if let Some(number) = text.rfind(" (os error ").filter(|_| text.ends_with(')')) {
        text.truncate(number);
    }
    text
}
