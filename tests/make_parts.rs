//! `make parts`: builds the programs that the tests use; with `--fuzz` the fuzz targets too, which
//! are for x86-64.

fn main() {
    mosb_tests::parts::make_all();
    if cfg!(target_arch = "x86_64") && std::env::args().any(|word| word == "--fuzz") {
        mosb_tests::fuzz_targets();
    }
}
