//! Variables of the environment in the values of a file: `${NAME}` and `${NAME:-default}`.

use crate::problem::{Problem, label, quote};
use crate::tree::{Node, Value, Written};

/// Substitutes `${NAME}` and `${NAME:-default}` in all values below `node` by what `variable` returns.
///
/// The default applies if a variable is unset or empty. `$${` is an escaped `${`. Names of fields are not changed.
///
/// A value that is one variable and nothing else is read as an unquoted text, so that numbers can come from the environment in
/// JSON and TOML too. Messages show the value as it is in the file.
///
/// ```
/// use plimsoll_spec::{Queue, Units, document, read_one, substitute_variables};
///
/// let mut root = document("{ bound: \"${BOUND:-10}\" }", "a queue")?;
/// let problems = substitute_variables(&mut root, &|name| match name {
///     "BOUND" => Ok(Some("25".to_owned())),
///     _ => Ok(None),
/// });
/// assert!(problems.is_empty());
/// assert_eq!(read_one::<Queue>(&root, Units::Required)?.bound, 25);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
///
/// # Errors
///
/// Returns a problem for each variable that is unset without a default, is malformed, or for which `variable` returns an error.
/// Their values are not changed.
pub fn substitute_variables(
    node: &mut Node,
    variable: &dyn Fn(&str) -> Result<Option<String>, String>,
) -> Vec<Problem> {
    match &mut node.value {
        Value::Scalar { text, quoted } if text.contains("${") => match filled(text, variable) {
            Err(message) => vec![Problem::new(node.place, message)],
            Ok((filled, whole)) => {
                let written = std::mem::replace(text, filled);
                *quoted &= !whole;
                node.written = Some(Box::new(Written::Text(written)));
                Vec::new()
            }
        },
        Value::Scalar { .. } => Vec::new(),
        Value::List(items) => {
            let items = items.iter_mut().enumerate();
            let problems = items.flat_map(|(index, item)| {
                let problems = substitute_variables(item, variable).into_iter();
                problems.map(move |problem| problem.under_index(index))
            });
            problems.collect()
        }
        Value::Map(entries) => {
            let problems = entries.iter_mut().flat_map(|entry| {
                let problems = substitute_variables(&mut entry.value, variable).into_iter();
                let key = label(&entry.key);
                problems.map(move |problem| problem.under_key(&key))
            });
            problems.collect()
        }
    }
}

/// A text with its variables substituted, and whether it was a single variable.
fn filled(
    text: &str,
    variable: &dyn Fn(&str) -> Result<Option<String>, String>,
) -> Result<(String, bool), String> {
    let mut filled = String::new();
    let mut rest = text;
    let mut whole = false;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        let Some(end) = rest[at..].find('}') else {
            let message = "expected a variable such as ${NAME} or ${NAME:-default}";
            return Err(format!("{message}, found {}", quote(&rest[at..])));
        };
        let inside = &rest[at + 2..at + end];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            let found = quote(&rest[at..=at + end]);
            return Err(format!(
                "expected a variable such as ${{NAME}} or ${{NAME:-default}}, found {found}"
            ));
        }
        whole = at == 0 && end + 1 == text.len();
        filled.push_str(&rest[..at]);
        match (variable(name)?, default) {
            (Some(value), _) if !value.is_empty() => filled.push_str(&value),
            (_, Some(default)) => filled.push_str(default),
            (Some(_), None) => {}
            (None, None) => return Err(format!("the environment variable {name} is not set")),
        }
        rest = &rest[at + end + 1..];
    }
    filled.push_str(rest);
    Ok((filled, whole))
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn known(name: &str) -> Result<Option<String>, String> {
        match name {
            "ONE" => Ok(Some("1".to_owned())),
            "EMPTY" => Ok(Some(String::new())),
            "SECRET" => Ok(Some("hunter2".to_owned())),
            _ => Ok(None),
        }
    }

    #[test]
    fn variables_are_filled_in() {
        for (text, wanted, whole) in [
            ("${ONE}", "1", true),
            ("a${ONE}b${SECRET}", "a1bhunter2", false),
            ("${NONE:-x}", "x", true),
            ("${EMPTY:-x}${EMPTY}", "x", false),
            ("${ONE:-x}", "1", true),
            ("$${ONE} ${ONE}", "${ONE} 1", false),
            ("$ONE $", "$ONE $", false),
            ("${NONE:-}", "", true),
        ] {
            assert_eq!(
                filled(text, &known),
                Ok((wanted.to_owned(), whole)),
                "{text}"
            );
        }
        for bad in ["${NONE}", "${ONE", "${}", "${1A}", "${A B}", "${ONE:?x}"] {
            assert!(filled(bad, &known).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_place_and_shows_no_value() {
        let text = "a: [x, '${NONE}']\nb: { c: \"${SECRET}\", d: '${ONE}' }\n";
        let mut node = parse(text).expect("YAML").expect("a map");
        let problems = substitute_variables(&mut node, &known);
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            ["1:8: a[1]: the environment variable NONE is not set"]
        );
        let Value::Map(entries) = &node.value else {
            panic!("a map");
        };
        let Value::Map(inner) = &entries[1].value.value else {
            panic!("a map");
        };
        let said = crate::scalar::cost(&inner[0].value).expect_err("no number");
        assert!(said.to_string().ends_with("found \"${SECRET}\""), "{said}");
        assert_eq!(crate::scalar::cost(&inner[1].value).ok(), Some(1));
    }
}
