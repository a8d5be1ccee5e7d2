//! The report as tables for people.

use std::fmt::Write;

use super::Report;

/// The report as Markdown tables, which read well on a terminal too.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let machine = &report.machine;
    // Writing to a String does not fail.
    let mut line = |text: String| writeln!(out, "{text}").unwrap_or_default();
    line(format!(
        "Linux {}, {} CPUs, {} ({}), {}",
        machine.kernel, machine.cpus, machine.interpreter, machine.python_version, machine.layers
    ));
    line(String::new());
    line(format!(
        "| {:<44} | {:>6} | {:>9} | {:>9} | {:>9} |",
        "time in ms", "n", "p50", "p95", "p99"
    ));
    line(format!("|{:-<46}|{:->7}:|{:->10}:|{:->10}:|{:->10}:|", "", "", "", "", ""));
    for time in &report.times_ms {
        line(format!(
            "| {:<44} | {:>6} | {:>9.3} | {:>9.3} | {:>9.3} |",
            time.name, time.count, time.p50, time.p95, time.p99
        ));
    }
    line(String::new());
    line(format!("| {:<44} | {:>9} |", "size", "MiB"));
    line(format!("|{:-<46}|{:->10}:|", "", ""));
    for size in &report.sizes_bytes {
        #[allow(clippy::cast_precision_loss)] // sizes far below 2^53
        let mib = size.bytes as f64 / (1024.0 * 1024.0);
        line(format!("| {:<44} | {mib:>9.2} |", size.name));
    }
    line(String::new());
    line(format!(
        "| {:<48} | {:>9} | {:>9} | {:<5} | {:<3} |",
        "bar", "found", "at most", "unit", "met"
    ));
    line(format!("|{:-<50}|{:->10}:|{:->10}:|{:-<7}|{:-<5}|", "", "", "", "", ""));
    for bar in &report.bars {
        let met = if bar.met { "yes" } else { "no" };
        line(format!(
            "| {:<48} | {:>9.3} | {:>9.3} | {:<5} | {met:<3} |",
            bar.name, bar.found, bar.at_most, bar.unit
        ));
    }
    out
}
