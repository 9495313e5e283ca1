//! Data URLs (RFC 2397), exactly those that Ignition accepts.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};

/// Why a data URL can't be read: the place, but not the text, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataUrlError {
    /// Another scheme, or `DATA:`.
    #[error("does not begin with `data:` in lower case")]
    Prefix,
    /// No data.
    #[error("has no comma before the data")]
    NoComma,
    /// Bad text before the comma.
    #[error("has a bad media type at byte {at}; write `data:,` or `data:;base64,`")]
    MediaType {
        /// Offset in the URL.
        at: usize,
    },
    /// `#` or a backslash in the media type, which Ignition's two parsers read differently.
    #[error("has {what} in its media type at byte {at}; write `data:,` or `data:;base64,`")]
    Unusual {
        what: &'static str,
        /// Offset in the URL.
        at: usize,
    },
    /// A character that must be percent-encoded.
    #[error("has a character at byte {at} that must be percent-encoded")]
    Character {
        /// Offset in the URL.
        at: usize,
    },
    /// `%` without two hex digits.
    #[error("has a `%` at byte {at} that no two hex digits follow")]
    Percent {
        /// Offset in the URL.
        at: usize,
    },
    /// Not standard base64 with padding.
    #[error(
        "is not standard base64 with padding (the URL-safe alphabet and percent-encoding are not taken)"
    )]
    Base64,
}

/// Decodes a data URL.
///
/// # Errors
/// If Ignition rejects the URL: raw spaces, control and non-ASCII characters, quotes, brackets, a
/// bad media type, base64 of another alphabet or without its padding.
///
/// ```
/// assert_eq!(mosb_ignition::parse_data_url("data:,a%20b+c").unwrap(), b"a b+c");
/// assert_eq!(mosb_ignition::parse_data_url("data:text/plain;base64,aGk=").unwrap(), b"hi");
/// assert!(mosb_ignition::parse_data_url("data:,a b").is_err());
/// ```
pub fn parse_data_url(url: &str) -> Result<Vec<u8>, DataUrlError> {
    Ok(Body::find(url)?.decode())
}

/// The checked data of a data URL.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'u> {
    Percent(&'u [u8]),
    Base64(&'u [u8]),
}

impl<'u> Body<'u> {
    /// Checks the whole URL without decoding it.
    pub fn find(url: &'u str) -> Result<Self, DataUrlError> {
        const PREFIX: &str = "data:";
        let bytes = url.as_bytes();
        if !url.starts_with(PREFIX) {
            return Err(DataUrlError::Prefix);
        }
        let (base64, start) = Header { bytes, at: PREFIX.len() }.read()?;
        let data = &bytes[start..];
        if base64 {
            check_base64(data)?;
            Ok(Self::Base64(data))
        } else {
            check_percent(data, start)?;
            Ok(Self::Percent(data))
        }
    }

    /// How many bytes [`Body::decode`] returns.
    pub fn decoded_len(self) -> usize {
        match self {
            Self::Percent(data) => data.len() - 2 * data.iter().filter(|b| **b == b'%').count(),
            Self::Base64(data) => {
                data.len() / 4 * 3 - data.iter().rev().take_while(|b| **b == b'=').count()
            }
        }
    }

    pub fn decode(self) -> Vec<u8> {
        match self {
            Self::Base64(data) => BASE64.decode(data).expect("checked when it was found"),
            Self::Percent(data) => {
                let mut out = Vec::with_capacity(self.decoded_len());
                let mut rest = data.iter();
                let mut digit = || rest.next().copied();
                while let Some(byte) = digit() {
                    out.push(match byte {
                        b'%' => hex(digit()) << 4 | hex(digit()),
                        other => other,
                    });
                }
                out
            }
        }
    }
}

/// As Go's decoder: bits that are left over at the end may be anything.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

fn hex(digit: Option<u8>) -> u8 {
    let value = digit.and_then(|d| char::from(d).to_digit(16)).expect("checked when it was found");
    u8::try_from(value).expect("a hex digit is below 16")
}

fn check_base64(data: &[u8]) -> Result<(), DataUrlError> {
    let padding = data.iter().rev().take_while(|b| **b == b'=').count();
    let digits = &data[..data.len() - padding];
    // Without a branch in a stretch: many bytes are then compared at once, and most of a config is
    // base64.
    let digit = |b: &u8| b.is_ascii_alphanumeric() | (*b == b'+') | (*b == b'/');
    let all_digits = |stretch: &[u8]| stretch.iter().fold(true, |all, b| all & digit(b));
    if data.len().is_multiple_of(4) && padding <= 2 && digits.chunks(64).all(all_digits) {
        Ok(())
    } else {
        Err(DataUrlError::Base64)
    }
}

fn check_percent(data: &[u8], start: usize) -> Result<(), DataUrlError> {
    for (offset, byte) in data.iter().enumerate() {
        let at = start + offset;
        match byte {
            b'%' => {
                let digits = data.get(offset + 1..offset + 3);
                if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(DataUrlError::Percent { at });
                }
            }
            b'<' | b'>' | b'#' | b'"' | b'{' | b'}' | b'|' | b'\\' | b'^' | b'[' | b']' | b'`' => {
                return Err(DataUrlError::Character { at });
            }
            graphic if graphic.is_ascii_graphic() => {}
            _ => return Err(DataUrlError::Character { at }),
        }
    }
    Ok(())
}

