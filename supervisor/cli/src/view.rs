//! Shows an execution of `run` or `exec` while it runs.
//!
//! What code prints goes out as it comes. To a terminal it goes through the filter.

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use vivarium_api_types::{DisplayEvent, DoneEvent, MimeBundle, Outcome, OutputFile};
use vivarium_client::Event;
use vivarium_protocol::error_chain;
use vivarium_protocol::outcome::{DisplayKind, Exception};

use super::artifacts::{ArtifactError, Folder};
use super::exit::{Exit, Failure};
use super::outcome::{Verdict, lost_before};
use super::print;
use super::target::EventStream;
use super::terminal::{Filter, Terminals, escape};

/// What is shown of an execution, and where.
#[derive(Debug)]
pub(super) struct View {
    terminals: Terminals,
    stdout: Filter,
    stderr: Filter,
    folder: Option<Folder>,
    shows_value: bool,
    is_quiet: bool,
    /// Frames that were written.
    frames: usize,
    /// Images that are nowhere to be seen.
    unseen: usize,
}

impl View {
    pub(super) fn new(folder: Option<Folder>, shows_value: bool, is_quiet: bool) -> Self {
        Self {
            terminals: Terminals::look(),
            stdout: Filter::default(),
            stderr: Filter::default(),
            folder,
            shows_value,
            is_quiet,
            frames: 0,
            unseen: 0,
        }
    }

    /// Follows an execution to its end.
    pub(super) async fn follow(&mut self, mut events: EventStream) -> Result<Exit, Failure> {
        let mut exception = None;
        while let Some(event) = events.next().await? {
            self.keep(&event);
            match event {
                Event::Started(_) => {}
                Event::Stdout(text) => self.print(&text).await?,
                Event::Stderr(text) => self.print_error(&text).await,
                Event::Display(shown) => {
                    let is_text = matches!(shown.kind, DisplayKind::Display | DisplayKind::Update);
                    if let (true, Some(text)) = (is_text, shown.mime.get("text/plain")) {
                        self.print_line(text).await?;
                    }
                }
                Event::Result(value) if self.shows_value => self.print_line(&value.repr).await?,
                Event::Result(_) => {}
                Event::Error(error) => exception = Some(error),
                Event::Gap => {
                    print::note("the connection broke, and some of what was shown is lost");
                }
                Event::Done(done) => return self.end(&done, exception.as_ref()).await,
            }
        }
        Err(Failure::says(Exit::Error, "the execution ended without an outcome"))
    }

    async fn end(
        &mut self,
        done: &DoneEvent<'_>,
        exception: Option<&Exception>,
    ) -> Result<Exit, Failure> {
        if self.terminals.stdout {
            let end = self.stdout.finish();
            write(tokio::io::stdout(), end.as_bytes()).await.map_err(|error| unprinted(&error))?;
        }
        if self.terminals.stderr {
            print::err(self.stderr.finish().as_bytes());
        }
        for (stream, is_cut) in
            [("stdout", done.stdout_truncated), ("stderr", done.stderr_truncated)]
        {
            if is_cut {
                print::note(&format!("there was more {stream} than max_output_bytes"));
            }
        }
        if self.frames > 1 && !self.is_quiet {
            print::note(&format!("wrote {} frames in all", self.frames));
        }
        if self.unseen > 0 && !self.is_quiet {
            let unseen = self.unseen;
            print::note(&format!("{unseen} images not shown: --output-dir DIR writes them"));
        }
        if let Some(lost) = lost_before(done.kernel.as_deref(), done.exit_code) {
            print::note(&lost);
        }
        let verdict = Verdict::of(done, exception);
        if let Some(text) = verdict.explain() {
            let text = if self.terminals.stderr { escape(&text) } else { text.into() };
            print::err(text.as_bytes());
        }
        Ok(verdict.exit())
    }

