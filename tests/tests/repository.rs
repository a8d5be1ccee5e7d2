//! The repository itself: what is written in one place agrees with what is in another.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vivarium_protocol::layer::Layer;
use vivarium_tests::modules;
use vivarium_tests::program::{self, Runner};

fn text(path: &str) -> String {
    let path = program::workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below a directory with this extension; nothing that is built.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_foreign = name == "target" || name == "node_modules" || name.starts_with('.');
        if path.is_dir() && !is_foreign {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The sections of docs/sandbox-layers.md that have a number: heading and text.
fn layer_sections() -> Vec<(String, String)> {
    let page = text("docs/sandbox-layers.md");
    let sections = page.split("\n## ").skip(1).filter_map(|section| {
        let (heading, text) = section.split_once('\n')?;
        let (number, name) = heading.split_once(". ")?;
        number.parse::<usize>().ok()?;
        Some((name.trim().trim_matches('`').to_owned(), text.to_owned()))
    });
    sections.collect()
}

#[test]
fn the_layers_are_documented_in_the_order_of_the_code() {
    let names: Vec<_> = layer_sections().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, Layer::ALL.map(Layer::name));
}

#[test]
fn each_layers_section_links_its_code_and_its_attacks() {
    for (name, section) in layer_sections() {
        for path in
            [format!("agent/src/sandbox/{name}.rs"), format!("tests/suites/attacks/{name}.rs")]
        {
            assert!(section.contains(&format!("](../{path})")), "{name}: no link to {path}");
        }
        assert!(text(&format!("tests/suites/attacks/{name}.rs")).contains("#[test]"), "{name}");
    }
}

#[test]
fn the_configuration_page_is_current() {
    let generated = program::run(&["config", "docs"]).expect_code(0).stdout();
    let is_current = generated == text("docs/configuration.md");
    assert!(is_current, "run: docs/generate");
}

#[test]
fn the_sample_configuration_is_in_order() {
    let sample = program::run(&["config", "sample"]).expect_code(0).stdout();
    let dir = program::temp_dir();
    let path = dir.path().join("sample.toml");
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        let arguments = ["config", "check", path.to_str().unwrap()];
        let _checked = program::run_as(&Runner::Self_, dir.path(), &arguments, "").expect_code(0);
    };
    check(&sample);
    // And with every value that is commented out in it said.
    let said: String = sample
        .lines()
        .map(|line| {
            // After a space, it is a comment: words, or a value to be made up.
            let value = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
            format!("{}\n", value.unwrap_or(line))
        })
        .collect();
    check(&said);
}

