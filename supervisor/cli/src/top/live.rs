//! The terminal while it is looked at, and the loop.

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

/// The terminal as it has to be for us. As it was before when we end, also by a panic: ratatui
/// sees to that.
struct Taken(DefaultTerminal);

impl Drop for Taken {
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
    let (tell, mut news) = mpsc::channel(1);
    tokio::spawn(poll::watch(remote, interval, pane, tell));
    let mut terminal = Taken(ratatui::try_init().map_err(|error| failed(&error))?);
    let mut keys = keys().map_err(|error| failed(&error))?;
    loop {
        terminal.0.draw(|frame| draw::draw(frame, &mut view, &url)).map_err(|e| failed(&e))?;
        tokio::select! {
            Some(news) = news.recv() => view.take(news),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if !view.press(key) {
                        return Ok(Exit::Ok);
                    }
                    shown.send_if_modified(|pane| {
                        std::mem::replace(pane, view.pane) != view.pane
                    });
                }
                // Another size, perhaps: drawn anew.
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(Exit::Ok),
            },
            _ = ends.recv() => return Ok(Exit::Ok),
            _ = hangups.recv() => return Ok(Exit::Ok),
        }
    }
}

/// What is pressed, read by a thread that ends with the program.
fn keys() -> io::Result<mpsc::Receiver<Event>> {
    let (tell, keys) = mpsc::channel(64);
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if tell.blocking_send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(keys)
}
