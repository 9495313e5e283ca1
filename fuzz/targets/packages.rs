//! Any bytes are a package database or an error, whatever the memory for its pages, and what is read twice is equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_image::packages::{DatabaseError, Effort, Manager};

fuzz_target!(|data: &[u8]| {
    for manager in [Manager::Rpm, Manager::Dpkg] {
        let thorough = manager.read(data, Effort::Thorough);
        match manager.read(data, Effort::Streaming) {
            Ok(packages) => assert_eq!(thorough.ok(), Some(packages)),
            // It is read again, with more memory.
            Err(DatabaseError::Order) => {}
            Err(error) => assert!(thorough.is_err(), "{error}"),
        }
    }
});
