//! Hostile pages in a real browser, which has every right that its user has: it reaches the API, and
//! has opened another session's preview.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vivarium_tests::chromium;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::{Daemon, Session, Setup, program, wait};

use crate::session_with;

/// Serves `pages` by path, and anything else as what a victim would not want known.
const SITE: &str = r"
pages = {}
def site(peer):
    path = heads[-1].split()[1].decode().split('?')[0]
    body = pages.get(path, 'victim').encode()
    peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
serve(8000, site)";

/// What a page tries, one after the other; it writes what it learned and what it could do.
const ATTACK: &str = r#"<html><body>untouched<script>
document.body.textContent = "scripts run";
const api = "API", victim = "VICTIM", done = {};
const attempt = async (name, action) => {
    const late = new Promise((good) => setTimeout(() => good("nothing came of it"), 10000));
    try { done[name] = String(await Promise.race([action(), late])); }
    catch (error) { done[name] = "refused"; }
};
const post = {method: "POST", headers: {"Content-Type": "text/plain"}};
const run = {...post, body: JSON.stringify({code: "1"})};
(async () => {
    await attempt("own", async () => (await fetch("/own")).text());
    await attempt("read", async () => (await fetch(api + "/v1/sessions")).text());
    await attempt("create", async () => (await fetch(api + "/v1/sessions", {...post, body: "{}"})).text());
    await attempt("blind", async () => (await fetch(api + "/v1/run", {...run, mode: "no-cors"})).type);
    await attempt("json", async () => (await fetch(api + "/v1/run", {...run,
        headers: {"Content-Type": "application/json"}})).text());
    await attempt("delete", async () => (await fetch(api + "/v1/sessions/ID", {method: "DELETE"})).text());
    await attempt("port", async () => (await fetch(api + "/v1/sessions/ID/ports/8000/port")).text());
    await attempt("image", () => new Promise((good, bad) => {
        const image = new Image(); image.onload = good; image.onerror = bad;
        image.src = api + "/v1/sessions/ID/ports/8000/image"; }));
    await attempt("victim", async () => (await fetch(victim + "/read", {credentials: "include"})).text());
    await attempt("blind victim", async () => (await fetch(victim + "/blind",
        {...post, mode: "no-cors", credentials: "include"})).type);
    await attempt("script", () => new Promise((good, bad) => {
        const script = document.createElement("script"); script.onload = good; script.onerror = bad;
        script.src = victim + "/script"; document.head.append(script); }));
    await attempt("socket", () => new Promise((good, bad) => {
        const socket = new WebSocket(victim.replace("http", "ws") + "/socket");
        socket.onopen = good; socket.onerror = bad; }));
    await attempt("cookie", () => { document.cookie = "__Host-vivarium-preview=x; Secure; Path=/";
        return document.cookie.includes("vivarium"); });
    await attempt("worker", async () => { await navigator.serviceWorker.register(api + "/v1/sessions/ID/ports/8000/worker.js"); });
    await fetch("/done?" + encodeURIComponent(JSON.stringify(done)));
})();
</script></body></html>"#;

