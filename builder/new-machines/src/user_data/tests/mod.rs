//! The decision about the user data of a pool, and what it writes.

mod decided;
mod fixture;
mod join_tokens;
mod observed;
mod refused;
mod served;
