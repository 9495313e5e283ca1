mod bring_files;
mod bring_pull_secret;
mod compare_images;
mod decision;
mod keep_changes;
mod kill;
mod machine;
