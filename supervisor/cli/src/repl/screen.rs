//! Shows on the terminal what comes from the session, escaped and filtered.

use std::borrow::Cow;
use std::io::{self, Write};

use vivarium_api_types::{DisplayEvent, DoneEvent, InspectReply, MimeBundle, ValueInfo};
use vivarium_protocol::outcome::{DisplayKind, Exception, State, Status};

use super::images::{DrawError, ImageProtocol, Images};
use crate::exit::Failure;
use crate::outcome::{OutcomeSummary, lost_before, truncation_notes};
use crate::output_dir::OutputDir;
use crate::terminal::{Filter, Terminals, escape};

/// The terminal, and whether its last line has been ended.
#[derive(Debug)]
pub(super) struct Screen {
    terminals: Terminals,
    has_colour: bool,
    stdout: Filter,
    stderr: Filter,
    is_at_start: bool,
    /// Whether the user knows that the variables are lost.
    knows_of_loss: bool,
    images: Images,
}

/// Colours by their use (ECMA-48, 8.3.117).
#[derive(Debug, Clone, Copy)]
pub(super) enum Colour {
    Input,
    Output,
    Error,
    Location,
    Dim,
}

impl Colour {
    const fn code(self) -> &'static str {
        match self {
            Self::Input => "32",
            Self::Output | Self::Error => "31",
            Self::Location => "36",
            Self::Dim => "2",
        }
    }
}

impl Screen {
    pub(super) fn new(
        has_colour: bool,
        protocol: Option<ImageProtocol>,
        output_dir: Option<OutputDir>,
    ) -> Self {
        Self {
            terminals: Terminals::look(),
            has_colour,
            stdout: Filter::default(),
            stderr: Filter::default(),
            is_at_start: true,
            knows_of_loss: false,
            images: Images::new(protocol, output_dir),
        }
    }

    /// A prompt, without colours and with them.
    pub(super) fn prompt(&self, number: u64) -> (String, String) {
        let plain = format!("In [{number}]: ");
        let coloured = self.coloured(Colour::Input, &plain);
        (plain, coloured)
    }

    pub(super) fn print(&mut self, text: &str) -> Result<(), Failure> {
        let shown = if self.terminals.stdout {
            let mut shown = String::with_capacity(text.len());
            self.stdout.pass(text, &mut shown);
            Cow::Owned(shown)
        } else {
            Cow::Borrowed(text)
        };
        self.write(&shown)
    }

    /// Standard error is often the same terminal.
    pub(super) fn print_error(&mut self, text: &str) -> Result<(), Failure> {
        if !self.terminals.stderr {
            crate::print::err(text.as_bytes());
            return Ok(());
        }
        let mut shown = String::with_capacity(text.len());
        self.stderr.pass(text, &mut shown);
        self.track_line(&shown);
        crate::print::err(shown.as_bytes());
        Ok(())
    }

    pub(super) fn show_value(&mut self, number: u64, value: &ValueInfo) -> Result<(), Failure> {
        self.start_line()?;
        let label = self.coloured(Colour::Output, &format!("Out[{number}]: "));
        let text = value.mime.get("text/plain").unwrap_or(&value.repr);
        // Text of several lines begins on a line of its own.
        let gap = if text.contains('\n') { "\n" } else { "" };
        self.write(&format!("{label}{gap}{}\n", escape(text)))?;
        self.show_image(&value.mime, |images| images.write_value(&value.mime))
    }

    pub(super) fn show_display(&mut self, shown: &DisplayEvent<'_>) -> Result<(), Failure> {
        let is_text = matches!(shown.kind, DisplayKind::Display | DisplayKind::Update);
        if let (true, Some(text)) = (is_text, shown.mime.get("text/plain")) {
            self.start_line()?;
            self.write(&format!("{}\n", escape(text)))?;
        }
        self.show_image(&shown.mime, |images| images.write_display(shown))
    }

    /// Draws an image on the terminal if that has a protocol for it, else writes it to a file.
    fn show_image(
        &mut self,
        mime: &MimeBundle,
        write: impl FnOnce(&mut Images) -> Result<Option<String>, Failure>,
    ) -> Result<(), Failure> {
        match self.images.draw(mime) {
            Some(Ok(drawn)) => {
                self.start_line()?;
                self.write(&drawn)?;
                if !self.images.writes_everything() {
                    return Ok(());
                }
            }
            Some(Err(DrawError::NoProtocol)) | None => {}
            Some(Err(error)) => self.note(&format!("the image is not shown: {error}"))?,
        }
        match write(&mut self.images) {
            Ok(Some(path)) => self.note(&format!("wrote {path}")),
            Ok(None) => Ok(()),
            Err(failure) => self.note(failure.message()),
        }
    }

    /// Notes that the user has reset the session, and knows that its variables are lost.
    pub(super) const fn expect_loss(&mut self) {
        self.knows_of_loss = true;
    }

