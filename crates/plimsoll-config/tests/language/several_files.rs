//! Configurations of several files, with anchors, and with values from the environment.

use std::fs;
use std::path::PathBuf;

use plimsoll_config::{Config, ConfigError, Format};

/// A directory with files in it.
struct Dir(PathBuf);

impl Dir {
    fn of(test: &str, files: &[(&str, &str)]) -> Self {
        let name = format!("plimsoll-files-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        for (name, text) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("written");
        }
        Self(dir)
    }

    fn read(&self) -> Result<Config, ConfigError> {
        Config::from_file(self.0.join("main.yaml"))
    }

    /// What is said, without the directory.
    #[track_caller]
    fn said(&self) -> Vec<String> {
        let error = self.read().expect_err("wrong");
        let here = format!("{}/", self.0.display());
        error.lines().map(|line| line.replace(&here, "")).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn sections_of_several_files_are_put_together() {
    let dir = Dir::of(
        "together",
        &[
            (
                "main.yaml",
                "include: [more/base.toml, more/other.json]\nlimits: { a: 1/s }\nroutes: [{ match: /a, limits: a }]\n",
            ),
            (
                "more/base.toml",
                "include = 'deep.yaml'\n[limits]\nb = '2/s'\n[[routes]]\nmatch = '/b'\nlimits = ['a', 'b']\n",
            ),
            (
                "more/deep.yaml",
                "limits: { c: 3/s }\nproxies: [10.0.0.1]\n",
            ),
            (
                "more/other.json",
                r#"{ "limits": { "d": "4/s" }, "routes": [{ "match": "/**", "limits": ["c", "d"] }] }"#,
            ),
        ],
    );
    let config = dir.read().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.limiters().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    let routes: Vec<&str> = config
        .route_specs()
        .iter()
        .map(|route| route.label())
        .collect();
    assert_eq!(
        routes,
        ["/a", "/b", "/**"],
        "those of the file itself are asked first"
    );
    let files: Vec<String> = config
        .files()
        .iter()
        .map(|file| {
            file.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(files, ["main.yaml", "base.toml", "deep.yaml", "other.json"]);
    let printed = config.to_string();
    let again = Config::from_str("x.yaml", &printed, Format::Yaml)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.to_string(), printed, "printed it is one file");
}

#[test]
fn mistakes_are_told_with_the_file_they_are_in() {
    let dir = Dir::of(
        "mistakes",
        &[
            (
                "main.yaml",
                "include: [b.yaml, gone.yaml, dir.yaml, b.yaml, text.yaml, list.yaml]\nlimits:\n  a: 1/s\n  x: 1/z\nanswer: { body: a }\n",
            ),
            (
                "b.yaml",
                "limits:\n  b: { rate: 5/s, brust: 3 }\n  a: 2/s\nanswer: { body: b }\n",
            ),
            ("dir.yaml/x", ""),
            ("text.yaml", "limits: [\n"),
            ("list.yaml", "[a]\n"),
        ],
    );
    let said = dir.said();
    for (said, wanted) in said.iter().zip([
        "main.yaml:1:19: include: gone.yaml cannot be read: No such file or directory",
        "main.yaml:1:30: include: dir.yaml cannot be read: Is a directory",
        "main.yaml:1:40: include: \"b.yaml\" is included twice: first in line 1",
        "main.yaml:4:6: limits.x: expected a rate",
        "b.yaml:2:19: limits.b.brust: unknown field of the limiter `token_bucket`, did you mean `burst`?",
        "b.yaml:3:3: limits.a: the name `a` is here twice: first in line 3 of main.yaml",
        "b.yaml:4:1: answer: this is said twice: first in line 5 of main.yaml",
        "text.yaml:1:9: not YAML",
        "list.yaml:1:1: expected a configuration file: a map with `limits` or `limiters`, found a list",
    ]) {
        assert!(said.starts_with(wanted), "expected {wanted}\nfound    {said}");
    }
    assert_eq!(said.len(), 9, "{said:#?}");
}

#[test]
fn files_that_include_each_other_are_told_of() {
    let dir = Dir::of(
        "cycle",
        &[
            ("main.yaml", "include: sub/a.yaml\nlimits: {}\n"),
            ("sub/a.yaml", "include: [b.yaml]\nlimits: {}\n"),
            ("sub/b.yaml", "limits: {}\ninclude: [../sub/a.yaml]\n"),
        ],
    );
    let said = dir.said();
    assert_eq!(
        said,
        ["sub/b.yaml:2:11: include: a cycle: sub/a.yaml -> sub/b.yaml -> sub/a.yaml"]
    );
}

#[test]
fn included_files_are_bounded_and_must_be_text() {
    let dir = Dir::of(
        "bounded",
        &[(
            "main.yaml",
            "include: [bytes.yaml, large.yaml, again.yaml]\n",
        )],
    );
    fs::write(dir.0.join("bytes.yaml"), b"limits:\n  a\xff: 1/s\n").expect("written");
    fs::write(dir.0.join("large.yaml"), vec![b'#'; 9 << 20]).expect("written");
    fs::write(dir.0.join("again.yaml"), vec![b'#'; 9 << 20]).expect("written");
    assert_eq!(
        dir.said(),
        [
            "main.yaml:1:35: include: the files are larger than 16 MiB together",
            "bytes.yaml:2:4: this is not UTF-8 text",
            "large.yaml:1:1: expected a configuration file: a map with `limits` or `limiters`, found nothing",
        ]
    );
    let many: Vec<String> = (0..70).map(|at| format!("f{at}.yaml")).collect();
    let files: Vec<(&str, &str)> = many
        .iter()
        .map(|name| (name.as_str(), "limits: {}\n"))
        .collect();
    let main = format!("include: [{}]\n", many.join(", "));
    let dir = Dir::of(
        "many",
        &[&[("main.yaml", main.as_str())], files.as_slice()].concat(),
    );
    let said = dir.said();
    assert_eq!(said.len(), 7, "{said:#?}");
    assert!(
        said[0].ends_with("include: more than 64 files in one configuration"),
        "{said:#?}"
    );
}

#[test]
fn an_included_name_is_in_one_namespace_with_others() {
    let dir = Dir::of(
        "names",
        &[
            (
                "main.yaml",
                "include: b.yaml\nlimits: { a: 1/s, c: { rate: 1/s, name: b } }\n",
            ),
            ("b.yaml", "limiters: { a: 1/s, b: 2/s }\n"),
        ],
    );
    assert_eq!(
        dir.said(),
        [
            "main.yaml:2:11: limits.a: the name `a` is here twice: first in line 1 of b.yaml, in `limiters`",
            "main.yaml:2:41: limits.c.name: the name `b` is here twice: first in line 1 of b.yaml",
        ]
    );
}

#[test]
fn anchors_merge_and_may_stand_in_a_place_of_their_own() {
    let text = "
x-common: &common { key: client, max_keys: 7 }
x-slow: &slow { rate: 1/s, burst: 9 }
limits:
  a: { <<: *common, rate: 5/s }
  b: { <<: [*slow, *common], burst: 3 }
";
    let config =
        Config::from_str("a.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"));
    let long = "
limits:
  a: { key: client, max_keys: 7, rate: 5/s }
  b: { rate: 1/s, burst: 3, key: client, max_keys: 7 }
";
    let long = Config::from_str("a.yaml", long, Format::Yaml).expect("right");
    assert_eq!(config.to_string(), long.to_string());
    let wrong = Config::from_str(
        "a.yaml",
        "limits: { a: { <<: 5, rate: 1/s } }",
        Format::Yaml,
    );
    let said = wrong.expect_err("no map").to_string();
    assert!(
        said.starts_with("a.yaml:1:20: limits.a.<<: expected a map")
            || said.contains("expected a map whose fields"),
        "{said}"
    );
}

/// Of the environment only what cargo sets is known here; `plimsoll check` is tested with more.
#[test]
fn values_come_from_the_environment() {
    let text = "limits: { a: '${CARGO_PKG_VERSION_MAJOR}${PLIMSOLL_NOT_SET:-5}/s' }\n";
    let config =
        Config::from_str("a.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.to_string().contains("refill: "), "{config}");
    let json = r#"{ "limits": { "a": { "concurrency": "${PLIMSOLL_NOT_SET:-5}" } } }"#;
    let config =
        Config::from_str("a.json", json, Format::Json).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.to_string().contains("limit: 5"), "{config}");
    let text = "limits:\n  a: { rate: '${PLIMSOLL_NOT_SET}', brust: 1 }\n  b: { concurrency: '${CARGO_PKG_NAME}' }\n";
    let error = Config::from_str("a.yaml", text, Format::Yaml).expect_err("not set");
    let said: Vec<String> = error.lines().collect();
    assert_eq!(
        said,
        [
            "a.yaml:2:14: limits.a.rate: the environment variable PLIMSOLL_NOT_SET is not set",
            "a.yaml:2:37: limits.a.brust: unknown field of the limiter `token_bucket`, did you mean `burst`?",
            "a.yaml:3:21: limits.b.concurrency: expected how many at the same time, or `adaptive`, found \"${CARGO_PKG_NAME}\"",
        ]
    );
}

#[cfg(feature = "redis")]
#[test]
fn addresses_of_stores_come_from_elsewhere_and_are_never_shown() {
    let dir = Dir::of(
        "secret",
        &[
            ("url", "redis://anna:hunter2@h:1/3\n"),
            ("bad", "postgres://anna:hunter2@h\n"),
        ],
    );
    let file = |name: &str| dir.0.join(name).display().to_string();
    let text = format!(
        "stores:\n  a: {{ url: {{ file: {} }} }}\n  b: {{ cluster: [{{ file: {} }}] }}\n  c: {{ url: '${{PLIMSOLL_NOT_SET:-redis://anna:hunter2@h}}' }}\n",
        file("url"),
        file("url")
    );
    let config =
        Config::from_str("a.yaml", &text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"));
    let printed = config.to_string();
    assert!(
        printed.contains(&format!("{{ url: {{ file: \"{}\" }}", file("url"))),
        "{printed}"
    );
    for shown in [&printed, &format!("{config:?}")] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let text = format!(
        "stores:\n  a: {{ url: {{ file: {} }} }}\n  b: {{ url: {{ env: PLIMSOLL_NOT_SET }} }}\n  c: {{ url: {{ env: A, file: b }} }}\n  d: {{ cluster: [{{ file: /no/such/file }}] }}\n  e: {{ url: '${{PLIMSOLL_NOT_SET:-postgres://anna:hunter2@h}}' }}\n",
        file("bad")
    );
    let error = Config::from_str("a.yaml", &text, Format::Yaml).expect_err("wrong");
    let said: Vec<String> = error.lines().collect();
    assert_eq!(said.len(), 5, "{said:#?}");
    for (said, wanted) in said.iter().zip([
        "a.yaml:2:13: stores.a.url: expected the address of a Redis",
        "a.yaml:3:13: stores.b.url: no secret in the environment variable PLIMSOLL_NOT_SET: it is not set",
        "a.yaml:4:13: stores.c.url: expected where the address is: either `env` or `file`",
        "a.yaml:5:18: stores.d.cluster[0]: no secret in the file /no/such/file: No such file",
        "a.yaml:6:13: stores.e.url: expected the address of a Redis",
    ]) {
        assert!(said.starts_with(wanted), "expected {wanted}\nfound    {said}");
    }
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
}
