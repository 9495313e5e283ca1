//! What a hostile `RUN` line found, read in the image that it made.

use std::fs;

use tempfile::TempDir;

use crate::test_cluster::Cluster;
use mosb_tests::Layout;

/// What the topmost layer of an image has in `/usr/share/found`.
pub struct Found {
    folder: TempDir,
}

impl Found {
    pub fn of(cluster: &Cluster, image: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::at(folder.path().join("layout"));
        let name = image.strip_prefix(&cluster.node.registry().repository("")).unwrap();
        cluster.node.registry().pull(name, &layout.reference("i"));
        let top = layout.layers("i").pop().unwrap();
        tar::Archive::new(top).unpack(folder.path().join("top")).unwrap();
        Self { folder }
    }

    pub fn read(&self, name: &str) -> String {
        let path = self.folder.path().join("top/usr/share/found").join(name);
        let bytes = fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The same by lines.
    pub fn table(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// All files together.
    pub fn all(&self) -> String {
        let files = fs::read_dir(self.folder.path().join("top/usr/share/found")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.map(|name| self.read(&name)).collect()
    }
}
