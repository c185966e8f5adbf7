//! Limit algorithms that are chosen by name.

#[test]
fn limits_by_name() {
    let table = [
        ("aimd", "", 20),
        ("vegas", "{ initial: 7 }", 7),
        ("gradient2", "{\"min\": 1, \"initial\": 3}", 3),
        ("latency_gradient", "min: 1\ninitial: 2", 2),
        (
            "windowed",
            "delegate: { algorithm: windowed, delegate: { algorithm: vegas, initial: 9 } }",
            9,
        ),
    ];
    for (name, parameters, limit) in table {
        assert_eq!(
            plimsoll_spec::limit(name, parameters).unwrap().limit(),
            limit
        );
    }
    let table = [
        (
            "vega",
            "",
            "limit:1:1: algorithm: unknown word \"vega\", did you mean `vegas`?",
        ),
        (
            "a\nb",
            "",
            "limit:1:1: algorithm: unknown word \"a\\nb\", known are aimd, vegas, gradient2, latency_gradient, verdict, windowed",
        ),
        (
            "",
            "",
            "limit:1:1: algorithm: expected a word or a text, found the text \"\"",
        ),
        (
            "aimd",
            "{ algorithm: vegas }",
            "limit:1:3: algorithm: this is not a parameter but the name",
        ),
        (
            "aimd",
            "[1]",
            "limit:1:1: expected a map of parameters such as { initial: 20 }, found a list",
        ),
        (
            "aimd",
            "max: 9",
            "limit:1:6: max: expected at least the minimum, found 9",
        ),
        ("aimd", "{", "limit:1:1: not YAML: unclosed bracket '{'"),
    ];
    for (name, parameters, message) in table {
        let error = plimsoll_spec::limit(name, parameters).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}
