//! The book in `docs/`: its commands are run and their output is compared, its files are those of the repository, its
//! pictures are what the commands below them draw, and its links lead somewhere. What is written in Rust is compiled by
//! `plimsoll-book`.

mod commands;
mod files;
mod links;
mod page;
mod pictures;
mod snippets;
