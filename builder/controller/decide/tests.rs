mod property;
mod rows;
mod world;
