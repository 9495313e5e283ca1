//! `make parts`: builds the programs that the tests use.

fn main() {
    mosb_tests::parts::make_all();
}