    /// Shows how an execution ended, if not with success.
    pub(super) fn show_end(
        &mut self,
        done: &DoneEvent<'_>,
        exception: Option<&Exception>,
    ) -> Result<(), Failure> {
        let restore = self.stdout.finish();
        self.write_raw(&restore)?;
        let restore = self.stderr.finish();
        self.write_raw(&restore)?;
        self.start_line()?;
        for note in truncation_notes(done) {
            self.note(&note)?;
        }
        if !self.knows_of_loss
            && let Some(lost) = lost_before(done.kernel.as_deref(), done.exit_code)
        {
            self.note(&lost)?;
        }
        self.knows_of_loss = done.state == State::Lost;
        let Some(text) = OutcomeSummary::new(done, exception).explain() else { return Ok(()) };
        let text = escape(&text);
        // The last line comes from the program unless the code ended by itself.
        let (traceback, ours) = match done.status {
            Status::Error => (&*text, ""),
            _ => text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end())),
        };
        let traceback = self.traceback(traceback);
        self.write(&traceback)?;
        self.start_line()?;
        if ours.is_empty() { Ok(()) } else { self.note(ours.trim_start_matches("vivarium: ")) }
    }

    /// Colours the locations and the error.
    fn traceback(&self, text: &str) -> String {
        let last = text.trim_end().lines().count();
        let mut coloured = String::with_capacity(text.len() * 2);
        for (number, line) in text.lines().enumerate() {
            let colour = if number + 1 == last {
                Some(Colour::Error)
            } else if line.starts_with("  File ") {
                Some(Colour::Location)
            } else if line.starts_with("Traceback ") {
                Some(Colour::Dim)
            } else {
                None
            };
            coloured.push_str(&colour.map_or_else(|| line.into(), |c| self.coloured(c, line)));
            coloured.push('\n');
        }
        coloured
    }

    pub(super) fn show_inspection(
        &mut self,
        name: &str,
        reply: &InspectReply,
        wants_source: bool,
    ) -> Result<(), Failure> {
        if !reply.found {
            return self.note(&format!("there is no {name}"));
        }
        let source = reply.source.as_ref().filter(|_| wants_source);
        let docs = reply.docstring.as_ref().filter(|_| source.is_none());
        let parts = [
            ("Signature", &reply.signature),
            ("Type", &reply.type_name),
            ("Value", &reply.repr),
            ("Source", &source.cloned()),
            ("Docstring", &docs.cloned()),
        ];
        for (label, part) in parts {
            let Some(part) = part.as_deref().filter(|part| !part.is_empty()) else { continue };
            let gap = if part.contains('\n') { "\n" } else { " " };
            let label = self.coloured(Colour::Location, &format!("{label}:"));
            self.write(&format!("{label}{gap}{}\n", escape(part.trim_end())))?;
        }
        Ok(())
    }

    /// Writes a message of the program on a line of its own, not among what is piped on.
    pub(super) fn note(&mut self, text: &str) -> Result<(), Failure> {
        if !self.terminals.stdout {
            crate::print::note(text);
            return Ok(());
        }
        self.start_line()?;
        let line = self.coloured(Colour::Dim, &escape(text));
        self.write(&format!("{line}\n"))
    }

    /// Writes text that needs no escaping.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.track_line(text);
        self.write_raw(text)
    }

    fn write_raw(&self, text: &str) -> Result<(), Failure> {
        crate::print::out(text.as_bytes())?;
        io::stdout().flush().unwrap_or_default();
        Ok(())
    }

    fn track_line(&mut self, text: &str) {
        // Colours may follow the end of the last line.
        if let Some(last) = text.rsplit('\n').next().filter(|_| !text.is_empty()) {
            let is_empty = last.is_empty() || last.ends_with('\r');
            self.is_at_start = is_empty && (self.is_at_start || text.contains(['\n', '\r']));
        }
    }

    /// Notes that the terminal itself, such as by `^C`, has written to this line.
    pub(super) const fn mark_mid_line(&mut self) {
        self.is_at_start = false;
    }

    /// Ends the last line if it has no end: the editor would write over it.
    pub(super) fn start_line(&mut self) -> Result<(), Failure> {
        if self.is_at_start { Ok(()) } else { self.write("\n") }
    }

    fn coloured(&self, colour: Colour, text: &str) -> String {
        if self.has_colour {
            format!("\x1b[{}m{text}\x1b[0m", colour.code())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(has_colour: bool) -> Screen {
        Screen::new(has_colour, Some(ImageProtocol::Files), None)
    }

    #[test]
    fn the_screen_knows_whether_the_cursor_is_at_the_start_of_a_line() {
        let mut screen = screen(false);
        for (text, is_at_start) in [
            ("a", false),
            ("\n", true),
            ("", true),
            ("a\nb", false),
            ("", false),
            ("c\n", true),
            ("50%\r", true),
            ("51%", false),
        ] {
            screen.track_line(text);
            assert_eq!(screen.is_at_start, is_at_start, "{text:?}");
        }
    }

    #[test]
    fn tracebacks_are_coloured_unless_colours_are_off() {
        let text =
            "Traceback (most recent call last):\n  File \"<1>\", line 1\nZeroDivisionError: x\n";
        assert_eq!(screen(false).traceback(text), text);
        assert_eq!(
            screen(true).traceback(text),
            "\x1b[2mTraceback (most recent call last):\x1b[0m\n\
             \x1b[36m  File \"<1>\", line 1\x1b[0m\n\x1b[31mZeroDivisionError: x\x1b[0m\n"
        );
    }
}
