//! Annotations that people write.

use super::Metadata;
use mosb_types::Diagnostic;

/// Why an annotation is not what its kind needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("annotation {annotation}: {value:?}: {cause}; {remedy}")]
#[diagnostic(code = "bad-annotation", class = InvalidInput)]
pub struct AnnotationError {
    pub annotation: &'static str,
    /// At most 100 characters of the value.
    pub value: String,
    pub cause: String,
    pub remedy: String,
}

impl AnnotationError {
    pub(crate) fn new(
        annotation: &'static str,
        value: &str,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let value = value.chars().take(100).collect();
        Self { annotation, value, cause: cause.into(), remedy: remedy.into() }
    }
}

/// The value of an annotation that is one of these words; the first without the annotation.
///
/// # Errors
/// It is another word.
pub(crate) fn one_of<T: Copy>(
    metadata: &Metadata,
    annotation: &'static str,
    words: &[(&str, T)],
) -> Result<T, AnnotationError> {
    let Some(value) = metadata.annotation(annotation) else {
        return Ok(words[0].1);
    };
    if let Some((_, choice)) = words.iter().find(|(word, _)| *word == value) {
        return Ok(*choice);
    }
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let (last, others) = words.split_last().expect("a set of words has one");
    let remedy = format!("set {} or {last}", others.join(", "));
    Err(AnnotationError::new(annotation, value, "no such value", remedy))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An object with one annotation.
    pub fn annotated(key: &str, value: &str) -> Metadata {
        let annotations = [(key.to_owned(), value.to_owned())].into();
        Metadata { annotations, ..Metadata::default() }
    }
}
