//! The report as a picture: an SVG of its own, that refers to nothing.
//!
//! Above, medians as bars on a logarithmic scale; below, how long an execution takes the more
//! sessions there are.

use std::fmt::{Display, Write};

use super::{Growth, Report, Summary, series};

/// What is shown, from the longest to the shortest as it should be.
const SHOWN: [&str; 10] = [
    series::COLD,
    series::BARE,
    series::TEMPLATE,
    series::TEMPLATE_SCIENTIFIC,
    series::POOLED,
    series::POOLED_SCIENTIFIC,
    series::COLD_RUN,
    series::POOLED_RUN,
    series::RESET,
    series::RESET_SCIENTIFIC,
];

// All in pixels.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 260.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 60.0;
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
const GROWTH_HEIGHT: f64 = 140.0;

const BARE_COLOUR: &str = "#8a8a8a";
const BAR_COLOUR: &str = "#2f6f4f";
const ONE_COLOUR: &str = "#8a8a8a";

/// The report as an SVG document.
#[must_use]
pub fn svg(report: &Report) -> String {
    let mut body = String::new();
    let machine = &report.machine;
    let title = format!(
        "vivarium bench: Linux {}, {} CPUs, Python {}",
        machine.kernel, machine.cpus, machine.python_version
    );
    text(&mut body, LEFT, 24.0, "start", &title);
    let shown = SHOWN.iter().filter_map(|name| report.times_ms.iter().find(|t| t.name == *name));
    let shown: Vec<_> = shown.filter(|time| time.p50 > 0.0).collect();
    let below = bars(&mut body, &shown);
    let bottom = growth(&mut body, &report.growth, below + 60.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {bottom:.0}\" \
         width=\"{WIDTH}\" height=\"{bottom:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// Draws the medians, and gives where they end.
fn bars(out: &mut String, times: &[&Summary]) -> f64 {
    text(out, LEFT, 44.0, "start", "median in ms, logarithmic scale");
    let [least, most] = decades(times);
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * (ms.log10() - least) / (most - least);
    let bottom = TOP + ROW * times.len() as f64;
    let mut decade = least;
    while decade <= most {
        let at = x(10_f64.powf(decade));
        line(out, [at, TOP - 4.0, at, bottom], "#dddddd");
        text(out, at, bottom + 14.0, "middle", 10_f64.powf(decade));
        decade += 1.0;
    }
    for (row, time) in times.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let colour = if time.name == series::BARE { BARE_COLOUR } else { BAR_COLOUR };
        let width = x(time.p50) - LEFT;
        text(out, LEFT - 8.0, y + 13.0, "end", &time.name);
        draw(
            out,
            format_args!(
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" \
                 fill=\"{colour}\"/>"
            ),
        );
        text(out, LEFT + width + 6.0, y + 13.0, "start", format_args!("{:.2}", time.p50));
    }
    bottom + 14.0
}

/// The powers of ten below all times and above all of them, and at least from 0.1 to 100, so that
/// two pictures can be compared.
fn decades(times: &[&Summary]) -> [f64; 2] {
    let least = times.iter().map(|time| time.p50.log10().floor()).fold(-1.0, f64::min);
    let most = times.iter().map(|time| time.p50.log10().ceil()).fold(2.0, f64::max);
    [least, most]
}

/// Draws how latency grows, and gives where the picture ends.
fn growth(out: &mut String, growth: &[Growth], top: f64) -> f64 {
    let Some(last) = growth.last() else { return top };
    let bottom = top + GROWTH_HEIGHT;
    let most = growth.iter().flat_map(|step| [step.many.p50, step.one.p50]).fold(0.0, f64::max);
    // So that there is something above the highest.
    let most = if most > 0.0 { most * 1.25 } else { 1.0 };
    let decades = (last.sessions.max(2) as f64).log10();
    let x = |sessions: usize| LEFT + (RIGHT - LEFT) * (sessions.max(1) as f64).log10() / decades;
    let y = |ms: f64| bottom - GROWTH_HEIGHT * ms / most;
    text(out, LEFT, top - 10.0, "start", "execute of 1+1, median in ms, by live sessions");
    line(out, [LEFT, bottom, RIGHT, bottom], "#888888");
    line(out, [LEFT, top, LEFT, bottom], "#888888");
    for tick in [0.0, most / 2.0, most] {
        text(out, LEFT - 8.0, y(tick) + 4.0, "end", format_args!("{tick:.2}"));
    }
    for step in growth {
        text(out, x(step.sessions), bottom + 16.0, "middle", step.sessions);
    }
    let series = [
        ("among so many", BAR_COLOUR, growth.iter().map(|g| (g.sessions, g.many.p50)).collect()),
        (
            "alone, in turns with it",
            ONE_COLOUR,
            growth.iter().map(|g| (g.sessions, g.one.p50)).collect(),
        ),
    ];
    for (row, (label, colour, points)) in series.into_iter().enumerate() {
        let points: Vec<(usize, f64)> = points;
        let mut path = String::new();
        for (sessions, ms) in points {
            let (x, y) = (x(sessions), y(ms));
            draw(
                out,
                format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"),
            );
            // Writing to a String does not fail.
            write!(path, "{x:.1},{y:.1} ").unwrap_or_default();
        }
        let path = path.trim_end();
        draw(
            out,
            format_args!(
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ),
        );
        let at = bottom + 36.0 + 16.0 * row as f64;
        line(out, [LEFT, at - 4.0, LEFT + 24.0, at - 4.0], colour);
        text(out, LEFT + 30.0, at, "start", label);
    }
    bottom + 64.0
}

fn line(out: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str) {
    draw(
        out,
        format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ),
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: impl Display) {
    let text = escape(&text.to_string());
    draw(
        out,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"),
    );
}

fn draw(out: &mut String, element: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    writeln!(out, "{element}").unwrap_or_default();
}

/// As XML has it in text: a machine may be called anything.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