#[test]
fn every_member_of_the_workspace_has_its_lints() {
    let manifest = text("Cargo.toml");
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let members: Vec<_> =
        members.split(',').map(|m| m.trim().trim_matches('"')).filter(|m| !m.is_empty()).collect();
    assert!(members.len() >= 4, "{members:?}");
    for member in members {
        let manifest = text(&format!("{member}/Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{member}");
        for inherited in ["version", "edition", "license", "rust-version"] {
            assert!(
                manifest.contains(&format!("{inherited}.workspace = true")),
                "{member}: {inherited}"
            );
        }
    }
}

/// Where unsafe code may stand, besides the edges to C and to compiled components.
const UNSAFE: [&str; 4] = [
    "agent/src/sys.rs",
    "agent/src/sys",
    "runtimes/wasm/src/signals.rs",
    "runtimes/wasm/src/signals",
];

#[test]
fn unsafe_code_is_in_one_module_and_the_c_abi_edge() {
    let root = program::workspace();
    // Put together, so that this very file does not have the words.
    let [block, function, attribute, allowance] =
        [" {", " fn", "(no_mangle)", "_code)"].map(|rest| ["unsafe", rest].concat());
    let mut allowances = Vec::new();
    for path in files(&root, "rs") {
        let code = fs::read_to_string(&path).unwrap();
        let lines = || code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let count = |word: &str| lines().filter(|line| line.contains(word)).count();
        let relative = path.strip_prefix(&root).unwrap();
        if lines().any(|line| line.contains(&allowance) && !line.contains("forbid")) {
            allowances.push(relative.display().to_string());
        }
        if relative == Path::new("agent/src/ffi.rs") {
            // Its pointers, the descriptors that Python has as numbers, and the names of its functions.
            assert_eq!([count(&block), count(&function), count(&attribute)], [14, 0, 13]);
        } else if relative == Path::new("agent/src/ffi/work.rs") {
            // What Python calls for each tick of work, and its objects, which are pointers.
            assert_eq!([count(&block), count(&function), count(&attribute)], [7, 3, 5]);
        } else if relative == Path::new("agent/src/ffi/program.rs") {
            // The supervisor's socket, at the number that a template finds it at.
            assert_eq!([count(&block), count(&function), count(&attribute)], [2, 2, 0]);
        } else if relative == Path::new("runtimes/wasm/src/ffi.rs") {
            // The compiled component, which is machine code, the program's own filter, with its test, and the socket of
            // a template.
            assert_eq!([count(&block), count(&function), count(&attribute)], [5, 0, 0]);
        } else if !UNSAFE.iter().any(|own| relative.starts_with(own)) {
            let found = [&block, &function, &attribute].map(|word| count(word));
            assert_eq!(found, [0; 3], "{}", relative.display());
        }
    }
    assert_eq!(allowances, ["agent/src/ffi.rs", "agent/src/sys.rs", "runtimes/wasm/src/lib.rs"]);
    for library in files(&root.join("supervisor"), "rs") {
        let is_root =
            ["lib.rs", "main.rs"].iter().any(|name| library.ends_with(format!("src/{name}")));
        let forbids = || fs::read_to_string(&library).unwrap().contains("#![forbid(unsafe_code)]");
        assert!(!is_root || forbids(), "{}", library.display());
    }
}

/// What makes the code of every session of runtime `wasm` is what it was when it was chosen.
#[test]
fn the_maker_of_the_component_is_named_by_its_hashes() {
    let requirements = text("runtimes/wasm/requirements.txt").replace("\\\n", "");
    for line in requirements.lines().filter(|line| !line.starts_with('#')) {
        let hashes = line.matches(" --hash=sha256:").count();
        assert!(line.contains("==") && hashes == 2, "one for each architecture: {line}");
    }
    let build = text("runtimes/wasm/build");
    for option in ["--require-hashes", "--no-deps", "--only-binary :all:"] {
        assert!(build.contains(option), "{option}");
    }
}

#[test]
fn a_release_has_every_debian_package() {
    let (page, gate) = (text("docs/releasing.md"), text(".ci/run"));
    for script in ["systemd/deb/build", "systemd/deb/build-wasm"] {
        assert!(program::workspace().join(script).is_file());
        assert!(page.contains(&format!("$({script}")), "{script}");
    }
    assert!(gate.contains("$(systemd/deb/build-wasm target/wasm"));
    let sums = page.lines().find(|line| line.contains("sha256sum")).unwrap();
    assert!(sums.contains("vivarium{,-wasm}_"), "{sums}");
}

/// Crates whose top-level modules use each other in one direction only.
const WITHOUT_CIRCLES: [&str; 10] = [
    "agent/src",
    "agent/protocol/src",
    "supervisor/api-types/src",
    "tests/bench/src",
    "supervisor/cli/src",
    "supervisor/client/src",
    "supervisor/egress/src",
    "supervisor/gate/src",
    "supervisor/engine/src",
    "supervisor/server/src",
];

#[test]
fn top_level_modules_do_not_use_each_other_in_a_circle() {
    for src in WITHOUT_CIRCLES {
        let uses = modules::uses(&program::workspace().join(src));
        assert!(uses.len() > 1, "{src}");
        let circle = modules::circle(&uses);
        assert!(circle.is_empty(), "{src}: {circle:?}");
    }
}

#[test]
fn a_circle_of_modules_is_found() {
    let dir = program::temp_dir();
    let write = |path: &str, code: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, code).unwrap();
    };
    write("lib.rs", "mod above; mod below; mod beside; mod leaf;");
    write("above.rs", "use crate::{below::{Below, beside}, leaf};");
    write("below.rs", "mod inner;");
    write("below/inner.rs", "// use crate::above;\nuse super::super::leaf::Leaf;");
    write("beside.rs", "");
    write("leaf.rs", "pub struct Leaf;");
    let uses = modules::uses(dir.path());
    let used = |name: &str| uses[name].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(
        [used("above"), used("below"), used("leaf")],
        [vec!["below", "leaf"], vec!["leaf"], vec![]]
    );
    assert!(modules::circle(&uses).is_empty());

    write("leaf.rs", "use super::above::Above;");
    let circle = modules::circle(&modules::uses(dir.path()));
    assert_eq!(circle.iter().map(String::as_str).collect::<Vec<_>>(), ["above", "below", "leaf"]);
}

