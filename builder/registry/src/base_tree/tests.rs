use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::store::BlobStream;
use mosb_image::DiffId;
use mosb_image::packages::Installed;
use mosb_image::tree::retained;

#[derive(Debug)]
enum RequestError {
    Layer(Error),
    Cut,
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Layer(error)
    }
}

/// Blobs in memory, in pieces of 1000 bytes; one of them may be cut, or never end.
#[derive(Debug, Default)]
struct Memory {
    blobs: HashMap<Digest, Vec<u8>>,
    cut: Option<Digest>,
    endless: bool,
    opened: AtomicUsize,
}

impl Blobs for Memory {
    type Error = RequestError;

    async fn open(
        &self,
        blob: &Digest,
        range: Range<u64>,
    ) -> Result<BlobStream<RequestError>, RequestError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let range = range.start as usize..range.end as usize;
        let bytes = &self.blobs[blob][range];
        let mut pieces: Vec<_> =
            bytes.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        if self.cut == Some(*blob) {
            pieces.truncate(1);
            pieces.push(Err(RequestError::Cut));
        }
        if self.endless {
            pieces.truncate(1);
            return Ok(stream::iter(pieces).chain(stream::pending()).boxed());
        }
        Ok(stream::iter(pieces).boxed())
    }
}

impl Memory {
    fn add(&mut self, tar: &[u8]) -> Layer {
        let mut blob = Vec::new();
        let said = mosb_image::gzip::compress(tar, &mut blob).unwrap();
        self.blobs.insert(said.digest, blob);
        Layer {
            media_type: "application/vnd.oci.image.layer.v1.tar+gzip".to_owned(),
            digest: said.digest,
            size: said.size,
            diff_id: said.diff_id,
            annotations: BTreeMap::new(),
        }
    }
}

fn tar(files: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content, link) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        match *link {
            "" => {
                tar.append_data(&mut header, path, content.as_bytes()).unwrap();
            }
            link => {
                header.set_entry_type(tar::EntryType::Link);
                tar.append_link(&mut header, path, link).unwrap();
            }
        }
    }
    tar.into_inner().unwrap()
}

