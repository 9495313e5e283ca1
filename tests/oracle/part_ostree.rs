//! The ostree-native base is like real images, and the importer accepts valid layers and rejects
//! invalid ones.

use std::path::Path;

use mosb_tests::{Compression, Kind, Layout, Tree, ostree_base, ostree_import, run};

/// The base with one more layer on top.
fn with_layer(directory: &Path, base: &str, layer: &Tree) -> String {
    let layout = Layout::at(directory.join(base));
    run("cp", ["-a".as_ref(), ostree_base().directory.as_os_str(), layout.directory.as_os_str()]);
    layout.append(base, Compression::Gzip, &layer.tar());
    layout.reference(base)
}

#[test]
fn hard_links_to_links_lead_into_var() {
    let mut archive = tar::Archive::new(ostree_base().layers("base").remove(0));
    let found = archive
        .entries()
        .unwrap()
        .map(Result::unwrap)
        .find(|member| member.path_bytes().as_ref() == b"usr/local")
        .expect("usr/local in the base");
    assert_eq!(found.header().entry_type(), tar::EntryType::Link);
}

#[test]
fn a_layer_that_goes_through_the_links_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let layer = Tree::new()
        .directory("etc", 0o755)
        .file("etc/mosb-test", 0o640, "x")
        .owned(0, 4)
        .directory("var", 0o755)
        .directory("var/usrlocal", 0o755)
        .directory("var/usrlocal/bin", 0o755)
        .file("var/usrlocal/bin/x", 0o755, "x");
    let image = with_layer(directory.path(), "base", &layer);
    let tree = ostree_import(&image, &[]).unwrap().snapshot();
    let file = &tree.0["usr/etc/mosb-test"];
    assert_eq!((file.mode, file.uid, file.gid), (0o640, 0, 4));
    let target = "../var/usrlocal".to_owned();
    assert_eq!(tree.0["usr/local"].kind, Kind::Link { target });
    assert!(tree.0.contains_key("usr/share/factory/var/usrlocal/bin/x"), "content of /var");
}

#[test]
fn a_directory_never_takes_a_links_place() {
    let directory = tempfile::tempdir().unwrap();
    let layer = Tree::new()
        .directory("usr", 0o755)
        .directory("usr/local", 0o755)
        .directory("usr/local/bin", 0o755)
        .file("usr/local/bin/x", 0o755, "x");
    // If the target of the link is missing, the importer rejects the image: such a node could not
    // update.
    let image = with_layer(directory.path(), "empty-var", &layer);
    let why = ostree_import(&image, &[]).unwrap_err();
    assert!(why.contains("Checking out layer"), "{why}");

    // If the target exists, libostree follows the link, and only new machines get the content in
    // `/var`.
    let image = with_layer(directory.path(), "base", &layer);
    let tree = ostree_import(&image, &[]).unwrap().snapshot();
    let target = "../var/usrlocal".to_owned();
    assert_eq!(tree.0["usr/local"].kind, Kind::Link { target });
    assert!(tree.0.contains_key("var/usrlocal/bin/x"));
}
