//! Prints docs/metrics.md.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let metrics = vivarium_metrics::Metrics::new()?;
    let page = vivarium_metrics::markdown(metrics.declarations());
    Ok(std::io::stdout().write_all(page.as_bytes())?)
}
