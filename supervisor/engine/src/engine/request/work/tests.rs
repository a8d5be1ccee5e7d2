//! What requests say, and what is refused.

use vivarium_api_types::{FileSpec, OutputSpec};

use super::files::input_file;
use super::*;
use crate::engine::request::tests::field;
use crate::engine::testing::settings;

#[test]
fn files_stay_beneath_the_workdir_and_have_one_content() {
    let spec = |name: &str, text: Option<&str>, data: Option<&str>| FileSpec {
        name: name.into(),
        text: text.map(Into::into),
        data: data.map(Into::into),
    };
    let input_file = |index, file| input_file(&settings(), index, file);
    for (name, canonical) in [("/workspace/a", "a"), ("/mnt/data/a", "a"), ("/tmp/a/b", "/tmp/a/b")]
    {
        let file = input_file(0, spec(name, Some("x"), None)).unwrap();
        assert_eq!(file.name, canonical);
    }
    assert_eq!(input_file(0, spec("a/b.txt", Some("x"), None)).unwrap().data, b"x");
    assert_eq!(input_file(0, spec("b", None, Some("/wA="))).unwrap().data, b"\xff\0");
    for bad in [
        "",
        "/etc/passwd",
        "../x",
        "a/../../b",
        "a\0b",
        ".",
        "/workspace",
        "/workspace/../x",
        "/tmp/",
        "/tmp/../x",
        "/home/user",
    ] {
        assert_eq!(field(input_file(1, spec(bad, Some("x"), None))), "files[1].name", "{bad:?}");
    }
    assert_eq!(field(input_file(2, spec("a", None, Some("%")))), "files[2].data");
    assert_eq!(field(input_file(3, spec("a", Some("x"), Some("eA==")))), "files[3].text");
    assert_eq!(field(input_file(3, spec("a", None, None))), "files[3].text");
}

#[test]
fn files_to_bring_back_stay_beneath_the_workdir_too() {
    let asked = |names: &[&str]| {
        let spec = |name: &&str| OutputSpec { name: (*name).to_owned(), format: None };
        output_files(&settings(), names.iter().map(spec).collect())
    };
    let some = asked(&["a", "b/c.png", "/workspace/a", "/tmp/a"]).unwrap();
    assert_eq!(some.last().unwrap().name, "/tmp/a", "as it was given");
    assert_eq!(field(asked(&["a", "../b"])), "outputs[1].name");
    assert_eq!(field(asked(&["a"; 257])), "outputs");
}

fn asked(json: &str) -> Result<WorkSpec, EngineError> {
    command(&settings(), serde_json::from_str(json).unwrap())
}

#[test]
fn a_command_is_arguments_or_a_line_for_the_shell() {
    let parts = |json: &str| match asked(json).unwrap().work {
        Work::Command(CommandSpec { argv, stdin: Stdin::Bytes(stdin), cwd, .. }) => {
            (argv, stdin, cwd)
        }
        other => unreachable!("{other:?}"),
    };
    let (argv, stdin, cwd) = parts(r#"{"argv": ["ls", ""], "stdin": "x", "cwd": "a/b"}"#);
    assert_eq!((argv, stdin, cwd.as_str()), (vec!["ls".into(), String::new()], b"x".into(), "a/b"));
    let (argv, stdin, cwd) = parts(r#"{"shell": "ls | wc", "stdin_base64": "/wA="}"#);
    assert_eq!(argv, ["/bin/sh", "-c", "ls | wc"]);
    assert_eq!((stdin, cwd.as_str()), (b"\xff\0".to_vec(), ""));
    for (json, name) in [
        ("{}", "argv"),
        (r#"{"argv": ["ls"], "shell": "ls"}"#, "argv"),
        (r#"{"argv": []}"#, "argv"),
        (r#"{"argv": [""]}"#, "argv"),
        (r#"{"argv": ["a\u0000"]}"#, "argv"),
        (r#"{"shell": "\u0000"}"#, "shell"),
        (r#"{"argv": ["a"], "stdin": "", "stdin_base64": ""}"#, "stdin"),
        (r#"{"argv": ["a"], "stdin_base64": "%"}"#, "stdin_base64"),
        (r#"{"argv": ["a"], "cwd": "/tmp"}"#, "cwd"),
        (r#"{"argv": ["a"], "cwd": "../x"}"#, "cwd"),
        (r#"{"argv": ["a"], "outputs": [{"name": "/x"}]}"#, "outputs[0].name"),
    ] {
        assert_eq!(field(asked(json)), name, "{json}");
    }
    let long = serde_json::json!({ "argv": ["x".repeat(MAX_ARGV_BYTES)] }).to_string();
    assert_eq!(field(asked(&long)), "argv");
}

#[test]
fn run_takes_code_or_argv_or_shell() {
    let asked = |json: &str| run(&settings(), serde_json::from_str(json).unwrap());
    let (spec, session) = asked(r#"{"code": "1", "env": {"A": "1"}}"#).unwrap();
    assert_eq!(spec.work, Work::code("1".into()));
    assert_eq!(session.env.len(), 1);
    assert!(matches!(asked(r#"{"shell": "ls"}"#).unwrap().0.work, Work::Command(_)));
    for (json, name) in [
        ("{}", "code"),
        (r#"{"code": "", "shell": ""}"#, "code"),
        (r#"{"argv": ["a"], "shell": "b"}"#, "code"),
        (r#"{"code": "", "stdin": "x"}"#, "stdin"),
        (r#"{"shell": "ls", "filename": "a.py"}"#, "filename"),
        (r#"{"shell": "ls", "repr": {}}"#, "repr"),
        (r#"{"code": "", "repr": {"max_items": 0}}"#, "repr.max_items"),
        (r#"{"code": "", "repr": {"max_chars": 99}}"#, "repr.max_chars"),
        (r#"{"code": "", "repr": {"max_depth": 0}}"#, "repr.max_depth"),
    ] {
        assert_eq!(field(asked(json)), name, "{json}");
    }
}

#[test]
fn paths_in_the_workdir_are_relative_or_absolute() {
    let settings = settings();
    for (given, relative) in [
        ("", ""),
        (".", ""),
        ("./a//b/", "a/b"),
        ("/workspace", ""),
        ("/workspace/", ""),
        ("/workspace/a b/c.py", "a b/c.py"),
        ("/mnt/data/a.py", "a.py"),
        ("/home/user", ""),
    ] {
        assert_eq!(in_workdir(&settings, given).as_deref(), Some(relative), "{given}");
    }
    let long = "a".repeat(MAX_PATH_BYTES + 1);
    for bad in ["..", "a/../b", "/", "/tmp", "/workspace2", "/workspace/../etc", "a\0", &long] {
        assert_eq!(in_workdir(&settings, bad), None, "{bad}");
    }
}

#[test]
fn code_has_the_name_of_a_file_in_the_workdir() {
    let asked = |filename: &str| {
        let filename = Some(filename.to_owned());
        code(&settings(), ExecuteRequest { filename, ..ExecuteRequest::default() })
    };
    let named = Work::Code {
        code: String::new(),
        filename: "sub/a.py".to_owned(),
        cwd: None,
        env: Vec::new(),
        repr: ReprLimits::IPYTHON,
        tools: false,
        policy: Box::default(),
    };
    assert_eq!(asked("/workspace/sub/a.py").unwrap().work, named);
    for bad in ["", ".", "/workspace", "../a.py", "/etc/a.py", "a\0"] {
        assert_eq!(field(asked(bad)), "filename", "{bad:?}");
    }
}
