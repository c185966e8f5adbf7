//! The names of metrics, and their validation.

use std::collections::HashMap;

use prometheus_client::metrics::MetricType;

use crate::invalid::Problem;
use crate::{InvalidMetrics, Metric};

/// Labels that are in use already, or that belong to Prometheus.
const TAKEN: [&str; 4] = ["method", "priority", "reason", "le"];

/// The suffix that every counter has.
const TOTAL: &str = "_total";

/// The requested names of metrics.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    names: [Option<String>; Metric::ALL.len()],
    limiter_label: Option<String>,
    /// Whether the gauge of requests in progress has labels of method and priority.
    pub(crate) items_by_method: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            names: Metric::ALL.map(|metric| Some(metric.default_name().to_owned())),
            limiter_label: None,
            items_by_method: false,
        }
    }
}

impl Names {
    pub(crate) fn set(&mut self, metric: Metric, name: Option<String>) {
        self.names[metric as usize] = name;
    }

    pub(crate) fn label_limiters(&mut self, label: String) {
        self.limiter_label = Some(label);
    }

    /// The label with the name of the limiter, if it is set.
    pub(crate) fn limiter_label(&self) -> Option<&str> {
        self.limiter_label.as_deref()
    }

    /// The name of a metric that is switched on, for its description. The name of a counter has no suffix, because the
    /// encoder adds it.
    pub(crate) fn family(&self, metric: Metric) -> Option<&str> {
        let name = self.names[metric as usize].as_deref()?;
        Some(match metric.kind() {
            MetricType::Counter => name.strip_suffix(TOTAL).unwrap_or(name),
            _ => name,
        })
    }

    /// Checks that this can be exported.
    pub(crate) fn check(&self) -> Result<(), InvalidMetrics> {
        let mut owners: HashMap<String, Metric> = HashMap::new();
        for metric in Metric::ALL {
            let Some(name) = &self.names[metric as usize] else {
                continue;
            };
            if !is_metric_name(name) {
                return Err(Problem::Name(metric, name.clone()).into());
            }
            let Some(family) = self.family(metric) else {
                continue;
            };
            if matches!(metric.kind(), MetricType::Counter) && (family == name || family.is_empty())
            {
                return Err(Problem::NoTotal(metric, name.clone()).into());
            }
            for exported in exported(metric, family) {
                if let Some(other) = owners.insert(exported, metric)
                    && other != metric
                {
                    return Err(Problem::Clash(other, metric, name.clone()).into());
                }
            }
        }
        match &self.limiter_label {
            Some(label) if !is_label_name(label) => Err(Problem::Label(label.clone()).into()),
            _ => Ok(()),
        }
    }
}

/// All names under which the metric is exported.
fn exported(metric: Metric, family: &str) -> Vec<String> {
    let suffixes: &[&str] = match metric.kind() {
        MetricType::Counter => &["", TOTAL],
        MetricType::Histogram => &["", "_bucket", "_count", "_sum"],
        _ => &[""],
    };
    suffixes
        .iter()
        .map(|suffix| format!("{family}{suffix}"))
        .collect()
}

fn is_metric_name(name: &str) -> bool {
    is_word(name, |byte| {
        byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'
    })
}

fn is_label_name(name: &str) -> bool {
    is_word(name, |byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with("__")
        && !TAKEN.contains(&name)
}

/// Whether a name consists of these and does not begin with a digit.
fn is_word(name: &str, allowed: fn(u8) -> bool) -> bool {
    name.bytes()
        .next()
        .is_some_and(|first| !first.is_ascii_digit())
        && name.bytes().all(allowed)
}
