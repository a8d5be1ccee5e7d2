//! What a script gets beside its code: its arguments, its input, and the files of a folder.

use std::fs;
use std::path::Path;

use vivarium_api_types::{CommandRequest, ExecuteRequest, FileSpec};

use super::{Input, MAX_BYTES, file_spec, open, usage};
use crate::exit::Failure;
use crate::target::ExecutionRequest;

/// Makes the pipe its standard input, and leaves none there. Whoever comes first makes it; opening it
/// waits for the writer.
const OPEN_INPUT: &str = "exec('''import os, sys
path = os.path.join(os.path.dirname(os.environ[\"TMPDIR\"]), \"NAME\")
try:
    os.mkfifo(path, 0o600)
except FileExistsError:
    pass
file = os.open(path, os.O_RDONLY)
os.unlink(path)
os.dup2(file, 0)
os.close(file)
sys.stdin = sys.__stdin__ = open(0, encoding=\"utf-8\", closefd=False)
''', {})";

/// The command that writes its standard input to the pipe.
pub(super) fn pipe_writer(name: &str) -> CommandRequest {
    let script = r#"mkfifo -m 600 "$0" 2>/dev/null; exec cat >"$0""#;
    CommandRequest {
        argv: Some(["/bin/sh", "-c", script, name].map(str::to_owned).to_vec()),
        stdin_open: true,
        background: true,
        ..CommandRequest::default()
    }
}

/// What Python does when a program is over: it waits for threads that are no daemons, then calls
/// what is registered by atexit, and prints their exceptions. The modules beside a script, which only
/// its own execution finds, are found until then.
const END: &str = r#"exec("""import atexit, posix, sys
if FILE:
    sys.path.insert(0, (posix.environ[b"TMPDIR"].decode().rpartition("/")[0] + "/" + FILE).rpartition("/")[0])
threading = sys.modules.get("threading")
try:
    if threading is not None:
        threading._shutdown()
finally:
    try:
        atexit._run_exitfuncs()
    except Exception:
        pass
""", {"FILE": NAME})"#;

/// Whether hidden files of a folder are copied, and those below hidden folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Copied,
    Skipped,
}

/// What is executed before the script: inside, it would shift the line numbers of tracebacks. `None`
/// if the script needs nothing.
pub(super) fn setup(name: &str, arguments: &[String], input: &Input) -> Option<ExecutionRequest> {
    if arguments.is_empty() && *input == Input::None && name == "-c" {
        return None;
    }
    let all = [name].into_iter().chain(arguments.iter().map(String::as_str));
    let all: Vec<String> = all.map(literal).collect();
    let mut code = format!("__import__('sys').argv[:] = [{}]", all.join(", "));
    if let Input::Pipe(pipe) = input {
        code.push('\n');
        code.push_str(&OPEN_INPUT.replace("NAME", pipe));
    }
    Some(ExecutionRequest::Code(Box::new(ExecuteRequest { code, ..ExecuteRequest::default() })))
}

/// What is executed after code whose session ends with it.
pub(super) fn end(file: Option<&str>, timeout_ms: Option<u64>) -> ExecutionRequest {
    let code = END.replace("NAME", &file.map_or_else(|| "None".to_owned(), literal));
    ExecutionRequest::Code(Box::new(ExecuteRequest {
        code,
        timeout_ms,
        ..ExecuteRequest::default()
    }))
}

/// Whether code reads its standard input, as far as one can tell by looking at it.
pub(super) fn reads_input(code: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let calls = |name: &str| {
        let found = code.match_indices(name);
        found.into_iter().any(|(at, _)| !code.get(..at).unwrap_or_default().ends_with(is_name))
    };
    let attributes = ["sys.stdin", "pdb.set_trace(", "code.interact(", "getpass.getpass("];
    attributes.iter().any(|attribute| code.contains(attribute))
        || ["input(", "breakpoint(", "getpass("].into_iter().any(calls)
}

/// Whether a word in the code hints at it.
pub(super) fn may_read_input(code: &str) -> bool {
    ["input", "stdin"].iter().any(|word| code.contains(word)) || reads_input(code)
}

/// The files in and below a folder, under `name`; `name` is empty for the working directory itself.
pub(super) fn read_folder(
    name: &str,
    folder: &Path,
    hidden: Hidden,
) -> Result<Vec<FileSpec>, Failure> {
    let mut files = Vec::new();
    let mut size = 0;
    let mut folders = vec![(name.to_owned(), folder.to_owned())];
    while let Some((name, folder)) = folders.pop() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let unread = |error| usage(format!("cannot read {}: {error}", folder.display()));
        for entry in fs::read_dir(folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let path = entry.path();
            let Ok(own) = entry.file_name().into_string() else {
                return Err(usage(format!("{}: its name is not UTF-8", path.display())));
            };
            if own == "__pycache__" || (hidden == Hidden::Skipped && own.starts_with('.')) {
                continue;
            }
            let own = if name.is_empty() { own } else { format!("{name}/{own}") };
            // A link to a folder could lead back here.
            if entry.file_type().map_err(unread)?.is_dir() {
                folders.push((own, path));
            } else if path.is_file() {
                let content = open(&path.to_string_lossy())?;
                size += content.len() as u64;
                if size > MAX_BYTES {
                    let limit = MAX_BYTES >> 20;
                    let folder = folder.display();
                    return Err(usage(format!(
                        "the files in {folder} are larger than {limit} MiB"
                    )));
                }
                files.push(file_spec(own, content));
            }
        }
    }
    Ok(files)
}

/// `text` as a Python string literal.
fn literal(text: &str) -> String {
    let mut literal = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => literal.extend(['\\', c]),
            c if c.is_control() => literal.push_str(&format!("\\U{:08x}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_arguments_cannot_leave_their_string_literals() {
        let arguments = ["it's".to_owned(), "\\' + x\n".to_owned(), "é".to_owned()];
        let Some(ExecutionRequest::Code(setup)) = setup("a.py", &arguments, &Input::None) else {
            unreachable!("arguments need one")
        };
        assert_eq!(
            setup.code,
            "__import__('sys').argv[:] = ['a.py', 'it\\'s', '\\\\\\' + x\\U0000000a', 'é']"
        );
        assert!(setup.files.is_empty());
    }

    #[test]
    fn code_without_arguments_and_input_needs_no_setup() {
        assert!(setup("-c", &[], &Input::None).is_none());
        let input = Input::Pipe(".stdin-7".to_owned());
        let Some(ExecutionRequest::Code(setup)) = setup("-c", &[], &input) else {
            unreachable!("input needs one")
        };
        assert!(setup.code.contains(".stdin-7") && !setup.code.contains("NAME"));
    }

    #[test]
    fn code_that_reads_its_input_is_known() {
        for code in
            ["x = input()", "input('name? ')", "for line in sys.stdin: pass", "breakpoint()"]
        {
            assert!(reads_input(code), "{code}");
        }
        for code in ["def read_input(x): pass", "model.input(1)", "inputs = [stdin]"] {
            assert!(!reads_input(code), "{code}");
        }
    }

    #[test]
    fn a_folder_is_read_with_what_is_below_it() {
        let temp = tempfile::tempdir().unwrap();
        for (name, text) in [("a.py", "a"), (".env", "b"), ("pkg/b.py", "c"), ("pkg/.c", "")] {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir(temp.path().join("__pycache__")).unwrap();
        fs::write(temp.path().join("__pycache__/a.pyc"), "x").unwrap();
        std::os::unix::fs::symlink(temp.path(), temp.path().join("loop")).unwrap();
        std::os::unix::fs::symlink("a.py", temp.path().join("link.py")).unwrap();
        let names = |name: &str, hidden| {
            let files = read_folder(name, temp.path(), hidden).unwrap();
            let mut names: Vec<_> = files.into_iter().map(|file| file.name).collect();
            names.sort();
            names
        };
        assert_eq!(names("", Hidden::Skipped), ["a.py", "link.py", "pkg/b.py"]);
        let all = ["d/.env", "d/a.py", "d/link.py", "d/pkg/.c", "d/pkg/b.py"];
        assert_eq!(names("d", Hidden::Copied), all);
        assert!(read_folder("", &temp.path().join("missing"), Hidden::Copied).is_err());
    }
}
