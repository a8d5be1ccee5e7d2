//! The examples do what the README and they themselves say, run as it is written there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::program::{self, Finished, Runner};

/// What the README has in front of the arguments.
const PROGRAM: &str = "target/release/vivarium ";

fn text(path: &str) -> String {
    fs::read_to_string(program::workspace().join(path)).unwrap()
}

/// A directory with the examples in it, which belongs to who runs them, as a clone does: started as
/// root, whoever runs sessions has no right to write there.
fn checkout() -> tempfile::TempDir {
    let dir = program::temp_dir();
    let examples = dir.path().join("examples");
    fs::create_dir(&examples).unwrap();
    for entry in fs::read_dir(program::workspace().join("examples")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            continue;
        }
        fs::copy(entry.path(), examples.join(entry.file_name())).unwrap();
    }
    dir
}

/// Runs an example in `dir` by the one line of the README that does, which has to be the line the
/// example itself gives.
fn run(dir: &Path, example: &str) -> Finished {
    let path = format!("examples/{example}");
    let readme = text("README.md");
    let lines = readme.lines().filter_map(|line| line.split_once(PROGRAM));
    let mut lines = lines.map(|(_, arguments)| arguments.split('#').next().unwrap().trim());
    let arguments = lines.find(|line| line.ends_with(&path)).expect("the README runs it");
    let own = format!("    vivarium {arguments}\n");
    assert!(text(&path).contains(&own), "{path} says otherwise than {own:?}");
    let mut command = program::vivarium(&Runner::Self_, dir);
    command.args(arguments.split(' ')).current_dir(dir);
    program::finish(&mut command, "").expect_code(0)
}

/// The width and height of a PNG image, all of which has to be well formed.
fn dimensions(path: &Path) -> (u32, u32) {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap()))
        .read_info()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    reader.finish().unwrap();
    let (first, rest) = pixels[..frame.buffer_size()].split_first().unwrap();
    assert!(rest.iter().any(|byte| byte != first), "{} is blank", path.display());
    (frame.width, frame.height)
}

#[test]
fn the_plot_is_the_readmes_picture() {
    if !host::has(&[Requirement::PythonScience]) {
        return;
    }
    let dir = checkout();
    let ran = run(dir.path(), "plot.py");
    assert_eq!(ran.stdout(), "");
    let images: Vec<PathBuf> = fs::read_dir(dir.path().join("pictures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "png"))
        .collect();
    assert_eq!(images.len(), 1, "{images:?} {}", ran.stderr());
    assert!(ran.stderr().contains(images[0].file_name().unwrap().to_str().unwrap()), "{ran:?}");
    let shown = dimensions(&program::workspace().join("docs/plot.png"));
    assert_eq!(dimensions(&images[0]), shown);
    // 9 by 3.4 inches, of at least 72 dots each.
    assert!(shown.0 >= 648 && shown.1 >= 244, "{shown:?}");
    assert!(text("README.md").contains("](docs/plot.png)"));
}

#[test]
fn the_sales_are_what_the_readme_shows() {
    let dir = checkout();
    let ran = run(dir.path(), "sales.py");
    let readme = text("README.md");
    let shown = readme.split("```\n").find(|block| block.starts_with("192 rows")).unwrap();
    assert_eq!(ran.stdout(), shown);
}

#[test]
fn what_looks_around_finds_little_inside_and_more_outside() {
    if !host::has(&[Requirement::Landlock]) {
        return;
    }
    let dir = checkout();
    let inside = run(dir.path(), "look_around.py").stdout();
    let line = |said: &str, label: &str| -> String {
        let line = said.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_else(|| panic!("no {label} in {said}")).trim().to_owned()
    };
    assert_eq!(line(&inside, "host name"), "vivarium");
    assert_eq!(line(&inside, "ids"), "uid 1000, gid 1000");
    assert_eq!(line(&inside, "interfaces"), "lo");
    assert_eq!(line(&inside, "homes"), "user, /root: ENOENT");
    assert!(line(&inside, "processes").starts_with("1 visible"), "{inside}");
    let tried: Vec<_> = inside.split_once("\n\n").unwrap().1.lines().collect();
    assert_eq!(tried.len(), 7, "{inside}");
    assert!(!tried.iter().any(|line| line.ends_with("it worked")), "{inside}");
    // The control is the comparison that it offers itself.
    let mut python = std::process::Command::new("/usr/bin/python3");
    python.arg("examples/look_around.py").current_dir(dir.path());
    let outside = program::finish(&mut python, "").expect_code(0).stdout();
    assert_ne!(line(&outside, "processes"), line(&inside, "processes"));
    for label in ["list /var", "open a netlink socket"] {
        assert_eq!(line(&outside, label), "it worked", "{label}");
    }
}