    /// Puts what an event shows into the folder, and says where it is.
    fn keep(&mut self, event: &Event) {
        match event {
            Event::Display(shown) => self.keep_display(shown),
            Event::Result(value) => self.keep_value(&value.mime),
            Event::Done(done) => self.keep_files(&done.files),
            _ => {}
        }
    }

    /// The same with everything that an execution showed, as its outcome has it.
    pub(super) fn keep_all(&mut self, outcome: &Outcome) {
        for display in &outcome.displays {
            let (kind, mime) = (DisplayKind::Display, display.mime.clone());
            self.keep_display(&DisplayEvent { kind, id: None, mime });
        }
        let images = outcome.images.iter().map(|image| (DisplayKind::Image, image));
        let frames = outcome.video_frames.iter().map(|image| (DisplayKind::VideoFrame, image));
        for (kind, image) in images.chain(frames) {
            let mime = [(image.mime_type.clone(), image.data.clone())].into();
            self.keep_display(&DisplayEvent { kind, id: None, mime });
        }
        if let Some(value) = &outcome.result {
            self.keep_value(&value.mime);
        }
        self.keep_files(&outcome.files);
    }

    fn keep_display(&mut self, shown: &DisplayEvent<'_>) {
        if self.folder.is_none() {
            let is_image = matches!(shown.kind, DisplayKind::Image | DisplayKind::VideoFrame);
            self.unseen += usize::from(is_image);
            return;
        }
        let is_frame = shown.kind == DisplayKind::VideoFrame;
        self.frames += usize::from(is_frame);
        let is_said = !is_frame || self.frames == 1;
        self.put(is_said, |folder| folder.shown(shown));
    }

    fn keep_value(&mut self, mime: &MimeBundle) {
        self.put(true, |folder| folder.value(mime));
    }

    fn keep_files(&mut self, files: &[OutputFile]) {
        for file in files {
            self.put(true, |folder| folder.output(file).map(Some));
        }
    }

    fn put(
        &mut self,
        is_said: bool,
        put: impl FnOnce(&mut Folder) -> Result<Option<PathBuf>, ArtifactError>,
    ) {
        let Some(folder) = &mut self.folder else { return };
        match put(folder) {
            Ok(Some(path)) if is_said && !self.is_quiet => {
                print::note(&format!("wrote {}", path.display()));
            }
            Ok(_) => {}
            Err(error) => print::note(&error_chain(&error)),
        }
    }

    async fn print_line(&mut self, text: &str) -> Result<(), Failure> {
        self.print(&format!("{}\n", self.own(text))).await
    }

    /// Text that is not what code printed itself.
    fn own(&self, text: &str) -> String {
        if self.terminals.stdout { escape(text).into_owned() } else { text.to_owned() }
    }

    async fn print(&mut self, text: &str) -> Result<(), Failure> {
        let shown = through(self.terminals.stdout, &mut self.stdout, text);
        write(tokio::io::stdout(), shown.as_bytes()).await.map_err(|error| unprinted(&error))
    }

    async fn print_error(&mut self, text: &str) {
        let shown = through(self.terminals.stderr, &mut self.stderr, text);
        // If that is gone there is nobody to tell.
        write(tokio::io::stderr(), shown.as_bytes()).await.unwrap_or_default();
    }
}

fn through<'t>(is_terminal: bool, filter: &mut Filter, text: &'t str) -> std::borrow::Cow<'t, str> {
    if !is_terminal {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    filter.pass(text, &mut shown);
    shown.into()
}

/// Writes in another thread: who waits for Ctrl-C goes on while nobody reads.
async fn write(mut to: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

fn unprinted(error: &io::Error) -> Failure {
    match error.kind() {
        // Who was reading has read enough.
        io::ErrorKind::BrokenPipe => Failure::quiet(Exit::Ok),
        _ => Failure::says(Exit::Error, format!("cannot write to standard output: {error}")),
    }
}
