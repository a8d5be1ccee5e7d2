//! docs/metrics.md, from the declarations.

use std::fmt::Write as _;

use crate::{Declaration, Unit};

const HEAD: &str = "\
# Metrics

`GET /metrics` answers in Prometheus' text format. This page is generated from the declarations
in `metrics/src/families`: `cargo run -p vivarium-metrics --example docs > docs/metrics.md`.

Labels have few values, whatever clients do: names of tenants and environments are the
operator's, everything else is fixed in the program. No metric carries a session's id.

What a host does not tell is absent rather than zero: memory without a memory controller,
pressure without `CONFIG_PSI`, anything by tenant without the cgroup layer.

What to do when one of them is wrong is in [alerts](alerts.md); the rules are in
`metrics/alerts/vivarium.rules.yml`, and `metrics/dashboard/vivarium.json` is a dashboard for
Grafana.
";

#[must_use]
pub fn markdown(declarations: &[Declaration]) -> String {
    let mut page = HEAD.to_owned();
    let mut family = "";
    for declaration in declarations {
        if declaration.family != family {
            family = declaration.family;
            // Writing to a String can not fail.
            write!(
                page,
                "\n## {family}\n\n| name | type | unit | labels | what |\n|---|---|---|---|---|\n"
            )
            .unwrap_or_default();
        }
        let Declaration { name, kind, help, .. } = declaration;
        let unit = match declaration.unit() {
            Unit::None => "—".to_owned(),
            unit => unit.to_string(),
        };
        let labels = declaration.labels.iter().map(|label| format!("`{label}`"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        let labels = if labels.is_empty() { "—".to_owned() } else { labels };
        writeln!(page, "| `{name}` | {kind} | {unit} | {labels} | {help} |").unwrap_or_default();
    }
    page
}
