//! Lists of files.

use serde_json::{Value, json};

use super::Files;

fn page(files: &Files<'_>, query: &str) -> Value {
    files.session.request("GET", &format!("/files?{query}"), None).expect_success()
}

#[test]
fn three_thousand_files_come_in_parts() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os\n\
         for number in range(3000):\n    \
             name = f'd{number % 7}/{number:04}'\n    \
             os.makedirs(os.path.dirname(name), exist_ok=True)\n    \
             open(name, 'w').close()",
    );
    let mut found = Vec::new();
    let mut query = "recursive=true&limit=700".to_owned();
    loop {
        let part = page(&files, &query);
        let entries = part["entries"].as_array().unwrap();
        assert!(entries.len() <= 700);
        found.extend(entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()));
        let Some(next) = part["next"].as_str() else { break };
        query = format!("recursive=true&limit=700&after={next}");
    }
    let mut expected: Vec<_> = (0..3000).map(|n| format!("d{}/{n:04}", n % 7)).collect();
    expected.extend((0..7).map(|n| format!("d{n}")));
    expected.sort();
    assert!(found == expected, "{} and not {}", found.len(), expected.len());
    assert_eq!(files.names(""), (0..7).map(|n| format!("d{n}")).collect::<Vec<_>>());
    assert_eq!(files.names("path=d3&limit=2"), ["d3/0003", "d3/0010"]);
    assert_eq!(files.names("path=d3&limit=2&after=d3/0010"), ["d3/0017", "d3/0024"]);
    assert_eq!(files.delete("d3").status, 204);
    assert_eq!(files.names("").len(), 6);
    daemon.release();
}

#[test]
fn directories_of_the_session_itself_are_in_no_list() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os\n\
         for name in ('.cache/a', '.config/matplotlib/b', '.local/share/c', '.tmp/d', '.mine/e',\n\
                      'sub/.cache/f'):\n    \
             os.makedirs(os.path.dirname(name), exist_ok=True); open(name, 'w').close()",
    );
    let expected = [".mine", ".mine/e", "sub", "sub/.cache", "sub/.cache/f"];
    assert_eq!(files.names("recursive=true"), expected);
    assert_eq!(files.names(""), [".mine", "sub"]);
    // Whoever names one gets it.
    let named = files.names("path=.config&recursive=true");
    assert_eq!(named, [".config/matplotlib", ".config/matplotlib/b"]);
    assert_eq!(files.get(".cache/a").status, 200);
    // A file of such a name is a file.
    files.run("import shutil; shutil.rmtree('.local'); open('.local', 'w').close()");
    assert_eq!(files.names(""), [".local", ".mine", "sub"]);
    daemon.release();
}

#[test]
fn entries_say_what_they_are_and_links_are_not_followed() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os, socket\n\
         open('data.json', 'w').write('{}')\n\
         os.utime('data.json', (1700000000, 1700000000.5))\n\
         os.mkdir('dir'); open('dir/x', 'w').close()\n\
         os.symlink('/etc', 'etc'); os.symlink('nowhere', 'broken'); os.symlink('dir', 'to-dir')\n\
         os.mkfifo('pipe')\n\
         s = socket.socket(socket.AF_UNIX); s.bind('socket')",
    );
    let all = page(&files, "recursive=true");
    let kinds: Vec<_> = all["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["path"].as_str().unwrap(), entry["kind"].as_str().unwrap()))
        .collect();
    let expected = [
        ("broken", "link"),
        ("data.json", "file"),
        ("dir", "directory"),
        ("dir/x", "file"),
        ("etc", "link"),
        ("pipe", "other"),
        ("socket", "other"),
        ("to-dir", "link"),
    ];
    assert_eq!(kinds, expected);
    let data = json!({"path": "data.json", "kind": "file", "size_bytes": 2,
        "modified_at": "2023-11-14T22:13:20.5Z", "mode": "0644",
        "mime_type": "application/json"});
    assert_eq!(all["entries"][1], data);
    assert_eq!(all["entries"][2]["mime_type"], Value::Null);
    let list = |path: &str| files.session.request("GET", &format!("/files?path={path}"), None);
    list("etc").expect_problem(422, "bad_path");
    list("to-dir").expect_problem(422, "bad_path");
    list("to-dir/x").expect_problem(422, "bad_path");
    list("data.json").expect_problem(409, "not_a_file");
    list("pipe").expect_problem(409, "not_a_file");
    list("none").expect_problem(404, "unknown_file");
    daemon.release();
}
