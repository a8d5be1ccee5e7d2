//! The report as tables for people.

use std::fmt::Write;

use super::{Bar, Bound, Frequency, Growth, Rate, Report, Size, Summary};

/// The report as Markdown tables, which read well on a terminal too.
#[must_use]
pub fn text(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "Linux {}, {} CPUs, {} ({}), {}\n",
        machine.kernel, machine.cpus, machine.interpreter, machine.python_version, machine.layers
    );
    times(&mut out, &report.times_ms);
    rates(&mut out, &report.rates_bytes_per_s);
    frequencies(&mut out, &report.frequencies);
    growth(&mut out, &report.growth);
    sizes(&mut out, &report.sizes_bytes);
    bars(&mut out, &report.bars);
    if !(report.notes.is_empty() && report.failures.is_empty()) {
        line(&mut out, "");
    }
    for failure in &report.failures {
        line(&mut out, &format!("- not measured: {}: {}", failure.scenario, failure.reason));
    }
    for note in &report.notes {
        line(&mut out, &format!("- {note}"));
    }
    out
}

fn times(out: &mut String, times: &[Summary]) {
    line(out, "");
    line(
        out,
        &format!(
            "| {:<44} | {:>6} | {:>9} | {:>9} | {:>9} |",
            "time in ms", "n", "p50", "p95", "p99"
        ),
    );
    line(out, &format!("|{:-<46}|{:->7}:|{:->10}:|{:->10}:|{:->10}:|", "", "", "", "", ""));
    for time in times {
        line(
            out,
            &format!(
                "| {:<44} | {:>6} | {:>9.3} | {:>9.3} | {:>9.3} |",
                time.name, time.count, time.p50, time.p95, time.p99
            ),
        );
    }
}

fn rates(out: &mut String, rates: &[Rate]) {
    line(out, "");
    line(
        out,
        &format!(
            "| {:<44} | {:>6} | {:>9} | {:>9} | {:>9} |",
            "rate in MB/s", "n", "p50", "least", "most"
        ),
    );
    line(out, &format!("|{:-<46}|{:->7}:|{:->10}:|{:->10}:|{:->10}:|", "", "", "", "", ""));
    for rate in rates {
        let [p50, least, most] = [rate.p50, rate.least, rate.most].map(|rate| rate / 1e6);
        line(
            out,
            &format!(
                "| {:<44} | {:>6} | {p50:>9.1} | {least:>9.1} | {most:>9.1} |",
                rate.name, rate.count
            ),
        );
    }
}

fn sizes(out: &mut String, sizes: &[Size]) {
    line(out, "");
    line(out, &format!("| {:<44} | {:>9} | {:>9} |", "size", "MiB", "MB"));
    line(out, &format!("|{:-<46}|{:->10}:|{:->10}:|", "", "", ""));
    for size in sizes {
        line(out, &format!("| {:<44} | {:>9.2} | {:>9.2} |", size.name, size.mib(), size.mb()));
    }
}

fn frequencies(out: &mut String, frequencies: &[Frequency]) {
    line(out, "");
    line(out, &format!("| {:<44} | {:>6} | {:>9} | {:>9} |", "how often", "n", "seconds", "per s"));
    line(out, &format!("|{:-<46}|{:->7}:|{:->10}:|{:->10}:|", "", "", "", ""));
    for Frequency { name, count, seconds, per_s } in frequencies {
        line(out, &format!("| {name:<44} | {count:>6} | {seconds:>9.1} | {per_s:>9.1} |"));
    }
}

fn growth(out: &mut String, growth: &[Growth]) {
    line(out, "");
    line(
        out,
        &format!(
            "| {:<44} | {:>9} | {:>9} | {:>9} |",
            "execute p50 in ms, by live sessions", "among", "alone", "times"
        ),
    );
    line(out, &format!("|{:-<46}|{:->10}:|{:->10}:|{:->10}:|", "", "", "", ""));
    for step in growth {
        line(
            out,
            &format!(
                "| {:<44} | {:>9.3} | {:>9.3} | {:>9.3} |",
                step.sessions,
                step.many.p50,
                step.one.p50,
                step.times()
            ),
        );
    }
}

fn bars(out: &mut String, bars: &[Bar]) {
    line(out, "");
    line(
        out,
        &format!(
            "| {:<48} | {:>9} | {:>17} | {:<5} | {:<3} |",
            "bar", "found", "promised", "unit", "met"
        ),
    );
    line(out, &format!("|{:-<50}|{:->10}:|{:->18}:|{:-<7}|{:-<5}|", "", "", "", "", ""));
    for bar in bars {
        let bound = match bar.bound {
            Bound::AtMost => "at most",
            Bound::AtLeast => "at least",
        };
        let promised = format!("{bound} {:.3}", bar.limit);
        let met = if bar.met { "yes" } else { "no" };
        let found = match bar.found {
            found if found.is_nan() => "-".to_owned(),
            found => format!("{found:.3}"),
        };
        line(
            out,
            &format!(
                "| {:<48} | {found:>9} | {promised:>17} | {:<5} | {met:<3} |",
                bar.name, bar.unit
            ),
        );
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a String does not fail.
    writeln!(out, "{text}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step() -> Growth {
        let time = |p50| Summary { name: "t".into(), count: 1, p50, p95: p50, p99: p50 };
        Growth { sessions: 100, many: time(0.3), one: time(0.2) }
    }

    fn lines(table: impl FnOnce(&mut String)) -> Vec<String> {
        let mut out = String::new();
        table(&mut out);
        out.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn every_line_of_a_table_has_its_columns() {
        let bar = [Bar::at_most("a", 1.0, 6.0, "ms"), Bar::at_least("b", 1.0, 500.0, "MB/s")];
        let rate = Rate { name: "r".into(), count: 3, bytes: 1, p50: 2e8, least: 1e8, most: 3e8 };
        for table in [
            lines(|out| bars(out, &bar)),
            lines(|out| rates(out, &[rate])),
            lines(|out| sizes(out, &[Size::new("s", 3 << 20)])),
            lines(|out| frequencies(out, &[Frequency::new("f", 9, Duration::from_secs(3))])),
            lines(|out| growth(out, &[step()])),
        ] {
            let length = table.first().map(String::len);
            let columns = |line: &String| line.matches('|').count();
            let first = table.first().map(columns);
            for line in &table {
                assert_eq!((Some(line.len()), Some(columns(line))), (length, first), "{table:#?}");
            }
        }
    }

    #[test]
    fn a_bar_says_what_is_promised_and_whether_it_holds() {
        let bar = Bar::at_least("upload", 499.0, 500.0, "MB/s");
        let table = lines(|out| bars(out, &[bar])).join("\n");
        assert!(table.contains("|  at least 500.000 | MB/s  | no  |"), "{table}");
        let table = lines(|out| bars(out, &[Bar::at_most("x", f64::NAN, 5.0, "MB")])).join("\n");
        assert!(table.contains("|         - |     at most 5.000 | MB    | no  |"), "{table}");
    }
}
