//! Completions and manual pages, by the judgement of those who read them.

use std::fs;
use std::path::Path;
use std::process::Command;

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::program::{self, Finished};

use super::vivarium;

/// The completions for a shell, in a file.
fn script(dir: &Path, shell: &str) -> String {
    let printed = program::finish(&mut vivarium(dir, &["completions", shell]), "").expect_code(0);
    let path = dir.join(format!("vivarium.{shell}"));
    fs::write(&path, printed.stdout()).unwrap();
    path.display().to_string()
}

fn run(shell: &str, arguments: &[&str]) -> Finished {
    let mut command = Command::new(host::tool(shell).unwrap());
    program::finish(command.args(arguments), "").expect_code(0)
}

#[test]
fn shells_accept_and_use_their_completions() {
    if !host::has(&[Requirement::Shells]) {
        return;
    }
    let dir = program::temp_dir();
    let [bash, zsh, fish] = ["bash", "zsh", "fish"].map(|shell| script(dir.path(), shell));
    for (shell, check, script) in
        [("bash", "-n", &bash), ("zsh", "-n", &zsh), ("fish", "--no-execute", &fish)]
    {
        let checked = run(shell, &[check, script]);
        assert_eq!(checked.stderr(), "", "{shell}");
    }
    let ask = |last: &str, words: &str| {
        format!(
            ". {bash}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _vivarium vivarium {last}; echo ${{COMPREPLY[@]}}"
        )
    };
    let offered = run("bash", &["-c", &ask("cr", "vivarium sessions cr")]).stdout();
    assert_eq!(offered.trim(), "create");
    let offered = run("bash", &["-c", &ask("--max-m", "vivarium run --max-m")]).stdout();
    assert_eq!(offered.trim(), "--max-memory-mb");
    let ask = format!("source {fish}; complete --do-complete 'vivarium run --network lo'");
    assert!(run("fish", &["-c", &ask]).stdout().starts_with("loopback"));
}

#[test]
fn every_command_has_a_manual_page_without_errors() {
    if !host::has(&[Requirement::Mandoc]) {
        return;
    }
    let dir = program::temp_dir();
    let pages = dir.path().join("share/man1");
    let _written =
        program::finish(&mut vivarium(dir.path(), &["man", &pages.display().to_string()]), "")
            .expect_code(0);
    let mut names = Vec::new();
    for page in fs::read_dir(&pages).unwrap() {
        let page = page.unwrap();
        let path = page.path().display().to_string();
        let judged = run("mandoc", &["-T", "lint", "-W", "error", &path]);
        assert_eq!(judged.stdout(), "", "{path}");
        names.push(page.file_name().into_string().unwrap());
    }
    for name in ["vivarium.1", "vivarium-run.1", "vivarium-sessions-create.1"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    let text = run("mandoc", &["-T", "utf8", &pages.join("vivarium-run.1").display().to_string()]);
    let text = text.stdout();
    assert!(text.contains("VIVARIUM-RUN(1)") && text.contains("Exit codes"), "{text}");
}
