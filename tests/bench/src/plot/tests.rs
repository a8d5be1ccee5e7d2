use super::*;
use crate::Machine;

fn summary(name: &str, p50: f64) -> Summary {
    Summary { name: name.into(), count: 1, p50, p95: p50, p99: p50 }
}

fn report(times: Vec<Summary>, growth: Vec<Growth>) -> Report {
    let mut report = Report::new(Machine {
        kernel: "6.1-<a&b>".into(),
        cpus: 2,
        interpreter: "/usr/bin/python3".into(),
        python_version: "3.11".into(),
        layers: String::new(),
    });
    (report.times_ms, report.growth) = (times, growth);
    report
}

/// Every element's name, in the order of its start.
///
/// # Panics
/// Unless the document is well-formed: elements nest, attributes are quoted, and neither `<` nor a
/// bare `&` is in text.
fn elements(document: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::<String>::new(), Vec::new());
    let mut rest = document;
    while let Some((before, after)) = rest.split_once('<') {
        is_text(before);
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(!seen.is_empty() || name == "svg");
        assert!(seen.is_empty() || !open.is_empty(), "one element holds all others");
        are_attributes(attributes);
        seen.push(name.to_owned());
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    assert_eq!((open.len(), rest.trim()), (0, ""));
    seen
}

fn is_text(text: &str) {
    for entity in text.split('&').skip(1) {
        assert!(["amp;", "lt;", "gt;"].iter().any(|known| entity.starts_with(known)), "{text:?}");
    }
}

fn are_attributes(mut text: &str) {
    let mut names = Vec::new();
    while !text.trim().is_empty() {
        let (name, after) = text.trim_start().split_once("=\"").unwrap();
        let (value, after) = after.split_once('"').unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name:?}");
        assert!(!value.contains(['<', '&']) && !value.contains("NaN") && !value.contains("inf"));
        assert!(!names.contains(&name), "{name:?} twice");
        names.push(name);
        text = after;
    }
}

#[test]
fn a_plot_is_well_formed_and_has_a_bar_for_each_median() {
    let times = vec![
        summary(series::BARE, 11.0),
        summary(series::POOLED, 0.8),
        summary(series::RESET, 3.0),
        summary("what is not shown", 1.0),
    ];
    let growth = [1, 1000].map(|sessions| Growth {
        sessions,
        many: summary("many", 0.3),
        one: summary("one", 0.25),
    });
    let document = svg(&report(times, growth.into()));
    let elements = elements(&document);
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    // The background, and three medians.
    assert_eq!((count("rect"), count("polyline"), count("circle")), (4, 2, 4));
    assert!(document.contains("6.1-&lt;a&amp;b&gt;"));
    assert!(!document.contains("href") && !document.contains("url("));
}

#[test]
fn a_plot_of_few_figures_is_well_formed() {
    let one = Growth { sessions: 1, many: summary("many", 0.0), one: summary("one", 0.0) };
    for report in [
        report(Vec::new(), Vec::new()),
        report(vec![summary(series::COLD, 0.0), summary(series::BARE, 1.0)], vec![one]),
    ] {
        assert_eq!(elements(&svg(&report)).iter().filter(|name| *name == "svg").count(), 1);
    }
}

#[test]
fn a_longer_time_has_a_longer_bar() {
    let document =
        svg(&report(vec![summary(series::BARE, 11.0), summary(series::POOLED, 0.2)], vec![]));
    let width = |colour: &str| -> f64 {
        let bar =
            document.lines().find(|line| line.starts_with("<rect x") && line.contains(colour));
        let (_, width) = bar.unwrap().split_once("width=\"").unwrap();
        width.split_once('"').unwrap().0.parse().unwrap()
    };
    assert!(width(BARE_COLOUR) > 2.0 * width(BAR_COLOUR), "{document}");
}
