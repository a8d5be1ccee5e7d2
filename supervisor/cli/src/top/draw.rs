//! Draws the live view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use vivarium_protocol::layer::{Report, Status};

use super::once::heading;
use super::rows::{SESSION_FIGURES, SESSION_HEADINGS, TENANT_FIGURES, TENANT_HEADINGS};
use super::view::{Pane, SORTS, View};
use crate::human;
use crate::terminal::escape;

const KEYS: &str = "q quit  Tab pane  / filter  r reverse  sort by: i id  t tenant  s state  \
                    c cpu  m memory  e executions  u queued  a age";

pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, url: &str) {
    let rows = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [top, panes, main, bottom] = rows.areas(frame.area());
    frame.render_widget(Paragraph::new(summary(view, url)), top);
    frame.render_widget(Paragraph::new(tabs(view)), panes);
    match view.pane {
        Pane::Sessions => sessions(frame, view, main),
        Pane::Tenants => tenants(frame, view, main),
        Pane::Layers => layers(frame, view, main),
    }
    let keys = if view.is_typing {
        format!("filter: {}_   Enter keeps it, Esc removes it", escape(&view.filter))
    } else {
        KEYS.to_owned()
    };
    frame.render_widget(Paragraph::new(keys).dim(), bottom);
}

fn summary(view: &View, url: &str) -> Vec<Line<'static>> {
    let Some(host) = &view.host else {
        let state = match &view.problem {
            Some(why) => format!("{url} is not reachable, trying again: {}", escape(why)),
            None => format!("asking {url}"),
        };
        return vec![Line::from(state)];
    };
    let totals = view.totals();
    let figures = format!(
        "{} running, {} queued, CPU {:.0} %, memory {}",
        totals.running,
        totals.queued,
        totals.cpu_percent,
        human::size(totals.memory_bytes),
    );
    let state = match &view.problem {
        Some(why) => {
            let text = format!("{url} is not reachable, trying again: {}", escape(why));
            Line::from(text).fg(Color::Red)
        }
        None => Line::from(url.to_owned()).dim(),
    };
    vec![Line::from(escape(&heading(host)).into_owned()).bold(), Line::from(figures), state]
}

fn tabs(view: &View) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, pane) in Pane::ALL.into_iter().enumerate() {
        let text = format!(" {} {} ", number + 1, pane.name());
        let is_shown = pane == view.pane;
        spans.push(if is_shown { Span::from(text).reversed() } else { Span::from(text) });
    }
    if !view.filter.is_empty() && !view.is_typing {
        spans.push(Span::from(format!("  only {}", escape(&view.filter))));
    }
    Line::from(spans)
}

fn sessions(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    let rows: Vec<_> = view.shown().iter().map(|row| row.cells()).collect();
    let sorted = SORTS.iter().position(|(sort, _)| *sort == view.sort);
    let widths = [
        Constraint::Min(20),
        Constraint::Length(16),
        Constraint::Length(12),
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(8),
    ];
    table(
        frame,
        area,
        (&SESSION_HEADINGS, &SESSION_FIGURES),
        sorted,
        &rows,
        &widths,
        &mut view.top,
    );
}

fn tenants(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    let widths = [
        Constraint::Min(20),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(9),
    ];
    match &view.tenants {
        Ok(rows) => table(
            frame,
            area,
            (&TENANT_HEADINGS, &TENANT_FIGURES),
            None,
            rows,
            &widths,
            &mut view.top,
        ),
        Err(why) => frame.render_widget(Paragraph::new(escape(why).into_owned()), area),
    }
}

fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    (headings, figures): (&[&str], &[usize]),
    sorted: Option<usize>,
    rows: &[Vec<String>],
    widths: &[Constraint],
    top: &mut usize,
) {
    // Not further than to the last row.
    *top = (*top).min(rows.len().saturating_sub(1));
    let cell = |(column, text): (usize, &str)| {
        let line = Line::from(text.to_owned());
        Cell::from(if figures.contains(&column) { line.right_aligned() } else { line })
    };
    let headings = headings.iter().enumerate().map(|(column, heading)| {
        let style = if sorted == Some(column) { Modifier::REVERSED } else { Modifier::BOLD };
        cell((column, heading)).style(Style::new().add_modifier(style))
    });
    let shown = rows.iter().skip(*top).take(area.height.into());
    let shown = shown.map(|row| Row::new(row.iter().map(String::as_str).enumerate().map(cell)));
    let table = Table::new(shown, widths.iter().copied()).header(Row::new(headings));
    frame.render_widget(table, area);
}

fn layers(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    let reports = view.host.as_ref().map_or(&[] as &[Report], |host| &host.layers);
    view.top = view.top.min(reports.len().saturating_sub(1));
    let mut lines = Vec::new();
    for report in reports.iter().skip(view.top) {
        let colour = match report.status {
            Status::Enforced => Color::Green,
            Status::Partial => Color::Yellow,
            Status::Unavailable | Status::Off => Color::Red,
        };
        lines.push(Line::from(vec![
            Span::from(format!("{:<12} ", report.layer.name())).bold(),
            Span::from(format!("{:<12} ", report.status.to_string())).fg(colour),
            Span::from(escape(&report.detail).into_owned()),
        ]));
        if report.status != Status::Enforced && !report.fix.is_empty() {
            lines.push(Line::from(format!("{:26}fix: {}", "", escape(&report.fix))).dim());
        }
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}