/// The part between `data:` and the comma: a media type, parameters and `base64`, each optional.
struct Header<'u> {
    bytes: &'u [u8],
    at: usize,
}

impl<'u> Header<'u> {
    /// Whether the data is base64, and where it begins.
    fn read(mut self) -> Result<(bool, usize), DataUrlError> {
        if !matches!(self.peek()?, b',' | b';') {
            self.media_type()?;
        }
        loop {
            let separator = self.peek()?;
            self.at += 1;
            match separator {
                b',' => return Ok((false, self.at)),
                b';' => {
                    let name = self.token()?;
                    match self.peek()? {
                        b'=' if !name.is_empty() => self.value()?,
                        b',' if name == b"base64" => return Ok((true, self.at + 1)),
                        _ => return Err(self.bad()),
                    }
                }
                _ => return Err(DataUrlError::MediaType { at: self.at - 1 }),
            }
        }
    }

    fn media_type(&mut self) -> Result<(), DataUrlError> {
        const KNOWN: [&[u8]; 7] =
            [b"text", b"image", b"audio", b"video", b"application", b"message", b"multipart"];
        let kind = self.token()?;
        let known = KNOWN.iter().any(|k| kind.starts_with(k))
            || kind.starts_with(b"x-")
            || kind.starts_with(b"X-");
        if !known || self.peek()? != b'/' {
            return Err(self.bad());
        }
        self.at += 1;
        self.token()?;
        Ok(())
    }

    /// The value of a parameter, with the `=` before it.
    fn value(&mut self) -> Result<(), DataUrlError> {
        self.at += 1;
        if self.peek()? != b'"' {
            let start = self.at;
            let value = self.token()?;
            if value.is_empty() {
                return Err(self.bad());
            }
            return check_percent_digits(value, start);
        }
        loop {
            self.at += 1;
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    return Err(DataUrlError::Unusual { what: "a backslash", at: self.at });
                }
                b'#' => {
                    return Err(DataUrlError::Unusual { what: "a `#`", at: self.at });
                }
                b' ' => {}
                graphic if graphic.is_ascii_graphic() => {}
                _ => return Err(self.bad()),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn token(&mut self) -> Result<&'u [u8], DataUrlError> {
        let start = self.at;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => {
                    return Err(DataUrlError::Unusual { what: "a `#`", at: self.at });
                }
                b'(' | b')' | b'<' | b'>' | b'@' | b',' | b';' | b':' | b'\\' | b'"' | b'/'
                | b'[' | b']' | b'?' | b'=' => break,
                graphic if graphic.is_ascii_graphic() => self.at += 1,
                _ => break,
            }
        }
        Ok(&self.bytes[start..self.at])
    }

    fn peek(&self) -> Result<u8, DataUrlError> {
        self.bytes.get(self.at).copied().ok_or(DataUrlError::NoComma)
    }

    fn bad(&self) -> DataUrlError {
        DataUrlError::MediaType { at: self.at }
    }
}

