//! Tags of a repository, and the deletion of manifests: with Debian's registry, with and without
//! deletion, and with a stand-in for one that lists its tags in pages.

use std::collections::{BTreeMap, BTreeSet};

use mosb_image::{PinnedRef, RepoRef};
use mosb_registry::{Client, Deletion, Error, MAX_TAGS, other_owners, owner_tag};
use mosb_types::Diagnostic as _;

use mosb_tests::registry_fixture::{anonymous_client, client, options_for};
use mosb_tests::{
    Access, Compression, Image, Layout, Registry, Server, ServerAction, Transport, Tree, Web, reply,
};

const NAME: &str = "acme/os";

/// Images `a` and `b`, each with a second tag, and an index that contains `b`.
fn fill(registry: &Registry) -> BTreeMap<&'static str, String> {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path());
    let image = |content: &str| {
        let tree = Tree::new().file("content", 0o644, content).tar();
        Image::new().layer(Compression::Gzip, tree)
    };
    for name in ["a", "b"] {
        layout.put(name, &image(name));
        for tag in [name.to_owned(), format!("{name}-too")] {
            registry.push(&layout, name, &format!("{NAME}:{tag}"));
        }
    }
    layout.put_index("all", &[image("b")]);
    registry.push(&layout, "all", &format!("{NAME}:all"));
    ["a", "b", "all"].map(|name| (name, layout.digest(name))).into()
}

fn repository(registry: &Registry) -> RepoRef {
    registry.repository(NAME).parse().unwrap()
}

fn pinned(registry: &Registry, digest: &str) -> PinnedRef {
    format!("{}@{digest}", registry.repository(NAME)).parse().unwrap()
}

async fn names(client: &Client, repo: &RepoRef) -> Vec<String> {
    client.tags(repo).await.unwrap().into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_goes_with_all_its_tags() {
    for access in [Access::Anyone, Access::Basic, Access::Token] {
        let registry = Registry::start(Server::Debian, access, Transport::Http);
        let digests = fill(&registry);
        let (client, repo) = (client(&registry), repository(&registry));
        let tags = client.tags(&repo).await.unwrap();
        assert_eq!(tags.len(), 5, "{access:?}: {tags:?}");
        let manifests = BTreeSet::from([digests["a"].parse().unwrap()]);
        let named = client.tagged(&repo, &tags, &manifests).await.unwrap();
        assert_eq!(named["a-too"].digest.to_string(), digests["a"], "{access:?}");
        assert_eq!(named["b"].instances, []);
        let instances: Vec<_> = named["all"].instances.iter().map(ToString::to_string).collect();
        assert_eq!(instances, [digests["b"].clone()], "{access:?}");

        let image = pinned(&registry, &digests["a"]);
        assert_eq!(client.delete_manifest(&image).await.unwrap(), Deletion::Deleted, "{access:?}");
        assert_eq!(names(&client, &repo).await, ["all", "b", "b-too"], "{access:?}");
        assert_eq!(client.confirm(&image).await.unwrap(), None);
        assert_eq!(client.delete_manifest(&image).await.unwrap(), Deletion::Missing);
        // Others are as they were.
        let other = pinned(&registry, &digests["b"]);
        assert!(client.confirm(&other).await.unwrap().is_some());
        let none = registry.repository("acme/none").parse().unwrap();
        assert_eq!(client.tags(&none).await.unwrap(), BTreeSet::new(), "{access:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_deletion_is_told_from_missing_rights() {
    let mut registry = Registry::start(Server::Debian, Access::Token, Transport::Http);
    let digests = fill(&registry);
    let image = pinned(&registry, &digests["a"]);
    let reader = options_for(&registry, &registry.reader_authfile());
    let error = Client::new(&reader).unwrap().delete_manifest(&image).await.unwrap_err();
    assert_eq!(error.code(), "denied", "{error}");
    registry.refuse_deletion();
    match client(&registry).delete_manifest(&image).await.unwrap() {
        Deletion::Unsupported(answer) => assert!(answer.starts_with("405"), "{answer}"),
        other => panic!("{other:?}"),
    }
    assert!(client(&registry).confirm(&image).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_of_one_repository_see_each_other() {
    let registry = Registry::plain();
    let (client, repo) = (client(&registry), repository(&registry));
    for id in ["one", "other", "one"] {
        client.mark_owner(&repo, id).await.unwrap();
    }
    let tags = client.tags(&repo).await.unwrap();
    assert_eq!(tags.len(), 2, "a second mark is the first: {tags:?}");
    assert_eq!(other_owners(&tags, "one"), BTreeSet::from([&owner_tag("other")]));
    assert_eq!(other_owners(&tags, "third").len(), 2);
}

/// Answers with these pages; the link to the next has another host and path.
fn paged(pages: Vec<Vec<String>>) -> Web {
    Web::start(move |head, _| {
        let last = head.target.split_once("last=").map(|(_, last)| last.to_owned());
        let at = last.and_then(|last| last.parse().ok()).unwrap_or(0usize);
        let body = serde_json::json!({ "name": NAME, "tags": pages[at] }).to_string();
        let link = format!("<http://elsewhere.invalid/list?n=1&last={}>; rel=\"next\"", at + 1);
        let links = [("link", &*link)];
        let links = if at + 1 < pages.len() { &links[..] } else { &[] };
        vec![ServerAction::Send(reply(200, links, body.as_bytes()))]
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_of_tags_are_read() {
    let page = |range: std::ops::Range<usize>| range.map(|tag| format!("t{tag}")).collect();
    let list = |pages: Vec<Vec<String>>| async {
        let server = paged(pages);
        let repo = format!("{}/{NAME}", server.address()).parse().unwrap();
        let found = anonymous_client().tags(&repo).await;
        (found, server.seen().len())
    };
    let (found, requests) = list(vec![page(0..2), page(2..3)]).await;
    assert_eq!((found.unwrap().len(), requests), (3, 2));
    // It would never end.
    let (found, requests) = list(vec![page(0..2), page(0..2), page(2..9)]).await;
    assert!(matches!(found, Err(Error::BadAnswer { .. })), "{found:?}");
    assert_eq!(requests, 2);
    let (found, _) = list(vec![page(0..1500), page(1500..MAX_TAGS + 1)]).await;
    assert_eq!(found.unwrap_err().code(), "too-many-tags");
    let (found, _) = list(vec![vec!["../x".to_owned()]]).await;
    let error = found.unwrap_err();
    assert_eq!(error.code(), "bad-answer");
    assert!(error.to_string().contains("\"../x\", which is not a tag"), "{error}");
    let attached =
        |range: std::ops::Range<usize>| range.map(|tag| format!("sha256-{tag:064x}.sig")).collect();
    let (found, _) = list(vec![attached(0..1000), page(0..1)]).await;
    assert_eq!(found.unwrap().into_iter().collect::<Vec<_>>(), ["t0"]);
    let pages = (0..7).map(|number| attached(number * 1000..(number + 1) * 1000)).collect();
    let (found, _) = list(pages).await;
    let error = found.unwrap_err();
    assert_eq!(error.code(), "too-many-tags");
    assert!(error.to_string().contains("more than 6000 tags of attachments"), "{error}");
}
