//! The packages that people use, from the registry, as they are.

use std::process::Command;

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::program;
use vivarium_tests::tenants::{Token, entry, two};

use super::switched_on;

#[test]
fn notebooks_run_through_nbclient_papermill_and_others() {
    if !host::has(&[Requirement::JupyterClients]) {
        return;
    }
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let script = program::workspace().join("tests/tests/jupyter/strangers.py");
    let mut python = Command::new(host::tool("python").unwrap());
    python.arg(script).arg(format!("http://127.0.0.1:{port}/jupyter")).arg(&own.text);
    let said = program::finish(&mut python, "").expect_code(0).stdout();
    assert_eq!(said.trim_end(), "passed");
    daemon.stop_and_check();
}
