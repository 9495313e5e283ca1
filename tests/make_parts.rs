//! `make parts`: builds the programs that the tests use; with `--fuzz` the fuzz targets too, which
//! are for x86-64; with `--vm` only what virtual machines boot, with `--cluster-api` only Cluster API.

fn main() {
    let asked = |flag: &str| std::env::args().any(|word| word == flag);
    if asked("--vm") {
        mosb_tests::parts::make_for_vm();
        return;
    }
    if asked("--cluster-api") {
        mosb_tests::parts::make_for_cluster_api();
        return;
    }
    mosb_tests::parts::make_all();
    if cfg!(target_arch = "x86_64") && asked("--fuzz") {
        mosb_tests::fuzz_targets();
    }
}
