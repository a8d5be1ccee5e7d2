//! An execution's values, displays and files, all of them together within `max_result_bytes`.

use std::io::Read;

use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::{Changes, ExecutionNumber, Failure, FromAgent};
use vivarium_protocol::outcome::{Display, MimePart, OutputFile, Value};

use super::Session;
use super::context::KernelContext;
use crate::files::{self, FileError, Roots};

/// The largest file in one message; the rest of the frame is for what is beside it.
const FILE_MAX_BYTES: u64 = 32 << 20;

/// What is due to a request when its execution ends.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) execution: ExecutionNumber,
    /// Names of files to bring back.
    pub(super) outputs: Vec<String>,
    /// Bytes of results that it may still give.
    pub(super) results_left: u64,
    /// What changed while it ran, as far as that was read for others. `None` if it is not reported.
    pub(super) changes: Option<Changes>,
}

impl Session<'_> {
    /// An execution begins. What changed before is for those that run already; if there are none, it
    /// is for this one.
    pub(super) fn begin_changes(&mut self) {
        if self.all_due().any(|due| due.changes.is_some()) {
            self.share_changes();
        }
        self.changes.begin(&self.files.workdir);
    }

    /// The files that were changed while an execution ran that is now over, whoever did it.
    pub(super) fn changes_of(&mut self, due: &mut Due) -> Changes {
        let Some(mut own) = due.changes.take() else {
            return Changes::default();
        };
        own.extend(&self.share_changes());
        own
    }

    /// Reads what changed, and notes it for all that run.
    fn share_changes(&mut self) -> Changes {
        let taken = self.changes.take(&self.files.workdir, &self.transfers.hidden());
        for changes in self.all_due().filter_map(|due| due.changes.as_mut()) {
            changes.extend(&taken);
        }
        taken
    }

    fn all_due(&mut self) -> impl Iterator<Item = &mut Due> {
        let code = self.contexts.values_mut().filter_map(|context| context.running.as_mut());
        let code = code.map(|running| &mut running.due);
        code.chain(self.commands.values_mut().map(|running| &mut running.due))
    }

    /// Passes on the value of an execution, behind what was printed before it. The frame it came in
    /// was bounded.
    pub(super) fn pass_value(
        &mut self,
        context: ContextNumber,
        value: Value,
    ) -> Result<(), Failure> {
        self.drain_output(context)?;
        let context = self.contexts.get_mut(&context);
        let Some(running) = context.and_then(|context| context.running.as_mut()) else {
            return Ok(());
        };
        let size = size_of_bundle(&value.mime);
        running.due.results_left = running.due.results_left.saturating_sub(size);
        let execution = running.due.execution;
        self.control.send(&FromAgent::Value { execution, value })
    }

    /// Passes on a display, behind what was printed before it, and lets the kernel continue. Drops one
    /// that is over `max_result_bytes`: the kernel keeps to that limit and says what it leaves out, so
    /// this is for a kernel that does not.
    pub(super) fn pass_display(
        &mut self,
        context: ContextNumber,
        display: Display,
    ) -> Result<(), Failure> {
        self.drain_output(context)?;
        let Some(KernelContext { kernel, running: Some(running), .. }) =
            self.contexts.get_mut(&context)
        else {
            return Ok(());
        };
        let execution = running.due.execution;
        if let Some(left) = running.due.results_left.checked_sub(size_of_bundle(&display.mime)) {
            running.due.results_left = left;
            self.control.send(&FromAgent::Display { execution, display })?;
        }
        kernel.acknowledge_display(execution);
        Ok(())
    }

    pub(super) fn send_outputs(&mut self, due: &Due) -> Result<(), Failure> {
        let execution = due.execution;
        let mut left = due.results_left;
        for name in &due.outputs {
            let file = output_file(&self.files, name, left);
            left = left.saturating_sub(file.size_bytes);
            self.control.send(&FromAgent::File { execution, file })?;
        }
        Ok(())
    }
}

fn size_of_bundle(mime: &[MimePart]) -> u64 {
    let sizes = mime.iter().map(|part| part.mime_type.len().saturating_add(part.data.len()));
    sizes.fold(0, |sum, size| sum.saturating_add(u64::try_from(size).unwrap_or(u64::MAX)))
}

/// The file's content, if it is no more than `left` bytes, or why there is none.
fn output_file(roots: &Roots, name: &str, left: u64) -> OutputFile {
    let name = name.to_owned();
    match read(roots, &name, left) {
        Ok(data) => {
            let size_bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
            OutputFile { name, size_bytes, content: Ok(data.into()) }
        }
        Err(reason) => OutputFile { name, size_bytes: 0, content: Err(reason) },
    }
}

fn read(roots: &Roots, name: &str, left: u64) -> Result<Vec<u8>, String> {
    let reason = |error: FileError| error.to_string();
    let open = || {
        let (root, path) = roots.find(name)?;
        roots.get(root)?.open_file(&files::checked(path)?)
    };
    let (file, stat) = open().map_err(reason)?;
    let size = files::size_bytes(&stat);
    if size > FILE_MAX_BYTES {
        return Err(format!(
            "it has {size} bytes, and a file in a result may have {FILE_MAX_BYTES}: download it"
        ));
    }
    if size > left {
        return Err(format!(
            "it has {size} bytes, and {left} are left of max_result_bytes: download it"
        ));
    }
    let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // No more than was found before, though it may have grown.
    file.take(size).read_to_end(&mut data).map_err(|error| reason(error.into()))?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::files::Workdir;

    fn given(workdir: &Path, name: &str, left: u64) -> Result<Vec<u8>, String> {
        let open = |path| Workdir::open(path, None, None).unwrap();
        let roots = Roots::new(open(workdir), Path::new("/workspace"));
        output_file(&roots, name, left).content.map(|data| data.to_vec())
    }

    #[test]
    fn an_output_file_is_sent_or_the_reason_why_not() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "host").unwrap();
        let workdir = tempfile::tempdir().unwrap();
        let at = |name: &str| workdir.path().join(name);
        fs::write(at("a.txt"), "abc").unwrap();
        fs::File::create(at("huge")).unwrap().set_len(FILE_MAX_BYTES + 1).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let given = |name, left| given(workdir.path(), name, left);
        for name in ["a.txt", "/workspace/a.txt", "/mnt/data/a.txt"] {
            assert_eq!(given(name, 3).unwrap(), b"abc", "{name}");
        }
        let refused = [
            ("a.txt", 2, "2 are left"),
            ("huge", u64::MAX, "download"),
            ("link", 9, "symbolic link"),
            ("fifo", 9, "not a regular file"),
            ("none", 9, "no such file"),
            ("../secret", 9, "relative path"),
            ("/etc/passwd", 9, "absolute path"),
            ("/tmp/x", 9, "no /tmp of its own"),
        ];
        for (name, left, reason) in refused {
            let error = given(name, left).unwrap_err();
            assert!(error.contains(reason), "{name}: {error}");
        }
    }
}
