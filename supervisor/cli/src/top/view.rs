//! The state of the live view, and what keys do to it. Does not touch the terminal.

use std::cmp::Ordering;
use std::time::Instant;

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use vivarium_api_types::HostInfo;
use vivarium_api_types::SessionState;

use super::poll::{Snapshot, Update};
use super::rows::{self, CpuTimes, SessionRow};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Sessions,
    Tenants,
    Layers,
}

impl Pane {
    pub(super) const ALL: [Self; 3] = [Self::Sessions, Self::Tenants, Self::Layers];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Tenants => "tenants",
            Self::Layers => "layers",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Sessions => Self::Tenants,
            Self::Tenants => Self::Layers,
            Self::Layers => Self::Sessions,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Id,
    Tenant,
    State,
    Cpu,
    Memory,
    Executions,
    Queued,
    Age,
}

/// In the order of the columns, each with its key.
pub(super) const SORTS: [(Sort, char); 8] = [
    (Sort::Id, 'i'),
    (Sort::Tenant, 't'),
    (Sort::State, 's'),
    (Sort::Cpu, 'c'),
    (Sort::Memory, 'm'),
    (Sort::Executions, 'e'),
    (Sort::Queued, 'u'),
    (Sort::Age, 'a'),
];

/// Sums over the fetched sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) running: usize,
    pub(super) queued: u64,
    pub(super) cpu_percent: f64,
    pub(super) memory_bytes: u64,
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) pane: Pane,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) is_typing: bool,
    /// The first row that is shown.
    pub(super) top: usize,
    pub(super) host: Option<HostInfo>,
    /// Why the last poll failed.
    pub(super) problem: Option<String>,
    pub(super) sessions: Vec<SessionRow>,
    pub(super) tenants: Result<Vec<Vec<String>>, String>,
    session_cpu_times: CpuTimes,
    tenant_cpu_times: CpuTimes,
}

impl View {
    pub(super) fn new() -> Self {
        Self {
            pane: Pane::Sessions,
            sort: Sort::Cpu,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            top: 0,
            host: None,
            problem: None,
            sessions: Vec::new(),
            tenants: Ok(Vec::new()),
            session_cpu_times: CpuTimes::default(),
            tenant_cpu_times: CpuTimes::default(),
        }
    }

    pub(super) fn apply(&mut self, update: Update) {
        match update {
            Err(why) => self.problem = Some(why),
            Ok(Snapshot { at, host, sessions, tenants }) => {
                self.problem = None;
                self.host = Some(host);
                if let Some(sessions) = sessions {
                    self.sessions = self.rows(&sessions, at);
                }
                if let Some(tenants) = tenants {
                    let previous = &mut self.tenant_cpu_times;
                    self.tenants = tenants.map(|tenants| rows::tenants(&tenants, previous, at));
                }
            }
        }
    }

    fn rows(
        &mut self,
        sessions: &[vivarium_api_types::SessionInfo],
        at: Instant,
    ) -> Vec<SessionRow> {
        rows::sessions(sessions, &mut self.session_cpu_times, at, Timestamp::now())
    }

    /// The sessions that pass the filter, in order.
    pub(super) fn shown(&self) -> Vec<&SessionRow> {
        let wanted = |row: &&SessionRow| {
            [&*row.id, &row.tenant, row.state.into()].iter().any(|text| text.contains(&self.filter))
        };
        let mut shown: Vec<_> = self.sessions.iter().filter(wanted).collect();
        shown.sort_by(|a, b| {
            let order = compare(self.sort, a, b);
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then_with(|| a.id.cmp(&b.id))
        });
        shown
    }

    pub(super) fn totals(&self) -> Totals {
        self.sessions.iter().fold(Totals::default(), |sum, row| Totals {
            running: sum.running + usize::from(row.state == SessionState::Running),
            queued: sum.queued + row.queued,
            cpu_percent: sum.cpu_percent + row.cpu_percent,
            memory_bytes: sum.memory_bytes + row.memory_bytes.unwrap_or_default(),
        })
    }

