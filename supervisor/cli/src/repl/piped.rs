//! Lines that come from a pipe or a file: each statement is executed as soon as it is over.

use tokio::io::{AsyncBufReadExt, BufReader};
use vivarium_api_types::{Completeness, IsCompleteReply, IsCompleteRequest};

use super::input::{Input, parse};
use super::read_eval::{Next, ReadEvalLoop, interrupted};
use crate::exit::{Exit, Failure};
use crate::invocation::{IfUnresponsive, interruptible};
use crate::print;
use crate::printer::Printer;

/// The words that go on with a statement although they are not indented.
const CLAUSES: [&str; 4] = ["else", "elif", "except", "finally"];

impl ReadEvalLoop<'_> {
    /// Runs all lines of standard input. Returns what the last statement or command gives.
    pub(super) async fn run_lines(&mut self, mut printer: Printer) -> Result<Exit, Failure> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let (mut pending, mut exit) = (String::new(), Exit::Ok);
        while exit != Exit::Interrupted {
            let line = tokio::select! {
                line = lines.next_line() => line,
                () = self.signals.any() => return Err(interrupted()),
            };
            let unread = |error| Failure::says(Exit::Usage, format!("standard input: {error}"));
            let Some(line) = line.map_err(unread)? else { break };
            if ends_statement(&pending, &line) && self.is_over(&pending).await {
                exit = self.run_piped(&mut pending, &mut printer).await?;
            }
            if pending.is_empty() {
                match parse(&line) {
                    Input::Code(code) if !code.trim_start().starts_with('#') => {}
                    Input::Empty | Input::Code(_) => continue,
                    _ => match self.interpret(&line).await {
                        Ok(Next::Prompt) => {
                            exit = Exit::Ok;
                            continue;
                        }
                        Ok(Next::End) => return Ok(exit),
                        Err(failure) => {
                            exit = print::failure(&failure);
                            continue;
                        }
                    },
                }
            }
            pending.push_str(&line);
            // An empty line says nothing about a block: files have some within blocks.
            let is_cell = pending.starts_with("%%");
            if (is_cell || !line.trim().is_empty()) && self.is_over(&pending).await {
                exit = self.run_piped(&mut pending, &mut printer).await?;
            } else {
                pending.push('\n');
            }
        }
        if pending.trim().is_empty() || exit == Exit::Interrupted {
            return Ok(exit);
        }
        self.run_piped(&mut pending, &mut printer).await
    }

    async fn run_piped(
        &mut self,
        pending: &mut String,
        printer: &mut Printer,
    ) -> Result<Exit, Failure> {
        let if_unresponsive =
            if self.is_kept { IfUnresponsive::Leave } else { IfUnresponsive::Delete };
        let (target, session) = (self.target, self.session.clone());
        let context = self.context.clone();
        let request = self.request(&std::mem::take(pending));
        let execution =
            async { printer.follow(target.start(&session, request, false).await?).await };
        let place = (&*session, context.as_deref());
        interruptible(target, place, if_unresponsive, execution).await
    }

    /// Whether code can be executed, or never: as at the prompt, the session's Python decides. While
    /// something else runs in the session nobody can tell.
    async fn is_over(&self, code: &str) -> bool {
        let request = IsCompleteRequest { code: code.to_owned(), context: self.context.clone() };
        let reply: Result<IsCompleteReply, _> = self.target.assist(&self.session, request).await;
        reply.is_ok_and(|reply| reply.status != Completeness::Incomplete)
    }
}

/// Whether a line may be the first one after a block, or whatever else is pending.
fn ends_statement(pending: &str, line: &str) -> bool {
    let word = line.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    !pending.is_empty()
        && !pending.starts_with("%%")
        && !line.starts_with([' ', '\t', '#'])
        && !line.is_empty()
        && !CLAUSES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_before_a_line_that_is_not_indented() {
        for line in ["x = 1", "elsewhere = 2", "@decorated", ")"] {
            assert!(ends_statement("if x:\n  y\n", line), "{line}");
        }
        for line in ["  z", "", "\tz", "else:", "except* E:", "finally:", "# comment"] {
            assert!(!ends_statement("if x:\n  y\n", line), "{line}");
        }
        assert!(!ends_statement("", "x"));
        assert!(!ends_statement("%%bash\n", "x"));
    }
}
