//! Any text is an image reference or an error, and what is printed is read as the same reference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_image::ImageRef;

fuzz_target!(|text: &str| {
    if let Ok(image) = text.parse::<ImageRef>() {
        let printed = image.to_string();
        assert!(!printed.contains(['\n', '"', '$', '\\', ' ']), "{printed}");
        assert_eq!(printed.parse::<ImageRef>().as_ref(), Ok(&image), "{printed}");
    }
});
