//! The language of files: what is right, what is wrong, what is said of it, and what it comes to.

mod all_mistakes;
mod bad_files;
mod durations;
mod fuzz;
mod good_files;
mod hostile_files;
mod large_files;
mod reference;
mod routes;
mod schema;
mod several_files;
mod short_forms;
mod uses;
mod valid;
mod warnings;
