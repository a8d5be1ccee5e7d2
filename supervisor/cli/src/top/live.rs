//! The live view's terminal and its loop.

use std::io;
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use vivarium_client::Remote;

use super::draw;
use super::poll;
use super::view::View;
use crate::exit::{Exit, Failure};

/// The terminal in the mode that ratatui needs, restored at the end; ratatui restores it after a
/// panic.
struct TerminalGuard(DefaultTerminal);

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(super) async fn watch(remote: Remote, interval: Duration) -> Result<Exit, Failure> {
    let url = remote.url.to_string();
    let failed = |error: &dyn std::error::Error| Failure::new(Exit::Error, error);
    let listen = |kind| signal(kind).map_err(|error| failed(&error));
    let (mut ends, mut hangups) = (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    let mut view = View::new();
    let (shown, pane) = watch::channel(view.pane);
    let (sender, mut updates) = mpsc::channel(1);
    tokio::spawn(poll::watch(remote, interval, pane, sender));
    let mut terminal = TerminalGuard(ratatui::try_init().map_err(|error| failed(&error))?);
    let mut keys = keys().map_err(|error| failed(&error))?;
    loop {
        terminal.0.draw(|frame| draw::draw(frame, &mut view, &url)).map_err(|e| failed(&e))?;
        tokio::select! {
            Some(update) = updates.recv() => view.apply(update),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if !view.press(key) {
                        return Ok(Exit::Ok);
                    }
                    shown.send_if_modified(|pane| {
                        std::mem::replace(pane, view.pane) != view.pane
                    });
                }
                // Perhaps the size has changed: draw again.
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(Exit::Ok),
            },
            _ = ends.recv() => return Ok(Exit::Ok),
            _ = hangups.recv() => return Ok(Exit::Ok),
        }
    }
}

/// The keys, read by a thread that ends with the program.
fn keys() -> io::Result<mpsc::Receiver<Event>> {
    let (sender, keys) = mpsc::channel(64);
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(keys)
}