/// Inside a token only `%` can be wrong.
fn check_percent_digits(token: &[u8], start: usize) -> Result<(), DataUrlError> {
    let wrong = (0..token.len()).find(|&i| {
        token[i] == b'%'
            && !token.get(i + 1..i + 3).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit))
    });
    wrong.map_or(Ok(()), |offset| Err(DataUrlError::Percent { at: start + offset }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn valid_data_urls_are_read() {
        for (url, want) in [
            ("data:,", ""),
            ("data:,a", "a"),
            ("data:,a%20b", "a b"),
            ("data:,a+b", "a+b"),
            ("data:,%2c%2C,", ",,,"),
            ("data:,a?b=c&d", "a?b=c&d"),
            ("data:;base64,", ""),
            ("data:;base64,aGk=", "hi"),
            ("data:;base64,aGl=", "hi"),
            ("data:text/plain,a", "a"),
            ("data:text/,a", "a"),
            ("data:texty/x,a", "a"),
            ("data:x-own/thing,a", "a"),
            ("data:text/plain;charset=utf-8;base64,YQ==", "a"),
            ("data:;charset=\"a b,c\",d", "d"),
            ("data:;base64=x,YQ", "YQ"),
        ] {
            assert_eq!(parse_data_url(url).as_deref(), Ok(want.as_bytes()), "{url}");
        }
    }

    #[test]
    fn invalid_data_urls_are_rejected_with_the_cause() {
        use DataUrlError::*;
        for (url, want) in [
            ("", Prefix),
            ("DATA:,a", Prefix),
            ("http://x/", Prefix),
            ("data:", NoComma),
            ("data:text/plain", NoComma),
            ("data:;charset=\"a,b", NoComma),
            ("data:plain,a", MediaType { at: 10 }),
            ("data:nothing/x,a", MediaType { at: 12 }),
            ("data:;,a", MediaType { at: 6 }),
            ("data:;base65,a", MediaType { at: 12 }),
            ("data:;base64;a=b,YQ==", MediaType { at: 12 }),
            ("data:;a=,b", MediaType { at: 8 }),
            ("data:;a=%zz,b", Percent { at: 8 }),
            ("data:;a=\"\\\"\",b", Unusual { what: "a backslash", at: 9 }),
            ("data:text/pl#ain,b", Unusual { what: "a `#`", at: 12 }),
            ("data:,a b", Character { at: 7 }),
            ("data:,a#b", Character { at: 7 }),
            ("data:,[", Character { at: 6 }),
            ("data:,\u{e9}", Character { at: 6 }),
            ("data:,a\n", Character { at: 7 }),
            ("data:,%", Percent { at: 6 }),
            ("data:,%4", Percent { at: 6 }),
            ("data:,%4g", Percent { at: 6 }),
            ("data:;base64,YQ", Base64),
            ("data:;base64,YQ=", Base64),
            ("data:;base64,Y===", Base64),
            ("data:;base64,YQ==YQ==", Base64),
            ("data:;base64,_-==", Base64),
            ("data:;base64,YQ%3D%3D", Base64),
            ("data:;base64,YQ==\n", Base64),
        ] {
            assert_eq!(parse_data_url(url), Err(want), "{url}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>, media in "(|text/plain|application/x;charset=utf-8)") {
            let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
            let percent: String = bytes.iter().map(|b| format!("%{b:02x}")).collect();
            for url in [format!("data:{media};base64,{base64}"), format!("data:{media},{percent}")] {
                let body = Body::find(&url).unwrap();
                prop_assert_eq!(body.decoded_len(), bytes.len());
                prop_assert_eq!(body.decode(), &bytes[..]);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "(data:)?[a-z/;=,%\"#\\\\0-9+ ]{0,40}") {
            if let Ok(body) = Body::find(&text) {
                prop_assert_eq!(body.decode().len(), body.decoded_len());
            }
        }
    }
}
