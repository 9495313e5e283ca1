//! Values that are never printed and do not stay in memory.
//!
//! Not `secrecy` 0.10: a `SecretBox` can't be compared, and it holds only what implements `Zeroize`.
//! URLs, JSON values and maps would each need a type of their own, longer than this file.

use std::fmt;

use serde_json::{Map, Value};
use url::Url;
use zeroize::Zeroize as _;

/// A value that can be used and not shown: `Debug` prints `[secret]`, and there is no `Display` and
/// no `Serialize`. Its memory is overwritten when it is dropped; copies that a request needs for
/// its headers or its body are not ours to overwrite.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Wipe>(T);

impl<T: Wipe> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one place that sends it.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// The value, for the one place that fills it.
    pub fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Wipe> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<T: Wipe> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// What can be overwritten in memory.
pub trait Wipe {
    /// Overwrites the bytes. The compiler must not remove this although they are never read again.
    fn wipe(&mut self);
}

impl Wipe for String {
    fn wipe(&mut self) {
        self.zeroize();
    }
}

impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        self.zeroize();
    }
}

impl Wipe for Url {
    fn wipe(&mut self) {
        let empty = Self::parse("x:").expect("a URL");
        String::from(std::mem::replace(self, empty)).wipe();
    }
}

impl Wipe for Value {
    fn wipe(&mut self) {
        match self {
            Self::String(text) => text.wipe(),
            Self::Array(all) => all.iter_mut().for_each(Wipe::wipe),
            Self::Object(all) => all.wipe(),
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }
}

impl Wipe for Map<String, Value> {
    fn wipe(&mut self) {
        self.values_mut().for_each(Wipe::wipe);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{:?} {:#?}", secret, Some(&secret)).matches("hunter2").count(), 0);
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn whatever_holds_a_login_can_be_overwritten() {
        fn wiped<T: Wipe>(mut value: T) -> T {
            value.wipe();
            value
        }
        assert_eq!(wiped("hunter2".to_owned()), "");
        assert_eq!(wiped(b"hunter2".to_vec()), b"");
        let url: Url = "http://me:hunter2@proxy.example.com".parse().unwrap();
        assert_eq!(wiped(url).as_str(), "x:");
        let logins = json!({ "quay.io": { "auth": "hunter2", "more": ["hunter2", 1, null] } });
        assert!(!wiped(logins).to_string().contains("hunter2"));
    }

    /// Records the number of wipes.
    #[derive(Clone)]
    struct Seen(Rc<RefCell<u32>>);

    impl Wipe for Seen {
        fn wipe(&mut self) {
            *self.0.borrow_mut() += 1;
        }
    }

    #[test]
    fn dropped_secrets_and_copies_are_overwritten() {
        let count = Rc::new(RefCell::new(0));
        let secret = Secret::new(Seen(Rc::clone(&count)));
        let copy = secret.clone();
        drop(secret);
        assert_eq!(*count.borrow(), 1);
        drop(copy);
        assert_eq!(*count.borrow(), 2);
    }
}
