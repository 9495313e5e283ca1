//! Each registry accepts only valid users.

use mosb_tests::{Access, Compression, Image, Layout, Registry, Server, Transport, Tree};

fn some_image(directory: &std::path::Path) -> Layout {
    let tar = Tree::new().file("hello", 0o644, "hello\n").tar();
    let layout = Layout::create(directory);
    layout.put("v1", &Image::new().layer(Compression::Gzip, tar));
    layout
}

#[test]
fn an_image_comes_back_as_it_was_put() {
    let directory = tempfile::tempdir().unwrap();
    let layout = some_image(directory.path());
    let registries = [
        (Server::Debian, Access::Anyone, Transport::Http),
        (Server::Debian, Access::Basic, Transport::Https),
        (Server::Distribution, Access::Anyone, Transport::Http),
        (Server::Distribution, Access::Token, Transport::Http),
        (Server::Distribution, Access::Token, Transport::Https),
    ];
    for (server, access, transport) in registries {
        let what = format!("{server:?} {access:?} {transport:?}");
        let registry = Registry::start(server, access, transport);
        registry.push(&layout, "v1", "some/image:v1");
        let found = registry.inspect("some/image:v1", &registry.authfile()).ok();
        assert_eq!(found.json()["Digest"], layout.digest("v1"), "{what}");

        let refused = registry.inspect("some/image:v1", &registry.wrong_authfile());
        assert_eq!(
            refused.status.success(),
            access == Access::Anyone,
            "{what}: {}",
            refused.stderr
        );
    }
}

#[test]
fn anonymous_tokens_pull_only_public_repositories() {
    let directory = tempfile::tempdir().unwrap();
    let layout = some_image(directory.path());
    let no_login = directory.path().join("nobody.json");
    std::fs::write(&no_login, "{}").unwrap();
    let registry = Registry::start(Server::Distribution, Access::Token, Transport::Http);
    for (name, want) in [("public/image:v1", true), ("private/image:v1", false)] {
        registry.push(&layout, "v1", name);
        let found = registry.inspect(name, &no_login);
        assert_eq!(found.status.success(), want, "{name}: {}", found.stderr);
    }
}

#[test]
fn dockers_media_types_are_used_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let layout = some_image(directory.path());
    let registry = Registry::plain();
    registry.push_docker(&layout, "v1", "docker:v1");
    let found = registry.inspect("docker:v1", &registry.authfile()).ok();
    let digest = found.json()["Digest"].as_str().unwrap().to_owned();
    let manifest = std::fs::read_to_string(registry.blob_path(&digest)).unwrap();
    assert!(manifest.contains("vnd.docker.image.rootfs.diff.tar.gzip"), "{manifest}");
}
