//! Base images the size of real ones, the same bytes every time: made once, stored beside the built
//! parts.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use mosb_image::{DiffId, Digest};
use serde_json::{Value, json};
use sha2::Sha256;
use sha2::digest::Update as _;
use tar::{Builder, EntryType, Header};

use crate::content::{Content, Random};
use mosb_tests::Layout;
use mosb_tests::parts::CRANE;

/// Raised when the bytes change.
const VERSION: u32 = 2;
/// What zlib's own default makes of an OS is not much smaller, and takes three times as long.
const LEVEL: Compression = Compression::new(4);
pub const TAG: &str = "base";

/// How big a base is.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub layers: usize,
    /// Paths, without the directories that hold the objects.
    pub paths: usize,
    /// Bytes of the files.
    pub bytes: u64,
}

/// 15 MB in a registry.
pub const SMALL: Shape = Shape { name: "small", layers: 2, paths: 1_500, bytes: 40_000_000 };

/// 40 layers, 1.6 GB in a registry: a CoreOS with its extensions.
pub const BIG: Shape = Shape { name: "big", layers: 40, paths: 100_000, bytes: 4_270_000_000 };

/// Instead of [`BIG`] while the benchmark itself is worked on.
pub const REHEARSAL: Shape =
    Shape { name: "rehearsal", layers: 40, paths: 8_000, bytes: 200_000_000 };

/// The layout of a base, with the tag [`TAG`].
pub fn layout(shape: &Shape) -> Layout {
    let crane = CRANE.directory();
    let cache = crane.parent().expect("a part lies in the cache");
    let directory = cache.join(format!("bench-base-{}-{VERSION}", shape.name));
    if !directory.exists() {
        eprintln!("making {}", directory.display());
        let fresh = tempfile::Builder::new().prefix(".making-").tempdir_in(cache).unwrap();
        make(shape, fresh.path());
        fs::rename(fresh.keep(), &directory).unwrap();
    }
    Layout::at(directory)
}

