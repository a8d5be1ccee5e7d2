//! The value of a secret is the gate's alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use vivarium_tests::program;
use vivarium_tests::tenants::{Token, entry};

use crate::played::Gate;
use crate::setup;

const VALUE: &str = "Bearer-4f1c77aa-the-value";

/// Looks for the value in all that the session can read of itself: its memory, its environment and its
/// files. The pattern does not match itself.
const SEARCH: &str = r#"
import os, re
pattern = re.compile(b"[-]".join([PARTS]))

def readable(path, limit):
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""

def memory():
    with open("/proc/self/mem", "rb", 0) as mem:
        for line in open("/proc/self/maps"):
            place = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if place and "[v" not in line:
                start, end = (int(x, 16) for x in place.groups())
                try:
                    mem.seek(start)
                    if pattern.search(mem.read(end - start)):
                        return True
                except (OSError, ValueError, OverflowError):
                    pass
    return False

files = []
for root in ("/etc", "/tmp", "/workspace", "/.vivarium"):
    for base, _, names in os.walk(root):
        paths = [os.path.join(base, name) for name in names]
        files += [path for path in paths if os.path.isfile(path) and pattern.search(readable(path, 1 << 20))]
print(memory(), bool(pattern.search(readable("/proc/self/environ", 1 << 20))), files)
"#;

#[test]
fn session_has_a_placeholder_and_the_gate_the_value() {
    let gate = Gate::start();
    let dir = program::temp_dir();
    let file = dir.path().join("value");
    fs::write(&file, format!("{VALUE}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let token = Token::new();
    let secret = format!(
        "[[tenant.secret]]\nname = \"API_KEY\"\nhosts = [\"api.example\"]\nvalue_file = {:?}",
        file.to_str().unwrap()
    );
    let daemon = setup(&gate, "allow = [\"api.example\"]")
        .config("[tenant]", &entry("ann", &token, &secret))
        .start();
    let spec = json!({"id": "s", "network": "trusted"});
    let made = token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&spec)).expect_success();
    let opened = gate.until_serving(1).remove(0);
    let [known] = opened.rules.secrets.as_slice() else { panic!("{opened:?}") };
    assert_eq!((known.value.as_str(), known.header.as_str()), (VALUE, "authorization"));
    assert_eq!(opened.rules.errors(), []);

    let run = |code: &str| {
        let done = token.execute(&daemon.tcp(), "s", code);
        assert_eq!(done["status"], "ok", "{done}");
        done["stdout"].as_str().unwrap().to_owned()
    };
    let inside = run("import os; print(os.environ['API_KEY'])");
    assert_eq!(inside.trim(), known.placeholder);
    assert!(inside.starts_with("vivarium-secret-"), "{inside}");
    // What the gate signs with is trusted by every program that reads one of the variables.
    let certificate = opened.authority.unwrap().certificate_pem;
    let trusted = run("import os, ssl\n\
                       names = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS', 'PIP_CERT']\n\
                       assert len({os.environ[n] for n in names}) == 1\n\
                       subjects = [dict(x[0] for x in c['subject']) for c in ssl.create_default_context().get_ca_certs()]\n\
                       assert {'commonName': 'Vivarium session'} in subjects, subjects[-3:]\n\
                       print(open(os.environ['SSL_CERT_FILE']).read()[-2000:])");
    assert!(trusted.contains(certificate.trim()), "{trusted}");

    let parts: Vec<_> = VALUE.split('-').map(|part| format!("b{part:?}")).collect();
    let search = SEARCH.replace("[PARTS]", &format!("[{}]", parts.join(", ")));
    assert_eq!(run(&search), "False False []\n");
    // The control: what is there is found.
    run(&format!("planted = {VALUE:?}\nopen('/tmp/planted', 'w').write(planted)"));
    assert_eq!(run(&search), "True False ['/tmp/planted']\n");
    // Nor do the API, the log and the configuration say it.
    for text in [made.to_string(), daemon.log(), inside] {
        assert!(!text.contains(VALUE));
    }
    let config = daemon.dir().join("vivarium.toml");
    let shown = program::run(&["config", "show", "--config", config.to_str().unwrap()]).stdout();
    assert!(shown.contains("API_KEY") && !shown.contains(VALUE), "{shown}");

    // Another tenant's or network's session has neither.
    let plain = json!({"id": "plain", "network": "loopback"});
    let _made = token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&plain)).expect_success();
    let done = token.execute(&daemon.tcp(), "plain", "import os; print('API_KEY' in os.environ)");
    assert_eq!(done["stdout"], "False\n");

    // Without its value there is no session that would go without, and only the log says why.
    fs::remove_file(&file).unwrap();
    let refused =
        token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&json!({"network": "trusted"})));
    let problem = refused.expect_problem(503, "egress_unavailable");
    assert!(!problem.to_string().contains("value"), "{problem}");
    daemon.until_logged("secret API_KEY: read");
}
