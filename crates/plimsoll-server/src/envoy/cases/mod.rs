//! Tables of lookups in configurations of the reference server: the limit that a descriptor matches, its counter and its name in
//! statistics.

mod mistakes;

use std::path::PathBuf;

use super::load::load;
use super::proto::{Entry, Unit};
use super::tree::{Found, Match, Tree};

fn tree(text: &str) -> Tree {
    let file = (PathBuf::from("config.yaml"), text.to_owned());
    load(&[file], false).unwrap_or_else(|error| panic!("{error}"))
}

/// Parses entries such as `a=b,c=d`.
fn entries(text: &str) -> Vec<Entry> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let entry = |part: &str| {
        let (key, value) = part.split_once('=').expect("a key and a value");
        Entry {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    };
    parts.map(entry).collect()
}

fn find(tree: &Tree, text: &str) -> Option<Match> {
    match tree.find("d", &entries(text)) {
        Found::Limit(found) => Some(found),
        Found::Nothing => None,
        Found::NoDomain => panic!("there is this domain"),
    }
}

/// Checks the limit of each descriptor and its name in statistics; `None` is no limit.
fn check(text: &str, cases: &[(&str, Option<(u32, &str)>)]) {
    let tree = tree(text);
    for (descriptor, expected) in cases {
        let found = find(&tree, descriptor);
        let found = found.as_ref().map(|it| (it.rule.rate.limit, it.stat()));
        assert_eq!(found, *expected, "{descriptor}");
    }
}

const BASIC: &str = "
domain: d
descriptors:
  - key: key1
    value: value1
    descriptors:
      - { key: subkey1, rate_limit: { unit: second, requests_per_unit: 5 } }
      - { key: subkey1, value: subvalue1, rate_limit: { unit: SECOND, requests_per_unit: 10 } }
  - { key: key2, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: key2, value: value2, rate_limit: { unit: minute, requests_per_unit: 30 } }
  - { key: key2, value: value3 }
  - { key: key3, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: key4, rate_limit: { unit: day, requests_per_unit: 1, name: key4_rate_limit } }
  - key: key5
    value: value5
    rate_limit: { unit: day, requests_per_unit: 15 }
    descriptors:
      - { key: subkey5, value: subvalue5, rate_limit: { unit: day, requests_per_unit: 25 } }
  - { key: key6, rate_limit: { unlimited: true } }
  - { key: key7, rate_limit: { unit: minute, requests_per_unit: 70 }, detailed_metric: true }
";

#[test]
fn a_limit_is_found_exactly_as_deep_as_the_descriptor() {
    check(
        BASIC,
        &[
            ("", None),
            ("key1=something", None),
            ("key1=value1", None),
            (
                "key1=value1,subkey1=something",
                Some((5, "d.key1_value1.subkey1")),
            ),
            (
                "key1=value1,subkey1=subvalue1",
                Some((10, "d.key1_value1.subkey1_subvalue1")),
            ),
            ("key2=something", Some((20, "d.key2"))),
            ("key2=value2", Some((30, "d.key2_value2"))),
            ("key2=value3", None),
            ("key2=value2,subkey=subvalue", None),
            ("key3=foo", Some((1, "d.key3"))),
            ("key4=foo", Some((1, "d.key4"))),
            ("key5=value5", Some((15, "d.key5_value5"))),
            ("key5=value5,subkey5=subvalue", None),
            (
                "key5=value5,subkey5=subvalue5",
                Some((25, "d.key5_value5.subkey5_subvalue5")),
            ),
            ("key6=foo", Some((0, "d.key6"))),
            ("key7=x", Some((70, "d.key7_x"))),
            ("key7=", Some((70, "d.key7_"))),
            ("other=x", None),
        ],
    );
    let tree = tree(BASIC);
    assert!(matches!(
        tree.find("other", &entries("key2=a")),
        Found::NoDomain
    ));
    let named = find(&tree, "key4=foo").expect("a limit").rule;
    assert_eq!(
        (named.name.as_str(), named.rate.unit),
        ("key4_rate_limit", Unit::Day)
    );
    assert_eq!(find(&tree, "key3=foo").expect("a limit").rule.name, "");
    assert!(find(&tree, "key6=foo").expect("a limit").rule.unlimited);
}