    /// Returns false if the key ends the program.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return key.code != KeyCode::Char('c');
        }
        if self.is_typing {
            match key.code {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            self.top = 0;
            return true;
        }
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Tab => self.show(self.pane.next()),
            KeyCode::Char('1') => self.show(Pane::Sessions),
            KeyCode::Char('2') => self.show(Pane::Tenants),
            KeyCode::Char('3') => self.show(Pane::Layers),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up => self.top = self.top.saturating_sub(1),
            KeyCode::Down => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(10),
            KeyCode::PageDown => self.top += 10,
            KeyCode::Home => self.top = 0,
            KeyCode::Char(c) => {
                if let Some((sort, _)) = SORTS.iter().find(|(_, key)| *key == c) {
                    self.is_reversed = self.sort == *sort && !self.is_reversed;
                    self.sort = *sort;
                }
            }
            _ => {}
        }
        true
    }

    fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.top = 0;
    }
}

/// Names ascending, numbers descending.
fn compare(sort: Sort, a: &SessionRow, b: &SessionRow) -> Ordering {
    match sort {
        Sort::Id => a.id.cmp(&b.id),
        Sort::Tenant => a.tenant.cmp(&b.tenant),
        Sort::State => <&str>::from(a.state).cmp(b.state.into()),
        Sort::Cpu => b.cpu_percent.total_cmp(&a.cpu_percent),
        Sort::Memory => b.memory_bytes.cmp(&a.memory_bytes),
        Sort::Executions => b.executions.cmp(&a.executions),
        Sort::Queued => b.queued.cmp(&a.queued),
        Sort::Age => b.age_seconds.cmp(&a.age_seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::SessionState;

    fn row(id: &str, cpu_percent: f64, age_seconds: i64) -> SessionRow {
        SessionRow {
            id: id.into(),
            tenant: "default".into(),
            state: SessionState::Idle,
            cpu_percent,
            memory_bytes: None,
            executions: 0,
            queued: 1,
            age_seconds,
        }
    }

    fn view() -> View {
        let mut view = View::new();
        view.sessions = vec![row("a", 1.0, 3), row("b", 9.0, 2), row("c", 1.0, 1)];
        view
    }

    fn ids(view: &View) -> String {
        view.shown().iter().map(|row| row.id.as_str()).collect()
    }

    fn press(view: &mut View, keys: &str) {
        for c in keys.chars() {
            assert!(view.press(KeyEvent::from(KeyCode::Char(c))), "{c}");
        }
    }

    #[test]
    fn keys_sort_the_sessions() {
        let mut view = view();
        assert_eq!(ids(&view), "bac", "by CPU, then by id");
        press(&mut view, "a");
        assert_eq!(ids(&view), "abc");
        press(&mut view, "a");
        assert_eq!(ids(&view), "cba", "the same key again turns it round");
        press(&mut view, "ir");
        assert_eq!(ids(&view), "cba");
        assert_eq!(view.totals().queued, 3);
    }

    #[test]
    fn a_filter_can_be_typed_and_removed() {
        let mut view = view();
        press(&mut view, "/bq");
        assert!(view.is_typing);
        assert_eq!(ids(&view), "", "q is a letter while a filter is typed");
        assert!(view.press(KeyEvent::from(KeyCode::Backspace)));
        assert!(view.press(KeyEvent::from(KeyCode::Enter)));
        assert_eq!(ids(&view), "b");
        assert!(view.press(KeyEvent::from(KeyCode::Esc)));
        assert_eq!(ids(&view), "bac");
        press(&mut view, "/default");
        assert_eq!(ids(&view), "bac");
    }

    #[test]
    fn tab_changes_the_pane_and_q_ends() {
        let mut view = view();
        for pane in [Pane::Tenants, Pane::Layers, Pane::Sessions] {
            assert!(view.press(KeyEvent::from(KeyCode::Tab)));
            assert_eq!(view.pane, pane);
        }
        assert!(!view.press(KeyEvent::from(KeyCode::Char('q'))));
        assert!(!view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn the_last_state_stays_while_the_daemon_is_unreachable() {
        let mut view = view();
        view.apply(Err("cannot connect".into()));
        assert_eq!(view.problem.as_deref(), Some("cannot connect"));
        assert_eq!(ids(&view), "bac");
    }
}