fn make(shape: &Shape, directory: &Path) {
    let blobs = directory.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut layers: Vec<(usize, Value, DiffId)> = thread::scope(|scope| {
        let work = || {
            let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            let mine = numbers.take_while(|number| *number < shape.layers);
            mine.map(|number| layer(shape, number, &blobs)).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    layers.sort_by_key(|(number, ..)| *number);
    let diff_ids: Vec<_> = layers.iter().map(|(.., diff_id)| diff_id).collect();
    let history: Vec<_> = (0..shape.layers)
        .map(|number| json!({"created_by": format!("packages {number}")}))
        .collect();
    let config = json!({
        "os": "linux", "architecture": "amd64", "created": "2026-01-01T00:00:00Z",
        "config": {"Labels": {"containers.bootc": "1", "ostree.bootable": "true"}},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": history,
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put(&blobs, "application/vnd.oci.image.config.v1+json", &config),
        "layers": layers.iter().map(|(_, layer, _)| layer).collect::<Vec<_>>(),
    });
    let mut manifest = put(&blobs, "application/vnd.oci.image.manifest.v1+json", &manifest);
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": TAG});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(directory.join("index.json"), index.to_string()).unwrap();
    fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

fn put(blobs: &Path, media_type: &str, value: &Value) -> Value {
    let bytes = value.to_string().into_bytes();
    let digest = Digest::of(&bytes);
    fs::write(blobs.join(digest.hex()), &bytes).unwrap();
    json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
}

/// Counts and hashes what goes through.
struct Hashing<W> {
    inner: W,
    sum: Sha256,
    size: u64,
}

impl<W> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, sum: Sha256::default(), size: 0 }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes a layer; its number, descriptor and diffID come back.
fn layer(shape: &Shape, number: usize, blobs: &Path) -> (usize, Value, DiffId) {
    let temporary: PathBuf = blobs.join(format!("layer-{number}"));
    let file = BufWriter::new(File::create(&temporary).unwrap());
    let gzip = GzEncoder::new(Hashing::new(file), LEVEL);
    let mut tar = Tar(Builder::new(Hashing::new(gzip)));
    if number == 0 {
        tar.skeleton();
    }
    tar.packages(shape, number);
    let unpacked = tar.0.into_inner().unwrap();
    let mut stored = unpacked.inner.finish().unwrap();
    stored.flush().unwrap();
    let digest = Digest::from_sha256(stored.sum);
    fs::rename(temporary, blobs.join(digest.hex())).unwrap();
    let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
    let descriptor = json!({"mediaType": media_type, "digest": digest, "size": stored.size});
    (number, descriptor, DiffId::from_sha256(unpacked.sum))
}

struct Tar<W: Write>(Builder<W>);

impl<W: Write> Tar<W> {
    fn add(&mut self, kind: EntryType, path: &str, mode: u32, link: &str, content: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        if link.is_empty() {
            self.0.append_data(&mut header, path, content).unwrap();
        } else {
            self.0.append_link(&mut header, path, link).unwrap();
        }
    }

    fn directory(&mut self, path: &str, mode: u32) {
        self.add(EntryType::Directory, path, mode, "", &[]);
    }

    /// What a config is judged by: links of the root, owners, units.
    fn skeleton(&mut self) {
        for path in SKELETON_DIRECTORIES {
            self.directory(path, 0o755);
        }
        self.directory("etc/sudoers.d", 0o750);
        self.directory("tmp", 0o1777);
        for number in 0..256 {
            self.directory(&format!("{OBJECTS}/{number:02x}"), 0o755);
        }
        for (path, target) in SKELETON_LINKS {
            self.add(EntryType::Symlink, path, 0o777, target, &[]);
        }
        for (path, content) in SKELETON_FILES {
            self.add(EntryType::Regular, path, 0o644, "", content.as_bytes());
        }
        for number in 0..300 {
            let path = format!("usr/lib/systemd/system/unit-{number:03}.service");
            let unit =
                "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=multi-user.target\n";
            self.add(EntryType::Regular, &path, 0o644, "", unit.as_bytes());
        }
    }

    /// As in CoreOS images: each file an object of the ostree repository, and a hard link to it
    /// where it is used.
    fn packages(&mut self, shape: &Shape, number: usize) {
        let mut random = Random::new(number as u64);
        let files = shape.paths / shape.layers * 9 / 20;
        // Layers differ in size as packages do; the middle ones get the mean.
        let share = 0.5 + number as f64 / (shape.layers.max(2) - 1) as f64;
        let budget = shape.bytes as f64 / shape.layers as f64 * share;
        // Logarithms are evenly spread, four times over: half of the files below 4 KiB, few very
        // big.
        let weights: Vec<f64> = (0..files)
            .map(|_| (0..4).map(|_| random.fraction() * 6.0).sum::<f64>().exp2())
            .collect();
        let scale = budget / weights.iter().sum::<f64>();
        let mut content = Content::new(random.next());
        let mut place = String::new();
        for (at, weight) in weights.iter().enumerate() {
            if at % 9 == 0 {
                let top = ["usr/lib", "usr/share", "usr/libexec"][at / 9 % 3];
                place = format!("{top}/package-{number:02}-{:04}", at / 9);
                self.directory(&place, 0o755);
                let link = format!("{place}/current");
                self.add(EntryType::Symlink, &link, 0o777, "file-0", &[]);
            }
            let (head, tail) = (random.next(), random.next());
            let object = format!("{OBJECTS}/{:02x}/{head:031x}{tail:031x}.file", head % 256);
            let bytes = content.take((weight * scale) as usize);
            self.add(EntryType::Regular, &object, 0o644, "", bytes);
            let path = format!("{place}/file-{}", at % 9);
            self.add(EntryType::Link, &path, 0o644, &object, &[]);
        }
    }
}

const OBJECTS: &str = "sysroot/ostree/repo/objects";

const SKELETON_DIRECTORIES: &[&str] = &[
    "etc",
    "etc/crio",
    "etc/kubernetes",
    "etc/sysctl.d",
    "etc/systemd",
    "etc/systemd/system",
    "etc/systemd/system/multi-user.target.wants",
    "run",
    "sysroot",
    "sysroot/ostree",
    "sysroot/ostree/repo",
    OBJECTS,
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/lib/systemd",
    "usr/lib/systemd/system",
    "usr/lib/systemd/system-preset",
    "usr/libexec",
    "usr/share",
    "var",
    "var/home",
    "var/lib",
    "var/usrlocal",
];

const SKELETON_LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("home", "var/home"),
    ("lib", "usr/lib"),
    ("usr/local", "../var/usrlocal"),
];

const SKELETON_FILES: &[(&str, &str)] = &[
    ("etc/group", "root:x:0:\ncore:x:1000:\n"),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:core:/var/home/core:/bin/bash\n",
    ),
    ("usr/lib/systemd/system-preset/99-default-disable.preset", "disable *\n"),
];