#[test]
fn stars_stand_for_any_text_in_the_order_of_the_file() {
    let minute = "rate_limit: { unit: minute, requests_per_unit";
    let text = format!(
        "
domain: d
descriptors:
  - {{ key: wild, value: foo*, {minute}: 20 }} }}
  - {{ key: noWild, value: foo, {minute}: 21 }} }}
  - {{ key: noVal, {minute}: 22 }} }}
  - {{ key: midWild, value: bar*b, {minute}: 23 }} }}
  - {{ key: multiWild, value: foo*bar*baz, {minute}: 24 }} }}
  - key: nestedWild
    value: val1
    descriptors:
      - {{ key: wild, value: goo*, {minute}: 25 }} }}
  - {{ key: order, value: a*, {minute}: 1 }} }}
  - {{ key: order, value: ab*, {minute}: 2 }} }}
  - {{ key: order, value: abc, {minute}: 3 }} }}
  - {{ key: order, {minute}: 4 }} }}
  - {{ key: joined*, {minute}: 5 }} }}
  - {{ key: joint, value: b_c, {minute}: 6 }} }}
"
    );
    check(
        &text,
        &[
            ("wild=foo1", Some((20, "d.wild_foo*"))),
            ("wild=foo2", Some((20, "d.wild_foo*"))),
            ("wild=foo", Some((20, "d.wild_foo*"))),
            ("wild=bar", None),
            ("noWild=foo", Some((21, "d.noWild_foo"))),
            ("noWild=foo1", None),
            ("noVal=foo1", Some((22, "d.noVal"))),
            ("midWild=barab", Some((23, "d.midWild_bar*b"))),
            ("midWild=bar123b", Some((23, "d.midWild_bar*b"))),
            ("midWild=barb", Some((23, "d.midWild_bar*b"))),
            ("midWild=bara", None),
            ("midWild=xbarb", None),
            (
                "multiWild=foo123bar456baz",
                Some((24, "d.multiWild_foo*bar*baz")),
            ),
            ("multiWild=foobarbaz", Some((24, "d.multiWild_foo*bar*baz"))),
            ("multiWild=foo123baz", None),
            ("multiWild=bar456baz", None),
            (
                "nestedWild=val1,wild=goo2",
                Some((25, "d.nestedWild_val1.wild_goo*")),
            ),
            ("nestedWild=val1,wild=foo2", None),
            // The first pattern of the file rather than the longest. Exact descriptors come before patterns, the key alone after them.
            ("order=abx", Some((1, "d.order_a*"))),
            ("order=abc", Some((3, "d.order_abc"))),
            ("order=x", Some((4, "d.order"))),
            ("order=", Some((4, "d.order"))),
            // Patterns match key and value as one text.
            ("joined_key=x", Some((5, "d.joined_key_joined*"))),
            ("joint_b=c", Some((6, "d.joint_b_c"))),
        ],
    );
}