/// Chromium, on its way to a page.
fn browser(daemon: &Daemon, profile: &Path, url: &str) -> Command {
    let mut command = Command::new(chromium::PROGRAM);
    command
        .args(chromium::arguments(daemon, profile))
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What a page shows once it has loaded.
#[track_caller]
fn shown(mut browser: Command) -> String {
    let output = browser.arg("--dump-dom").stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn preview(session: &Session<'_>) -> String {
    let made = session.request("POST", "/previews", Some(&json!({"port": 8000}))).expect_success();
    made["url"].as_str().unwrap().to_owned()
}

/// The paths that a session's server was asked for.
fn asked(session: &Session<'_>) -> String {
    session.value(
        // Chromium opens connections ahead of need, and closes them without a word.
        "sorted({head.split()[1].decode().split('?')[0] for head in heads if head} - {'/favicon.ico'})",
    )
}

#[test]
fn hostile_page_can_drive_neither_the_api_nor_another_session() {
    if !host::has(&[Requirement::Chromium]) {
        return;
    }
    let daemon = Setup::default().config("preview", chromium::PREVIEWS).start();
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let api = format!("http://localhost:{port}");
    let (victim, hostile) = (session_with(&daemon, SITE), session_with(&daemon, SITE));
    let profile = program::temp_dir();
    let visit = |url: &str| browser(&daemon, profile.path(), url);
    let shown = |url: &str| shown(visit(url));

    let url = preview(&victim);
    let origin = url.split("/?").next().unwrap();
    let seen = shown(&url);
    assert!(seen.contains("victim"), "{seen}");
    // The cookie opens it from now on.
    let seen = shown(&format!("{origin}/again"));
    assert!(seen.contains("victim"), "{seen}");
    assert_eq!(asked(&victim), "['/', '/again']");

    let page = ATTACK.replace("API", &api).replace("VICTIM", origin).replace("ID", &victim.id);
    let put = format!("pages['/'] = pages['/hostile'] = {page:?}");
    assert_eq!(hostile.execute(&put).ok().stderr(), "");
    let before = daemon.request("GET", "/v1/sessions", None).expect_success();
    // Without the port it would leave at once.
    let mut open = visit(&preview(&hostile)).arg("--remote-debugging-port=0").spawn().unwrap();
    let done = wait::until("the page's report", || {
        let found = hostile.value(
            "__import__('urllib.parse').parse.unquote(next((head.split()[1].decode().partition('?')[2] \
             for head in heads if b'/done' in head), ''))",
        );
        serde_json::from_str::<Value>(found.trim_matches('\'')).ok()
    });
    open.kill().unwrap();
    open.wait().unwrap();
    for (name, found) in done.as_object().unwrap() {
        let expected = match name.as_str() {
            "own" => "victim",
            // It learns nothing of what it sent without asking whether it may.
            "blind" | "blind victim" => "opaque",
            "cookie" => "false",
            _ => "refused",
        };
        assert_eq!(found, expected, "{name}: {done}");
    }
    assert_eq!(done.as_object().unwrap().len(), 14, "{done}");
    let after = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(ids(&before), ids(&after), "sessions made or ended");
    assert_eq!(victim.info()["state"], "idle");
    assert_eq!(asked(&victim), "['/', '/again']", "requests that reached the victim");
    assert_eq!(victim.value("1 + 1"), "2");

    // On a path of the API a page runs nothing, and its images are nobody's.
    let image = format!("<img src={api}/v1/sessions/{}/ports/8000/image>", victim.id);
    let put = format!("pages['/hostile'] += '<p>shown</p>{image}'");
    assert_eq!(hostile.execute(&put).ok().stderr(), "");
    let seen = shown(&format!("{api}/v1/sessions/{}/ports/8000/hostile", hostile.id));
    assert!(seen.contains("untouched") && seen.contains("shown"), "{seen}");
    assert_eq!(asked(&victim), "['/', '/again']", "requests that reached the victim");
    daemon.stop_and_check();
}

/// Loads pages as scripts and in frames of each kind, and then goes to each of another origin.
const FRAMES: &str = r#"<html><body><script>
const pages = PAGES, kinds = {iframe: "src", embed: "src", object: "data", script: "src"};
for (const [kind, attribute] of Object.entries(kinds))
    for (const page of pages) {
        const frame = document.createElement(kind);
        frame[attribute] = page;
        document.body.append(frame);
    }
const others = pages.filter((page) => page.startsWith("http"));
others.forEach((page, at) => setTimeout(() => { location = page; }, 2000 + 1000 * at));
setTimeout(() => fetch("/done"), 2000 + 1000 * others.length);
</script></body></html>"#;

/// Neither opened nor framed nor loaded does a page that code displayed run where the API is. The
/// control is the same page on a server of its own.
#[test]
fn hostile_output_is_not_run_by_a_browser() {
    if !host::has(&[Requirement::Chromium]) {
        return;
    }
    let daemon = Setup::default().config("preview", "url = \"http://preview.localhost\"").start();
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let session = session_with(&daemon, SITE);
    let url = preview(&session);
    let origin = url.split("/?").next().unwrap();
    // Of these two a script on the API's own origin would reach the second.
    let api = format!("http://localhost:{port}{}", session.path("/ports/8000"));
    let put = format!(
        "script = 'for (const to of [{origin:?}, {api:?}]) new Image().src = to + \"/ran-\" + WHERE'
html = '<body>shown<script>' + script + '</script></body>'
svg = '<svg xmlns=\"http://www.w3.org/2000/svg\"><script><![CDATA[' + script + ']]></script></svg>'
page = lambda text, where: text.replace('WHERE', repr(where))
display({{'text/html': page(html, 'html'), 'image/svg+xml': page(svg, 'svg'),
         'text/javascript': page(script, 'script')}}, raw=True)
pages['/control'] = page(html, 'control')
pages['/control.js'] = page(script, 'control-script')
pages['/'] = 'opened'"
    );
    let shown_by = session.execute(&put).ok();
    let id = shown_by.0["execution_id"].as_str().unwrap();
    let part = |kind: &str| {
        let path = session.path(&format!("/executions/{id}/outputs/displays/0?mime_type={kind}"));
        assert_eq!(daemon.request("GET", &path, None).status, 200, "{kind}");
        format!("http://localhost:{port}{path}")
    };
    let parts = ["text/html", "image/svg%2Bxml", "text/javascript"].map(part);
    let profile = program::temp_dir();
    let visit = |url: &str| browser(&daemon, profile.path(), url);
    assert!(shown(visit(&url)).contains("opened"));
    let ran = || {
        session.value("sorted({head.split()[1].decode().rpartition('/ran-')[2] for head in heads if head and b'/ran-' in head.split()[1]})")
    };

    let pages: Vec<_> =
        parts.iter().map(String::as_str).chain(["/control", "/control.js"]).collect();
    let frames = FRAMES.replace("PAGES", &json!(pages).to_string());
    let _put = session.execute(&format!("pages['/frames'] = {frames:?}")).ok();
    let frames = format!("{origin}/frames");
    let mut open = visit(&frames).arg("--remote-debugging-port=0").spawn().unwrap();
    wait::until("the page's report", || {
        (session.value("any(mark in head for head in heads for mark in (b'/done', b'/ran-html'))")
            == "True")
            .then_some(())
    });
    open.kill().unwrap();
    open.wait().unwrap();
    assert_eq!(ran(), "['control', 'control-script']");
    daemon.stop_and_check();
}

fn ids(listed: &Value) -> Vec<String> {
    let all = listed["sessions"].as_array().unwrap().iter();
    let mut ids: Vec<_> = all.map(|one| one["id"].to_string()).collect();
    ids.sort_unstable();
    ids
}