/// What is kept until its scope ends, and is no result.
const GUARDS: [&str; 3] = ["let _alone =", "let _attached =", "let _until_ready ="];

#[test]
fn results_are_dropped_by_one_helper_that_takes_a_reason() {
    let folders = ["agent/src", "agent/protocol/src", "supervisor", "metrics/src"];
    let of_tests = ["tests.rs", "testing.rs", "fixture.rs", "fake.rs"];
    for path in folders.iter().flat_map(|folder| files(&program::workspace().join(folder), "rs")) {
        let is_test = of_tests.iter().any(|name| path.ends_with(name))
            || path
                .components()
                .any(|part| ["tests", "fake"].iter().any(|name| part.as_os_str() == *name));
        let code = fs::read_to_string(&path).unwrap();
        for line in code.split("mod tests {").next().unwrap_or_default().lines().map(str::trim) {
            let is_dropped = line.starts_with("let _")
                && !GUARDS.iter().any(|guard| line.starts_with(guard))
                || [".ok();", ".is_err();"].contains(&line);
            assert!(!is_dropped || is_test, "{}: {line}", path.display());
        }
    }
}

#[test]
fn no_file_of_code_is_too_long() {
    let root = program::workspace();
    let mut long = Vec::new();
    for path in files(&root, "rs") {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        if lines > 400 {
            long.push(path.strip_prefix(&root).unwrap().display().to_string());
        }
    }
    assert_eq!(long, [""; 0], "files of over 400 lines");
}

#[test]
fn every_module_says_what_it_is() {
    for path in files(&program::workspace(), "rs") {
        // A module's own tests are part of it.
        if path.ends_with("tests.rs") {
            continue;
        }
        let code = fs::read_to_string(&path).unwrap();
        assert!(code.starts_with("//! "), "{}", path.display());
    }
}

#[test]
fn nothing_is_left_to_do() {
    let words = ["TO", "FIX", "XX"].map(|start| match start {
        "TO" => "TODO",
        "FIX" => "FIXME",
        _ => "XXX",
    });
    let root = program::workspace();
    let own = root.join("tests/tests/repository.rs");
    let all = ["rs", "py", "md", "toml"].map(|extension| files(&root, extension)).concat();
    for path in all.into_iter().filter(|path| *path != own) {
        let content = fs::read_to_string(&path).unwrap();
        for word in words {
            assert!(!content.contains(word), "{word} in {}", path.display());
        }
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        assert!(!is_code || !content.contains("#[ignore"), "an ignored test in {}", path.display());
    }
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let root = program::workspace();
    let pages = files(&root, "md");
    assert!(pages.iter().any(|page| page.ends_with("docs/sandbox-layers.md")));
    for page in pages {
        let content = fs::read_to_string(&page).unwrap();
        for target in links(&content) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path =
                if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(path.exists(), "{}: {target} does not exist", page.display());
            let headings = || fs::read_to_string(&path).unwrap_or_default();
            let is_there =
                anchor.is_empty() || anchors(&headings()).iter().any(|one| one == anchor);
            assert!(is_there, "{}: {target} has no such heading", page.display());
        }
    }
}

/// Targets of `[text](target)` that are in the repository.
fn links(page: &str) -> Vec<&str> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .filter(|target| !target.contains([' ', '\n']))
        .collect()
}

/// What headings are called in links.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let name = line.trim_start_matches('#').trim().to_lowercase();
            let kept = name.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// What `./test` runs test programs by (tests/limit), as libtest tells of one test and of many.
#[test]
fn a_test_that_hangs_is_ended_and_named() {
    let limit = program::workspace().join("tests/limit");
    let many = "echo 'test a::hangs has been running for over 60 seconds'; \
                while echo 'test b ... ok'; do sleep 0.1; done";
    for said in ["printf 'test a::hangs ... '; sleep 1000", many] {
        let mut command = Command::new(&limit);
        command.args(["/bin/sh", "-c", said]).env("VIVARIUM_TEST_LIMIT_SECS", "1");
        let ended = program::finish(&mut command, "").expect_code(101);
        assert!(ended.stderr().contains("HUNG: a::hangs ran"), "{}", ended.stderr());
    }
    let mut command = Command::new(&limit);
    command.args(["/bin/sh", "-c", "echo 'test a ... ok'; exit 3"]);
    let ended = program::finish(&mut command, "").expect_code(3);
    assert_eq!(ended.stdout(), "test a ... ok\n");
}
