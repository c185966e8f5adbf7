//! The variables `OTEL_*` that the SDK does not read itself.

use std::time::Duration;

/// Whether tracing is enabled. Rejects values that this program does not support.
///
/// # Errors
///
/// If a variable or the endpoint is invalid.
pub(super) fn check(endpoint: &str) -> Result<bool, String> {
    if variable(&["OTEL_SDK_DISABLED"]).is_some_and(|(_, it)| it.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    if let Some((name, exporter)) = variable(&["OTEL_TRACES_EXPORTER"]) {
        match exporter.as_str() {
            "none" => return Ok(false),
            "otlp" => {}
            _ => return Err(format!("{name} is {exporter:?}: expected `otlp` or `none`")),
        }
    }
    let protocol = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ]);
    if let Some((name, protocol)) = protocol
        && protocol != "http/protobuf"
    {
        return Err(format!("{name} is {protocol:?}: expected `http/protobuf`"));
    }
    let (name, endpoint) = match endpoint {
        "" => variable(&[
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ])
        .unwrap_or_default(),
        given => ("the endpoint of OTLP", given.to_owned()),
    };
    if !endpoint.is_empty() && !endpoint.starts_with("http://") {
        return Err(format!(
            "{name} is {endpoint:?}: expected an address that begins with http://, such as http://127.0.0.1:4318 (a collector that is asked without TLS)"
        ));
    }
    if let Some((name, sampler)) = variable(&["OTEL_TRACES_SAMPLER"]) {
        check_sampler(name, &sampler)?;
    }
    Ok(true)
}

/// Checks the name of a sampler: the SDK would sample all traces instead of reporting an unknown one.
fn check_sampler(name: &str, sampler: &str) -> Result<(), String> {
    const SAMPLERS: [&str; 6] = [
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ];
    if !SAMPLERS.contains(&sampler) {
        let expected = SAMPLERS.join(", ");
        return Err(format!("{name} is {sampler:?}: expected one of {expected}"));
    }
    if let Some((name, ratio)) = variable(&["OTEL_TRACES_SAMPLER_ARG"])
        && sampler.ends_with("ratio")
        && !ratio
            .parse::<f64>()
            .is_ok_and(|it| (0.0..=1.0).contains(&it))
    {
        return Err(format!(
            "{name} is {ratio:?}: expected a number from 0 to 1"
        ));
    }
    Ok(())
}

/// Timeout of one export.
pub(super) fn timeout() -> Duration {
    let said = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ]);
    let millis = said.and_then(|(_, it)| it.parse().ok());
    Duration::from_millis(millis.unwrap_or(10_000))
}

/// Whether a variable sets the name of the service.
pub(super) fn names_service() -> bool {
    let attributes = variable(&["OTEL_RESOURCE_ATTRIBUTES"]);
    variable(&["OTEL_SERVICE_NAME"]).is_some()
        || attributes.is_some_and(|(_, it)| {
            let mut pairs = it.split(',');
            pairs.any(|pair| pair.trim_start().starts_with("service.name="))
        })
}

/// The first of these variables that is set and not empty: its name and its value.
fn variable(names: &[&'static str]) -> Option<(&'static str, String)> {
    let mut set = names.iter().filter_map(|name| {
        let value = std::env::var(name).ok()?;
        Some((*name, value.trim().to_owned()))
    });
    set.find(|(_, value)| !value.is_empty())
}
