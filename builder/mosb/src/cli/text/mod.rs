//! The objects as people read them: sections with a headline, columns that line up, sizes in units,
//! digests whole where one copies them.

mod bootstrap_result;
mod build_result;
mod cache;
mod diff;
mod files;
mod inspect;
mod page;
mod plan;
mod pool_status;
mod preflight;
mod render;

#[cfg(test)]
mod tests;
