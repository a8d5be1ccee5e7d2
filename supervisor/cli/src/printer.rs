//! Prints the events of an execution of `run` or `exec` as they come. Output passes the filter on
//! its way to a terminal.

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use vivarium_api_types::{DisplayEvent, DoneEvent, MimeBundle, Outcome, OutputFile, Sizes};
use vivarium_client::Event;
use vivarium_protocol::error_chain;
use vivarium_protocol::outcome::{DisplayKind, Exception};

use super::exit::{Exit, Failure};
use super::outcome::{self, OutcomeSummary, lost_before};
use super::output_dir::{OutputDir, OutputDirError};
use super::print;
use super::target::EventStream;
use super::terminal::{Filter, Terminals, escape};

#[derive(Debug)]
pub(super) struct Printer {
    terminals: Terminals,
    stdout: Filter,
    stderr: Filter,
    output_dir: Option<OutputDir>,
    shows_value: bool,
    is_quiet: bool,
    /// The number of written video frames.
    frames: usize,
    /// The number of images neither shown nor written.
    unseen: usize,
    /// Is sent the id of the first execution when it begins.
    started: Option<oneshot::Sender<String>>,
}

impl Printer {
    pub(super) fn new(output_dir: Option<OutputDir>, shows_value: bool, is_quiet: bool) -> Self {
        Self {
            terminals: Terminals::look(),
            stdout: Filter::default(),
            stderr: Filter::default(),
            output_dir,
            shows_value,
            is_quiet,
            frames: 0,
            unseen: 0,
            started: None,
        }
    }

