use proptest::prelude::*;

use super::database::{PAGE, database, header, in_order};
use super::*;

fn read(bytes: &[u8], effort: Effort) -> Result<Vec<String>, DatabaseError> {
    let packages = Manager::of_content(bytes).unwrap_or(Manager::Rpm).read(bytes, effort)?;
    let line = |package: &Package| {
        let Package { name, version, arch, manager } = package;
        assert_eq!(Manager::of_content(bytes), Some(*manager));
        format!("{name} {version} {}", arch.as_deref().unwrap_or("-"))
    };
    Ok(packages.iter().map(line).collect())
}

#[test]
fn rpm_packages_are_listed_as_rpm_prints_them() {
    let headers = [
        header("zlib", None, "1.3", "x86_64", 0),
        header("bind", Some(32), "9.18", "x86_64", 5000),
        header("bind", Some(0), "9.18", "i686", 100),
        header("gpg-pubkey", None, "a15b79cc", "", 1),
    ];
    let bytes = rpm_database(&headers);
    let want = [
        "bind 0:9.18-1.fc44 i686",
        "bind 32:9.18-1.fc44 x86_64",
        "gpg-pubkey a15b79cc-1.fc44 -",
        "zlib 1.3-1.fc44 x86_64",
    ];
    assert_eq!(read(&bytes, Effort::Streaming).unwrap(), want);
    assert_eq!(read(&bytes, Effort::Thorough).unwrap(), want);
    assert_eq!(read(&database(&[], &[]), Effort::Streaming).unwrap(), [""; 0]);
}

#[test]
fn damaged_databases_are_errors_with_cause() {
    let headers = [header("a", None, "1", "noarch", 600), header("b", None, "1", "noarch", 0)];
    let good = rpm_database(&headers);
    let at = |page: usize, offset: usize| (page - 1) * PAGE + offset;
    for (what, (at, byte), want) in [
        ("another root", (at(1, PAGE - 4), 9), "page 9: it is not a page of a table"),
        ("another name", (at(1, PAGE - 5 - 8), b'p'), "it has no table Packages"),
        ("a circle", (at(2, 11), 2), "page 2: two pages lead to it"),
        ("a row outside", (at(3, 8), 0xff), "page 3: a row is outside of it"),
        ("a chain that ends", (at(4, 3), 0), "its row has too few pages"),
        ("UTF-16", (59, 2), "it is not an SQLite file in UTF-8"),
        ("a page size", (16, 3), "it is not an SQLite file in UTF-8"),
    ] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        for effort in [Effort::Streaming, Effort::Thorough] {
            let error = read(&bytes, effort).unwrap_err().to_string();
            assert!(error.contains(want), "{what}: {error}");
        }
    }
    let error = read(&good[..good.len() - 1], Effort::Streaming).unwrap_err().to_string();
    assert!(error.contains("the file ends in it"), "{error}");
}

#[test]
fn rows_of_unused_pages_do_not_count() {
    let headers = [header("a", None, "1", "noarch", 600), header("b", None, "1", "noarch", 0)];
    let mut bytes = rpm_database(&headers);
    // The root leads to the second leaf only.
    bytes[PAGE + 3..PAGE + 5].copy_from_slice(&[0, 0]);
    assert_eq!(read(&bytes, Effort::Streaming).unwrap(), ["b 1-1.fc44 noarch"]);
}

#[test]
fn dpkg_packages_are_those_that_are_installed() {
    let long = "x".repeat(3 * MAX_FIELD);
    let status = format!(
        "Package: zlib1g\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:1.2\nDescription: {long}\n Version: 7\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n\nPackage: half\nStatus: install ok half-configured\nVersion: 2\nArchitecture: all"
    );
    let want = ["half 2 all", "zlib1g 1:1.2 amd64"];
    assert_eq!(read(status.as_bytes(), Effort::Streaming).unwrap(), want);
    assert_eq!(Manager::Dpkg.read(&b""[..], Effort::Streaming).unwrap(), Packages::default());
    for (status, want) in [
        ("Package: a\nStatus: install ok installed\n", "an empty name or version"),
        ("Package: a\u{7}\nVersion: 1\n", "a control character"),
    ] {
        let error = read(status.as_bytes(), Effort::Streaming).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn listing_is_read_back_from_a_tree() {
    let package = |arch: Option<&str>, manager| Package {
        name: "a".to_owned(),
        version: "1:2-3".to_owned(),
        arch: arch.map(str::to_owned),
        manager,
    };
    let all = [None, Some("noarch")].into_iter();
    let all = all.flat_map(|arch| [package(arch, Manager::Rpm), package(arch, Manager::Dpkg)]);
    let packages = Packages::new(all.collect()).unwrap();
    let unreadable = Listing::Unreadable(Manager::Dpkg, "a cause".to_owned());
    let file = |listing: &Listing| crate::tree::OwnedEntry::file(&listing.to_bytes());
    let tree = BaseTree::from_entries([
        (b"usr/share/rpm/rpmdb.sqlite".to_vec(), file(&Listing::Packages(packages.clone()))),
        (b"var/lib/dpkg/status".to_vec(), file(&unreadable)),
    ]);
    assert_eq!(tree.content("usr/share/rpm/rpmdb.sqlite"), None, "it is not the content");
    let installed = Installed::of(&tree);
    assert_eq!(installed.packages, packages);
    let [warning] = &installed.warnings[..] else { panic!("{installed:?}") };
    assert!(warning.message.contains("the dpkg database can't be read"), "{warning:?}");
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]
    #[test]
    fn order_of_pages_does_not_matter(
        descriptions in proptest::collection::vec(0_usize..3000, 1..6),
        seed in any::<u64>(),
    ) {
        let headers: Vec<_> = descriptions
            .iter()
            .enumerate()
            .map(|(at, description)| header(&format!("p{at}"), None, "1", "noarch", *description))
            .collect();
        let mut order = in_order(&headers);
        // Fisher and Yates, with the generator of Knuth.
        let mut state = seed;
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        let bytes = database(&headers, &order);
        let want: Vec<String> = (0..headers.len()).map(|at| format!("p{at} 1-1.fc44 noarch")).collect();
        for effort in [Effort::Streaming, Effort::Thorough] {
            let found = read(&bytes, effort).map_err(|error| error.to_string());
            prop_assert_eq!(found.as_ref(), Ok(&want), "{:?}", effort);
        }
    }

    #[test]
    fn any_change_is_read_without_harm(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let headers = [header("a", Some(1), "1", "noarch", 600), header("b", None, "1", "", 0)];
        let mut bytes = rpm_database(&headers);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for effort in [Effort::Streaming, Effort::Thorough] {
            let _ = Manager::Rpm.read(&*bytes, effort);
        }
    }
}