#[test]
fn counters_are_told_apart_by_what_the_configuration_does_not_say() {
    let minute = "rate_limit: { unit: minute, requests_per_unit";
    let tree = tree(&format!(
        "
domain: d
descriptors:
  - {{ key: file, value: test1, {minute}: 50 }} }}
  - {{ key: file, value: test*, {minute}: 100 }}, share_threshold: true }}
  - {{ key: files, value: files/*, {minute}: 10 }}, share_threshold: true }}
  - key: files
    value: top/*
    share_threshold: true
    descriptors:
      - {{ key: files, value: nested/*, {minute}: 10 }}, share_threshold: true }}
  - key: path
    value: path/*
    share_threshold: true
    descriptors:
      - key: file
        value: file/*
        descriptors:
          - {{ key: type, {minute}: 10 }} }}
  - {{ key: midpath, value: /api*v1, {minute}: 10 }}, share_threshold: true }}
  - {{ key: multiroute, value: svc*ep*rpc, {minute}: 10 }}, share_threshold: true }}
  - {{ key: user, {minute}: 10 }} }}
"
    ));
    let counter = |text| find(&tree, text).map(|it| (it.rule.rate.limit, it.key));
    let same = |one, other| assert_eq!(counter(one), counter(other), "{one} {other}");
    let differ = |one, other| assert_ne!(counter(one), counter(other), "{one} {other}");
    assert_eq!(counter("file=test1").map(|it| it.0), Some(50));
    same("file=test2", "file=test3");
    same("files=files/a", "files=files/b");
    same("files=top/x,files=nested/y", "files=top/z,files=nested/q");
    same(
        "path=path/foo,file=file/doc1,type=pdf",
        "path=path/bar,file=file/doc1,type=pdf",
    );
    differ(
        "path=path/foo,file=file/doc1,type=pdf",
        "path=path/foo,file=file/doc2,type=pdf",
    );
    differ(
        "path=path/foo,file=file/doc1,type=pdf",
        "path=path/foo,file=file/doc1,type=txt",
    );
    differ("user=a", "user=b");
    same("midpath=/api/v1", "midpath=/api/other/v1");
    assert_eq!(counter("midpath=/api/v2"), None);
    assert_eq!(counter("multiroute=svcABCrpc"), None);
    let shared = find(&tree, "files=files/a").expect("a limit");
    assert_eq!(shared.stat(), "d.files_files/*");
}

#[test]
fn flags_choose_what_a_limit_is_called() {
    let minute = "rate_limit: { unit: minute, requests_per_unit: 1 }";
    let chain = |flags: [&str; 3], values: [&str; 3]| {
        let key = |at: usize| match values[at] {
            "" => format!("key: k{}", at + 1),
            value => format!("key: k{}, value: {value}", at + 1),
        };
        let text = format!(
            "{{ domain: d, descriptors: [{{ {} {}, descriptors: [{{ {} {}, descriptors: [{{ {} {}, {minute} }}] }}] }}] }}",
            key(0),
            flags[0],
            key(1),
            flags[1],
            key(2),
            flags[2],
        );
        tree(&text)
    };
    let (value, detailed, shared) = (
        ", value_to_metric: true",
        ", detailed_metric: true",
        ", share_threshold: true",
    );
    let cases = [
        (
            ["", value, ""],
            ["", "", ""],
            "k1=X,k2=Y,k3=Z",
            "d.k1.k2_Y.k3",
        ),
        (["", value, ""], ["", "", ""], "k1=X,k2=,k3=Z", "d.k1.k2.k3"),
        (
            [value, value, value],
            ["", "", ""],
            "k1=X,k2=Y,k3=Z",
            "d.k1_X.k2_Y.k3_Z",
        ),
        (
            ["", value, detailed],
            ["", "", ""],
            "k1=X,k2=Y,k3=Z",
            "d.k1_X.k2_Y.k3_Z",
        ),
        (
            ["", "", ""],
            ["a", "b*", ""],
            "k1=a,k2=bc,k3=Z",
            "d.k1_a.k2_b*.k3",
        ),
        (
            ["", value, ""],
            ["a", "b*", ""],
            "k1=a,k2=bc,k3=Z",
            "d.k1_a.k2_bc.k3",
        ),
    ];
    for (flags, values, descriptor, expected) in cases {
        let tree = chain(flags, values);
        let found = find(&tree, descriptor).expect("a limit");
        assert_eq!(found.stat(), expected, "{flags:?}");
    }
    let both = format!("{shared}{value}");
    let tree = chain(["", &both, ""], ["a", "b*", ""]);
    let found = find(&tree, "k1=a,k2=bc,k3=Z").expect("a limit");
    assert_eq!(
        found.stat(),
        "d.k1_a.k2_b*.k3",
        "shared beats value_to_metric"
    );
    let tree = chain(["", shared, detailed], ["a", "b*", ""]);
    let found = find(&tree, "k1=a,k2=bc,k3=Z").expect("a limit");
    assert_eq!(
        found.stat(),
        "d.k1_a.k2_b*.k3_Z",
        "shared beats detailed_metric"
    );
}
