//! Compiles what the book in `docs/` shows in Rust, page by page, as doctests. The programs that a page shows as a whole are
//! the examples of this crate, and `tests/programs` runs them.

macro_rules! pages {
    ($($name:ident: $page:literal),* $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../docs/", $page))]
            mod $name {}
        )*

        /// All of them, for the test that none is missing.
        pub const PAGES: &[&str] = &[$($page),*];
    };
}

pages! {
    readme: "../README.md",
    start_axum: "start/axum.md",
    howto_batch_jobs: "howto/batch-jobs.md",
    howto_load_shedding: "howto/load-shedding.md",
    howto_log_ins: "howto/log-ins.md",
    howto_outbound: "howto/outbound.md",
    howto_queues: "howto/queues.md",
    howto_testing: "howto/testing.md",
    howto_uploads: "howto/uploads.md",
    migrate_bucket4j: "migrate/bucket4j.md",
    migrate_dotnet: "migrate/dotnet.md",
    migrate_governor: "migrate/governor.md",
    migrate_guava: "migrate/guava.md",
    migrate_resilience4j: "migrate/resilience4j.md",
    migrate_tower_governor: "migrate/tower_governor.md",
    understand_exactness: "understand/exactness.md",
    understand_fairness: "understand/fairness.md",
}
