//! `ostree-ext`'s own command line: `ostree-ext-cli container encapsulate …`, `container image pull …`.

fn main() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(ostree_ext::cli::run_from_iter(std::env::args_os()))?;
    Ok(())
}
