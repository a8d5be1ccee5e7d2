//! Variables that reach the kernel.

use vivarium_tests::probe::{self, Attempt};
use vivarium_tests::{Session, Setup};

use crate::every_way;

/// Made up.
const SECRETS: [(&str, &str); 4] = [
    ("OPENAI_API_KEY", "sk-planted-by-a-test"),
    ("AWS_SECRET_ACCESS_KEY", "aws-planted-by-a-test"),
    ("HF_TOKEN", "hf-planted-by-a-test"),
    ("LD_LIBRARY_PATH", "/planted/by/a/test"),
];

/// Everything a kernel may have.
const ALLOWED: [&str; 27] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "HOME",
    "TMPDIR",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "STREAMLIT_SERVER_FILE_WATCHER_TYPE",
    "CHOKIDAR_USEPOLLING",
    "WATCHPACK_POLLING",
    "VIVARIUM_PACKAGES",
    "PIP_PYTHON",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "PIP_NO_CACHE_DIR",
    "PIP_NO_INDEX",
    "UV_OFFLINE",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
];

fn setup() -> Setup {
    SECRETS.into_iter().fold(every_way::setup(), |setup, (name, value)| setup.env(name, value))
}

fn names(session: &Session<'_>) -> Vec<String> {
    probe::load(session);
    let names = Attempt::make(session, "sorted(os.environ)").value();
    serde_json::from_value(names).unwrap()
}

#[test]
fn nothing_but_the_listed_variables_is_inherited() {
    let daemon = setup().start();
    let found = names(&daemon.session());
    let more: Vec<_> = found.iter().filter(|name| !ALLOWED.contains(&name.as_str())).collect();
    assert!(more.is_empty(), "{more:?}");
    assert!(found.iter().any(|name| name == "HOME"), "{found:?}");
    daemon.stop_and_check();

    let daemon = setup().without(&["env_scrub"]).start();
    let session = daemon.session();
    assert!(names(&session).iter().any(|name| name == "OPENAI_API_KEY"));
    assert_eq!(session.layer("env_scrub")["status"], "off");
}

#[test]
fn secrets_are_nowhere_to_be_found() {
    let daemon = setup().start();
    let session = daemon.session();
    probe::load(&session);
    // In no environment that /proc shows, nor in the memory of the kernel itself.
    let search = "
import glob, re
found = []
for path in glob.glob('/proc/[0-9]*/environ'):
    try:
        found += re.findall('planted.by.a.test', open(path).read())
    except OSError:
        pass
needle = 'planted-by-' + 'a-test'
for line in open('/proc/self/maps'):
    span, flags, *rest = line.split()
    if flags[0] == 'r' and rest[-1] != '[vvar]':
        low, high = (int(end, 16) for end in span.split('-'))
        with open('/proc/self/mem', 'rb') as memory:
            memory.seek(low)
            try:
                data = memory.read(min(high - low, 1 << 26))
            except OSError:
                continue
            found += re.findall(rb'(?:sk|aws|hf)-planted-[b]y-a-test', data)
print(found)";
    assert_eq!(session.execute(search).ok().stdout(), "[]\n");
    daemon.stop_and_check();
}

#[test]
fn what_the_operator_names_passes() {
    let named = "extra_env = [\"HF_TOKEN\"]";
    let daemon = setup().config("environments.default", named).start();
    let session = daemon.session();
    let token = session.value("__import__('os').environ['HF_TOKEN']");
    assert_eq!(token, "'hf-planted-by-a-test'");
    assert!(!names(&session).iter().any(|name| name == "OPENAI_API_KEY"));
}

#[test]
fn home_and_temporary_files_are_in_the_workdir() {
    let daemon = setup().start();
    let session = daemon.session();
    let _import = session.execute("import os, tempfile").ok();
    for name in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        let value = session.value(&format!("os.environ['{name}']"));
        assert!(value.starts_with("'/workspace"), "{name}={value}");
    }
    assert!(session.value("tempfile.mkdtemp()").starts_with("'/workspace/"));
    assert_eq!(session.value("os.environ['MPLBACKEND']"), "'Agg'");
}

/// Python would go elsewhere without a word.
#[test]
fn temporary_files_have_a_directory_that_is_the_sessions_alone() {
    let daemon = every_way::daemon();
    let session = daemon.session();
    let ask = "import os, stat; at = os.environ['TMPDIR']; \
               at, stat.filemode(os.stat(at).st_mode), os.stat(at).st_uid == os.getuid()";
    assert_eq!(session.value(ask), "('/workspace/.tmp', 'drwx------', True)");
}