fn base() -> (Memory, Vec<Layer>) {
    let mut memory = Memory::default();
    let object = format!("{}/aa/bb.file", retained::OSTREE_OBJECTS);
    let mut layers: Vec<Layer> = (0..20)
        .map(|n| {
            let name = format!("usr/share/{n}");
            let noise = (0..3000 * n)
                .map(|i| char::from(b'a' + (i % 1009 * i % 23) as u8))
                .collect::<String>();
            memory.add(&tar(&[(&name, &noise, ""), ("etc/last", &name, "")]))
        })
        .collect();
    layers.push(memory.add(&tar(&[(&object, "odd text of a unit", "")])));
    let unit = "usr/lib/systemd/system/a.service";
    layers.push(memory.add(&tar(&[(unit, "", &object), ("etc/passwd", "root:", "")])));
    (memory, layers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layers_are_read_concurrently_and_applied_in_order() {
    let (memory, layers) = base();
    let count = layers.len();
    let (tree, opened) = tokio::spawn(async move {
        let tree = compute(&memory, &layers).await.unwrap();
        (tree, memory.opened.load(Ordering::Relaxed))
    })
    .await
    .unwrap();
    assert_eq!(tree.children("usr/share").len(), 20);
    assert_eq!(tree.get("etc/last").unwrap().size, 12);
    assert_eq!(tree.content("etc/passwd"), Some(&b"root:"[..]));
    let unit = tree.content("usr/lib/systemd/system/a.service");
    assert_eq!(unit, Some(&b"odd text of a unit"[..]));
    assert_eq!(tree.children(retained::OSTREE_OBJECTS), []);
    assert_eq!(opened, count + 1, "the layer of the odd unit is read twice");
}

#[tokio::test]
async fn tables_of_contents_replace_reading_layers() {
    let big = "x".repeat(100_000);
    let more = " more\n".repeat(100_000);
    let packages =
        format!("Package: a\nVersion: 1\n\nPackage: b\nDescription: b\n{more}Version: 2\n");
    let files = [
        ("etc/passwd", "root:"),
        ("usr/share/big", &big),
        ("var/lib/dpkg/status", &packages),
        ("etc/group", "root:x:"),
    ];
    let (blob, layer) = mosb_image::layer::chunked(&files);
    // Were all of the blob read, this would show: only what is asked for is right.
    let mut memory = Memory::default();
    memory.blobs.insert(layer.digest, blob);
    let layers = [Layer { diff_id: DiffId::of(b"never computed"), ..layer }];
    let tree = compute(&memory, &layers).await.unwrap();
    assert_eq!(tree.content("etc/passwd"), Some(&b"root:"[..]));
    assert_eq!(tree.content("etc/group"), Some(&b"root:x:"[..]));
    assert_eq!(tree.get("usr/share/big").unwrap().size, 100_000);
    let names: Vec<_> = Installed::of(&tree).packages.iter().map(|it| it.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn bad_layers_are_the_error() {
    for (what, change) in [
        ("diffID", (|_, layer| layer.diff_id = DiffId::of(b"")) as fn(&mut Memory, &mut Layer)),
        ("size", |_, layer| layer.size -= 1),
        ("media type", |_, layer| layer.media_type.clear()),
        ("cut", |memory, layer| memory.cut = Some(layer.digest)),
    ] {
        let (mut memory, mut layers) = base();
        change(&mut memory, &mut layers[7]);
        let want = layers[7].digest;
        match (what, compute(&memory, &layers).await.unwrap_err()) {
            ("diffID", RequestError::Layer(Error::DiffId { layer, .. }))
            | ("size", RequestError::Layer(Error::Digest { layer, .. }))
            | ("media type", RequestError::Layer(Error::MediaType { layer, .. })) => {
                assert_eq!(layer, want, "{what}");
            }
            ("cut", RequestError::Cut) => {}
            (_, other) => panic!("{what}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn too_large_images_are_rejected_before_reading() {
    let (memory, mut layers) = base();
    layers[1].size = 1 << 40;
    let huge = layers.clone();
    let (_, layers) = base();
    let many: Vec<Layer> = layers.iter().cycle().take(513).cloned().collect();
    for (what, layers, want) in [
        ("bytes", huge, "bytes in its layers, and no more than 68719476736 are"),
        ("layers", many, "513 layers, and no more than 512 are read"),
    ] {
        match compute(&memory, &layers).await.unwrap_err() {
            RequestError::Layer(error @ Error::Limit { .. }) => {
                assert!(error.to_string().contains(want), "{what}: {error}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert_eq!(memory.opened.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn dropping_it_ends_the_threads() {
    let (mut memory, layers) = base();
    memory.endless = true;
    let cancelled =
        tokio::time::timeout(std::time::Duration::from_millis(50), compute(&memory, &layers));
    assert!(cancelled.await.is_err());
    // The runtime waits for its blocking threads when it is dropped: a thread that stays would hang this test.
}

/// Of these layers the first `count` are also those of the image below.
async fn extended(memory: &Memory, layers: &[Layer], count: usize) -> (BaseTree, BaseTree, usize) {
    let below = compute(memory, &layers[..count]).await.unwrap();
    let all = compute(memory, layers).await.unwrap();
    let before = memory.opened.load(Ordering::Relaxed);
    let below = Below { tree: &below, layers: &layers[..count] };
    let extended = extend(memory, below, layers).await.unwrap();
    (extended, all, memory.opened.load(Ordering::Relaxed) - before)
}

#[tokio::test]
async fn only_the_layers_on_top_are_read() {
    let (mut memory, mut layers) = base();
    let below = layers.len();
    layers.push(memory.add(&tar(&[
        ("etc/passwd", "root:x", ""),
        ("etc/other-name", "", "etc/passwd"),
        ("usr/share/0/no-file-any-more", "x", ""),
    ])));
    layers.push(memory.add(&tar(&[("usr/lib/systemd/system/b.service", "odd text", "")])));
    for count in [below, below + 1, below + 2, 0] {
        let (extended, all, opened) = extended(&memory, &layers, count).await;
        assert_eq!(extended, all, "{count}");
        if count >= below {
            assert_eq!(opened, below + 2 - count, "{count}");
        }
    }
}

#[tokio::test]
async fn layers_are_read_without_what_is_below() {
    let (mut memory, mut layers) = base();
    let below = layers.len();
    layers.push(memory.add(&tar(&[("etc/os-release", "ID=a", ""), ("etc/passwd", "root:x", "")])));
    let all = compute(&memory, &layers).await.unwrap();
    let before = memory.opened.load(Ordering::Relaxed);
    let read = read_on_top(&memory, None, &layers[below..]).await.unwrap().unwrap();
    assert_eq!(memory.opened.load(Ordering::Relaxed) - before, 1);
    assert_eq!(read.content("etc/os-release"), all.content("etc/os-release"));
    assert!(all.paths() > read.paths());
}

#[tokio::test]
async fn all_layers_are_read_unless_top_suffices() {
    let (mut memory, mut layers) = base();
    let below = layers.len();
    // The object is in no base tree.
    let object = format!("{}/aa/bb.file", retained::OSTREE_OBJECTS);
    let unit = "usr/lib/systemd/system/b.service";
    layers.push(memory.add(&tar(&[(unit, "", &object)])));
    let (extended, all, opened) = extended(&memory, &layers, below).await;
    assert_eq!(extended, all);
    assert_eq!(opened, 1 + below + 1 + 1, "all, and one again for the odd unit");
    assert_eq!(extended.content(unit), Some(&b"odd text of a unit"[..]));

    let tree = compute(&memory, &layers[..below]).await.unwrap();
    for tree in [Some(&tree), None] {
        let read = read_on_top(&memory, tree, &layers[below..]).await.unwrap();
        assert!(read.is_none(), "{read:?}");
    }

    // Not an image on top of the other one.
    let other = memory.add(&tar(&[("etc/other", "", "")]));
    let below = Below { tree: &all, layers: &[other] };
    assert_eq!(extend(&memory, below, &layers).await.unwrap(), all);
    let more = [&layers[..], &layers[..1]].concat();
    let below = Below { tree: &BaseTree::default(), layers: &more };
    assert_eq!(extend(&memory, below, &layers).await.unwrap(), all);
}

#[tokio::test]
async fn limits_count_the_layers_below_too() {
    let (mut memory, layers) = base();
    let tree = compute(&memory, &layers).await.unwrap();
    let layer = memory.add(&tar(&[("etc/x", "", "")]));
    let many = vec![layer; mosb_image::layer::MAX_LAYERS];
    let most = [&layers[..], &many[layers.len()..]].concat();
    let below = Below { tree: &tree, layers: &layers };
    assert!(extend(&memory, below, &most).await.is_ok());
    let more = [&layers[..], &many[layers.len() - 1..]].concat();
    let error = extend(&memory, below, &more).await.unwrap_err();
    assert!(matches!(error, RequestError::Layer(Error::Limit { .. })), "{error:?}");
}
