//! Starts the program; everything is called from `cli`.

fn main() {}
