//! `make parts`: builds the programs that the tests use; with `--fuzz` the fuzz targets too, which
//! are for x86-64, with `--cluster-api` Cluster API, with `--test-all` what only tests of `make test-all`
//! need, with `--vm` what virtual machines boot, and with `--only-vm` nothing else.

fn main() {
    let asked = |flag: &str| std::env::args().any(|word| word == flag);
    if !asked("--only-vm") {
        mosb_tests::parts::make_all();
    }
    if asked("--vm") || asked("--only-vm") {
        mosb_tests::parts::make_for_vm();
    }
    if asked("--cluster-api") {
        mosb_tests::parts::make_for_cluster_api();
    }
    if asked("--test-all") {
        mosb_tests::parts::make_for_test_all();
    }
    if cfg!(target_arch = "x86_64") && asked("--fuzz") {
        mosb_tests::fuzz_targets();
    }
}