    /// Receives the id of the next execution when it begins.
    pub(super) fn started(&mut self) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        self.started = Some(sender);
        receiver
    }

    /// Follows an execution to its end.
    pub(super) async fn follow(&mut self, mut events: EventStream) -> Result<Exit, Failure> {
        let mut exception = None;
        while let Some(event) = events.next().await? {
            self.save(&event);
            match event {
                Event::Started(started) => {
                    if let Some(sender) = self.started.take() {
                        // Unless nobody wants to know.
                        sender.send(started.execution_id.into_owned()).unwrap_or_default();
                    }
                }
                Event::AwaitingApproval(awaiting) => print::note(&outcome::awaiting(&awaiting)),
                Event::Stdout(text) => self.print(&text).await?,
                Event::Stderr(text) => self.print_error(&text).await,
                Event::Display(shown) => {
                    let is_text = matches!(shown.kind, DisplayKind::Display | DisplayKind::Update);
                    if let (true, Some(text)) = (is_text, shown.mime.get("text/plain")) {
                        self.print_line(text).await?;
                    }
                }
                Event::Result(value) if self.shows_value => self.print_line(&value.repr).await?,
                // Whoever has declared the tools answers them.
                Event::Result(_) | Event::Call(_) | Event::CallEnded(_) => {}
                Event::Error(error) => exception = Some(error),
                Event::Gap => {
                    print::note(outcome::EVENTS_MISSING);
                }
                Event::Done(done) => return self.end(&done, exception.as_ref()).await,
            }
        }
        Err(outcome::missing())
    }

    async fn end(
        &mut self,
        done: &DoneEvent<'_>,
        exception: Option<&Exception>,
    ) -> Result<Exit, Failure> {
        if self.terminals.stdout {
            let end = self.stdout.finish();
            write(tokio::io::stdout(), end.as_bytes())
                .await
                .map_err(|error| print::stdout_failure(&error))?;
        }
        if self.terminals.stderr {
            print::err(self.stderr.finish().as_bytes());
        }
        for note in outcome::truncation_notes(done) {
            print::note(&note);
        }
        if self.frames > 1 && !self.is_quiet {
            print::note(&format!("wrote {} frames in all", self.frames));
        }
        self.frames = 0;
        let unseen = std::mem::take(&mut self.unseen);
        if unseen > 0 && !self.is_quiet {
            print::note(&format!("{unseen} images not shown: --output-dir DIR writes them"));
        }
        if let Some(lost) = lost_before(done.kernel.as_deref(), done.exit_code) {
            print::note(&lost);
        }
        let summary = OutcomeSummary::new(done, exception);
        if let Some(text) = summary.explain() {
            let text = if self.terminals.stderr { escape(&text) } else { text.into() };
            print::err(text.as_bytes());
        }
        Ok(summary.exit())
    }

    /// Writes the files of an event to the output folder, and prints their paths.
    fn save(&mut self, event: &Event) {
        match event {
            Event::Display(shown) => self.save_display(shown),
            Event::Result(value) => self.save_value(&value.mime),
            Event::Done(done) => self.save_files(&done.files),
            _ => {}
        }
    }

    /// Writes the files of an outcome, and prints their paths.
    pub(super) fn save_all(&mut self, outcome: &Outcome) {
        for display in &outcome.displays {
            let (kind, mime) = (DisplayKind::Display, display.mime.clone());
            self.save_display(&DisplayEvent { kind, id: None, sizes: Sizes::new(), mime });
        }
        let images = outcome.images.iter().map(|image| (DisplayKind::Image, image));
        let frames = outcome.video_frames.iter().map(|image| (DisplayKind::VideoFrame, image));
        for (kind, image) in images.chain(frames) {
            let mime = [(image.mime_type.clone(), image.data.clone())].into();
            self.save_display(&DisplayEvent { kind, id: None, sizes: Sizes::new(), mime });
        }
        if let Some(value) = &outcome.result {
            self.save_value(&value.mime);
        }
        self.save_files(&outcome.files);
    }

    fn save_display(&mut self, shown: &DisplayEvent<'_>) {
        if self.output_dir.is_none() {
            let is_image = matches!(shown.kind, DisplayKind::Image | DisplayKind::VideoFrame);
            self.unseen += usize::from(is_image);
            return;
        }
        let is_frame = shown.kind == DisplayKind::VideoFrame;
        self.frames += usize::from(is_frame);
        let is_said = !is_frame || self.frames == 1;
        self.write_file(is_said, |output_dir| output_dir.write_display(shown));
    }

    fn save_value(&mut self, mime: &MimeBundle) {
        self.write_file(true, |output_dir| output_dir.write_value(mime));
    }

    fn save_files(&mut self, files: &[OutputFile]) {
        for file in files {
            self.write_file(true, |output_dir| output_dir.write_output(file).map(Some));
        }
    }

    fn write_file(
        &mut self,
        is_said: bool,
        write: impl FnOnce(&mut OutputDir) -> Result<Option<PathBuf>, OutputDirError>,
    ) {
        let Some(output_dir) = &mut self.output_dir else { return };
        match write(output_dir) {
            Ok(Some(path)) if is_said && !self.is_quiet => {
                print::note(&format!("wrote {}", path.display()));
            }
            Ok(_) => {}
            Err(error) => print::note(&error_chain(&error)),
        }
    }

    async fn print_line(&mut self, text: &str) -> Result<(), Failure> {
        self.print(&format!("{}\n", self.escaped(text))).await
    }

    /// Text that tenant code influences but did not print.
    fn escaped(&self, text: &str) -> String {
        if self.terminals.stdout { escape(text).into_owned() } else { text.to_owned() }
    }

    async fn print(&mut self, text: &str) -> Result<(), Failure> {
        let shown = filtered(self.terminals.stdout, &mut self.stdout, text);
        write(tokio::io::stdout(), shown.as_bytes())
            .await
            .map_err(|error| print::stdout_failure(&error))
    }

    async fn print_error(&mut self, text: &str) {
        let shown = filtered(self.terminals.stderr, &mut self.stderr, text);
        write(tokio::io::stderr(), shown.as_bytes()).await.unwrap_or_default();
    }
}

fn filtered<'t>(
    is_terminal: bool,
    filter: &mut Filter,
    text: &'t str,
) -> std::borrow::Cow<'t, str> {
    if !is_terminal {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    filter.pass(text, &mut shown);
    shown.into()
}

/// Writes in another thread, so that Ctrl-C is handled while nobody reads.
async fn write(mut to: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}
