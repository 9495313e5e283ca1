//! `make parts`: builds the programs that the tests use; with `--fuzz` the fuzz targets too.

fn main() {
    mosb_tests::parts::make_all();
    if std::env::args().any(|word| word == "--fuzz") {
        mosb_tests::fuzz_targets();
    }
}
