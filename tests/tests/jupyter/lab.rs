//! JupyterLab with its kernels on the gateway, in a browser.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{program, wait};

use super::switched_on;
use vivarium_tests::chromium::Page;

const CELLS: [&str; 4] = [
    "print('printed')\nx = 41",
    "x + 1",
    "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()",
    "import time\nprint('waiting', flush=True)\ntime.sleep(600)",
];

/// `JupyterLab` on a free port. Its kernels are a gateway's.
struct Lab(Child);

impl Lab {
    /// Starts it, and gives the address of the notebook in this directory.
    fn start(dir: &Path, gateway: &str, token: &str) -> (Self, String) {
        let mut command = Command::new(host::tool("jupyter-lab").unwrap());
        command
            .args(["--allow-root", "--no-browser", "--ip=127.0.0.1", "--port=0"])
            .args(["--LabApp.expose_app_in_browser=True", "--IdentityProvider.token=lab"])
            .arg(format!("--gateway-url={gateway}"))
            .env("JUPYTER_GATEWAY_AUTH_TOKEN", token)
            .env("HOME", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("lab.log")).unwrap())
            .current_dir(dir);
        for of in ["CONFIG", "DATA", "RUNTIME"] {
            command.env(format!("JUPYTER_{of}_DIR"), dir.join(of));
        }
        let lab = Self(command.spawn().unwrap());
        let told = dir.join("RUNTIME").join(format!("jpserver-{}.json", lab.0.id()));
        let told: Value = wait::until("JupyterLab's address", || {
            serde_json::from_slice(&fs::read(&told).ok()?).ok()
        });
        let url = format!("{}lab/tree/notebook.ipynb?token=lab", told["url"].as_str().unwrap());
        (lab, url)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _gone = self.0.kill().is_err();
        let _ended = self.0.wait().is_err();
    }
}

fn notebook() -> Value {
    let cell = |(number, source): (usize, &str)| {
        json!({"cell_type": "code", "id": format!("cell-{number}"), "metadata": {}, "source": source,
               "outputs": [], "execution_count": null})
    };
    let cells: Vec<_> = CELLS.into_iter().enumerate().map(cell).collect();
    let spec = json!({"name": "python3", "language": "python", "display_name": "Python 3"});
    json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": spec}, "cells": cells})
}

#[test]
fn notebook_runs_in_jupyterlab() {
    let needed = [Requirement::JupyterClients, Requirement::Chromium, Requirement::PythonScience];
    if !host::has(&needed) {
        return;
    }
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let dir = program::temp_dir();
    fs::write(dir.path().join("notebook.ipynb"), notebook().to_string()).unwrap();
    let gateway = format!("http://127.0.0.1:{port}/jupyter");
    let (_lab, url) = Lab::start(dir.path(), &gateway, &own.text);
    let mut page = Page::open(&daemon, &url);
    let idle = "jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.status";
    wait::until_true("an idle kernel", || page.value(idle) == "idle");
    // Resolves once all have run; what comes of it is seen in the page.
    page.value("void jupyterapp.commands.execute('notebook:run-all-cells')");
    let outputs = "[...document.querySelectorAll('.jp-OutputArea-output')].map((at) => \
                   at.querySelector('img')?.naturalWidth || at.innerText.trim())";
    let is_plot = |one: &Value| one.as_u64() > Some(100);
    let shown = wait::until("a plot, and what is printed after it", || {
        let shown = page.value(outputs);
        let all = shown.as_array()?;
        (all.iter().any(is_plot) && all.contains(&json!("waiting"))).then_some(shown)
    });
    assert_eq!((&shown[0], &shown[1]), (&json!("printed"), &json!("42")), "{shown}");
    assert_eq!(page.value(idle), "busy");
    page.value("void jupyterapp.commands.execute('notebook:interrupt-kernel')");
    page.until_shown("KeyboardInterrupt");
    wait::until_true("an idle kernel", || page.value(idle) == "idle");
    let kernels = own.ask(&daemon.tcp(), "GET", "/jupyter/api/kernels", None).expect_success();
    assert_eq!(kernels.as_array().unwrap().len(), 1, "{kernels}");
    daemon.stop_and_check();
}
