//! Routes, who clients are, and what is answered, as a file says it.

use plimsoll_config::uses::{AnswerSpec, PrioritySpec};
use plimsoll_config::{Config, Format, HeaderMatch};

#[track_caller]
fn config(text: &str) -> Config {
    let config = Config::from_str("a.yaml", text, Format::Yaml);
    config.unwrap_or_else(|error| panic!("{error}"))
}

const FILE: &str = "
limits: { a: 1/s, b: 2/s, c: { concurrency: 3 }, bytes: 10M/s }
providers: { p: { request_count: a, network_bytes: bytes } }
middleware: { list: [p, b] }
proxies: [10.0.0.0/8, '::1', 192.0.2.7]
ipv6_prefix: 56
client: { header: CF-Connecting-IP }
answer: { status: 503, body: later }
routes:
  - name: login
    match: [/login, /sessions/*]
    methods: [POST, PUT]
    hosts: [example.com, '*.Example.org']
    headers: { X-Debug: '1', x-trace: present }
    middleware: list
    limits: [c]
    priority: critical
    answer: { problem: { title: slow down } }
  - { match: /health, limits: [] }
  - { match: /**, limits: c, bytes: bytes, priority: header:x-priority }
";

#[test]
fn everything_a_route_says_is_there() {
    let config = config(FILE);
    let [login, health, rest] = config.route_specs() else {
        panic!("{:?}", config.route_specs());
    };
    assert_eq!(
        (login.label(), health.label(), rest.label()),
        ("login", "/health", "/**")
    );
    let paths: Vec<&str> = login
        .patterns
        .iter()
        .map(|pattern| pattern.as_str())
        .collect();
    assert_eq!(paths, ["/login", "/sessions/*"]);
    assert_eq!(login.methods, ["POST", "PUT"]);
    assert!(
        login
            .hosts
            .iter()
            .any(|host| host.matches("a.example.org:443"))
    );
    let wanted = [
        ("x-debug".to_owned(), HeaderMatch::Is("1".to_owned())),
        ("x-trace".to_owned(), HeaderMatch::Present),
    ];
    assert_eq!(login.headers, wanted);
    assert_eq!(login.limits, ["p", "b", "c"]);
    assert_eq!(
        login.priority,
        Some(PrioritySpec::Constant(plimsoll::Priority::Critical))
    );
    assert!(
        login
            .answer
            .as_ref()
            .is_some_and(|answer| answer.problem.is_some())
    );
    assert!(!login.is_by_path() && health.is_by_path());
    assert_eq!(health.limits, Vec::<String>::new());
    assert_eq!((rest.bytes.as_deref(), rest.holds), (Some("bytes"), true));
    let client = config.client();
    let proxies: Vec<String> = client.proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "::1/128", "192.0.2.7/32"]);
    assert_eq!(
        (client.ipv6_prefix, client.header.as_deref()),
        (56, Some("cf-connecting-ip"))
    );
    assert_eq!(
        config
            .answer()
            .and_then(|answer: &AnswerSpec| answer.body.as_deref()),
        Some("later")
    );
    assert_eq!(config.warnings().collect::<Vec<_>>(), Vec::<String>::new());
    let printed = config.to_string();
    let again = self::config(&printed);
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.route_specs(), config.route_specs());
}

#[test]
fn a_path_alone_does_not_find_routes_that_ask_for_more() {
    let limits = config(FILE)
        .build(&plimsoll::Clock::system())
        .expect("builds");
    let pattern = |path| limits.route(path).map(|route| route.pattern().to_owned());
    assert_eq!(pattern("/login").as_deref(), Some("/**"));
    assert_eq!(pattern("/health").as_deref(), Some("/health"));
}

#[test]
fn without_a_word_about_clients_there_are_defaults() {
    let client = config("limits: {}").client();
    assert_eq!(
        (client.proxies.len(), client.ipv6_prefix, client.header),
        (0, 64, None)
    );
}
