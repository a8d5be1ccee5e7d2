//! TLS that ends at the gate, for hosts of secrets and for no others.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::tls::{authority, server};
use vivarium_tests::{Daemon, program};

use crate::outside::{Got, Outside};

const VALUE: &str = "sk-4f1c77aa-the-value";

/// Two tenants, the first of whom has a secret for `api.example`.
struct World {
    daemon: Daemon,
    ann: Token,
    bob: Token,
    api: u16,
    plain: u16,
    api_got: Got,
    plain_got: Got,
    /// The authority of both servers.
    outside_pem: String,
    _outside: Outside,
    _dir: tempfile::TempDir,
}

fn world() -> World {
    let (of_outside, issuer) = authority();
    let outside = Outside::trusting(&of_outside.certificate_pem);
    let (api, api_got) = server(&issuer, "api.example");
    let (plain, plain_got) = server(&issuer, "plain.example");
    for name in ["api.example", "plain.example"] {
        outside.zone.put(name, &[&["127.0.0.1"]]);
    }
    let dir = program::temp_dir();
    let file = dir.path().join("value");
    fs::write(&file, VALUE).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let (ann, bob) = (Token::new(), Token::new());
    let secret = format!(
        "[[tenant.secret]]\nname = \"API_KEY\"\nhosts = [\"api.example\"]\nvalue_file = {file:?}"
    );
    let entries = two(&entry("ann", &ann, &secret), &entry("bob", &bob, ""));
    let allow = format!("allow = [\"api.example:{api}\", \"plain.example:{plain}\"]");
    let daemon = outside.setup(&allow).config("[tenant]", &entries).start();
    for (token, id) in [(&ann, "first"), (&ann, "second"), (&bob, "first")] {
        let spec = json!({"id": id, "network": "trusted"});
        let _made = token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&spec)).expect_success();
    }
    World {
        daemon,
        ann,
        bob,
        api,
        plain,
        api_got,
        plain_got,
        outside_pem: of_outside.certificate_pem,
        _outside: outside,
        _dir: dir,
    }
}

impl World {
    #[track_caller]
    fn run(&self, token: &Token, session: &str, code: &str) -> String {
        let done = token.execute(&self.daemon.tcp(), session, code);
        assert_eq!(done["status"], "ok", "{done}");
        done["stdout"].as_str().unwrap().trim().to_owned()
    }

    /// What the host of the secret got since this was last asked.
    fn got(&self) -> String {
        std::mem::take(&mut *self.api_got.lock().unwrap()).concat()
    }
}

/// Code that sends this as a token by urllib, and prints the status or what went wrong.
fn send(host: &str, port: u16, token: &str, authorities: &str) -> String {
    format!(
        "import os, ssl, urllib.request\n\
         context = ssl.create_default_context({authorities})\n\
         headers = {{'Authorization': 'Bearer ' + {token}}}\n\
         request = urllib.request.Request('https://{host}:{port}/', headers=headers)\n\
         try: print(urllib.request.urlopen(request, timeout=30, context=context).status)\n\
         except OSError as e: print(e)"
    )
}

const OWN: &str = "os.environ['API_KEY']";
const REFUSED: &str = "CERTIFICATE_VERIFY_FAILED";

#[test]
fn programs_as_they_are_send_the_secret_to_its_host() {
    let world = world();
    let url = format!("https://api.example:{}/", world.api);
    let requests = format!(
        "import os\n\
         try: import requests\n\
         except ImportError: print('absent')\n\
         else: print(requests.get('{url}', timeout=30, headers={{'Authorization': 'Bearer ' + {OWN}}}).status_code)"
    );
    let curl = format!(
        "import os, subprocess\n\
         command = ['curl', '-sS', '-o', '/dev/null', '-w', '%{{http_code}}', '-H', 'Authorization: Bearer ' + {OWN}]\n\
         try: done = subprocess.run([*command, '{url}'], capture_output=True, text=True)\n\
         except FileNotFoundError: print('absent')\n\
         else: print(done.stdout, done.stderr)"
    );
    for code in [send("api.example", world.api, OWN, ""), requests, curl] {
        let said = world.run(&world.ann, "first", &code);
        let got = world.got();
        let is_sent = said == "200" && got.contains(&format!("Bearer {VALUE}\r\n"));
        assert!(is_sent || (said == "absent" && !code.contains("ssl")), "{said}: {got}");
    }
    assert!(!world.daemon.log().contains(VALUE));
    world.daemon.stop_and_check();
}

