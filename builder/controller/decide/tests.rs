mod failure;
mod others;
mod property;
mod reuse;
mod rows;
mod server;
mod world;