#[test]
fn hosts_without_a_secret_and_tenants_without_one_keep_their_own_tls() {
    let world = world();
    let (api, plain) = (world.api, world.plain);
    // The session does not trust the certificate of this host, which the gate does not touch.
    let refused = world.run(&world.ann, "first", &send("plain.example", plain, OWN, ""));
    assert!(refused.contains(REFUSED), "{refused}");
    let trusting = format!("cadata={:?}", world.outside_pem);
    let sent = send("plain.example", plain, OWN, &trusting);
    assert_eq!(world.run(&world.ann, "first", &sent), "200");
    let got = world.plain_got.lock().unwrap().concat();
    assert!(got.contains("Bearer vivarium-secret-") && !got.contains(VALUE), "{got}");
    // For who has no secret, the host of another's is one like any other.
    let sent = send("api.example", api, "'x'", &trusting);
    assert_eq!(world.run(&world.bob, "first", &sent), "200");
    assert!(world.got().contains("Bearer x\r\n"));
    world.daemon.stop_and_check();
}

#[test]
fn a_placeholder_and_an_authority_are_of_no_use_to_another_session() {
    let world = world();
    let api = world.api;
    let show = "import os; print(os.environ['API_KEY'])";
    let placeholder = world.run(&world.ann, "first", show);
    let stolen = format!("{placeholder:?}");
    let trusting = format!("cadata={:?}", world.outside_pem);
    for (token, session, authorities) in
        [(&world.ann, "second", ""), (&world.bob, "first", trusting.as_str())]
    {
        let sent = send("api.example", api, &stolen, authorities);
        assert_eq!(world.run(token, session, &sent), "200");
        let got = world.got();
        assert!(got.contains(&placeholder) && !got.contains(VALUE), "{got}");
    }
    // The control.
    for session in ["first", "second"] {
        assert_eq!(world.run(&world.ann, session, &send("api.example", api, OWN, "")), "200");
        assert!(world.got().contains(VALUE));
    }
    // What signs for one session is believed by no other.
    let show = "import os; print(open(os.environ['SSL_CERT_FILE']).read()[-1500:])";
    let bundle = world.run(&world.ann, "first", show);
    let authority = &bundle[bundle.rfind("-----BEGIN").unwrap()..];
    let sent = send("api.example", api, OWN, &format!("cadata={authority:?}"));
    assert_eq!(world.run(&world.ann, "first", &sent), "200");
    let refused = world.run(&world.ann, "second", &sent);
    assert!(refused.contains(REFUSED), "{refused}");
    world.daemon.stop_and_check();
}

#[test]
fn the_name_within_tls_is_the_one_that_was_asked_for() {
    let world = world();
    let shake_hands = |asked: &str, port: u16, said: &str| {
        format!(
            "import socket, ssl\n\
             place = b'{asked}:{port}'\n\
             s = socket.create_connection(('127.0.0.1', 3128), 30)\n\
             s.sendall(b'CONNECT %b HTTP/1.1\\r\\nHost: %b\\r\\n\\r\\n' % (place, place))\n\
             f = s.makefile('rb', 0)\n\
             assert b' 200 ' in f.readline() and f.readline() == b'\\r\\n'\n\
             c = ssl.create_default_context()\n\
             c.check_hostname, c.verify_mode = False, ssl.CERT_NONE\n\
             try: print(c.wrap_socket(s, server_hostname={said}).version())\n\
             except OSError: print('closed')"
        )
    };
    let (api, plain) = (("api.example", world.api), ("plain.example", world.plain));
    for ((asked, port), said, expected) in [
        (plain, "'plain.example'", "TLSv1.3"),
        (plain, "'api.example'", "closed"),
        (plain, "'other.example'", "closed"),
        (plain, "None", "closed"),
        (api, "'api.example'", "TLSv1.3"),
        (api, "'plain.example'", "closed"),
        (api, "None", "closed"),
    ] {
        let found = world.run(&world.ann, "first", &shake_hands(asked, port, said));
        assert_eq!(found, expected, "{asked} {said}");
    }
    world.daemon.stop_and_check();
}

#[test]
fn a_rule_by_method_holds_for_the_host_of_a_secret() {
    let world = world();
    let entry = format!("GET api.example:{}", world.api);
    let spec = json!({"id": "narrow", "network": "trusted", "egress_allow": [entry]});
    let made = world.ann.ask(&world.daemon.tcp(), "POST", "/v1/sessions", Some(&spec));
    let _made = made.expect_success();
    let get = send("api.example", world.api, OWN, "");
    let post = get.replace("headers=headers", "data=b'x', headers=headers");
    let refused = world.run(&world.ann, "narrow", &post);
    assert!(refused.contains("403"), "{refused}");
    assert_eq!(world.got(), "");
    assert_eq!(world.run(&world.ann, "narrow", &get), "200");
    assert_eq!(world.run(&world.ann, "first", &post), "200");
    world.daemon.stop_and_check();
}
