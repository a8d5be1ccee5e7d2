//! Much memory, and as many files as a session may have. With `VIVARIUM_TEST_LARGE` it is a gigabyte, and 65,000.

use serde_json::json;

use crate::{images, session_named, suspend};

/// So many, or so many for long.
fn size(short: u32, long: u32) -> u32 {
    if std::env::var_os("VIVARIUM_TEST_LARGE").is_none() { short } else { long }
}

#[test]
fn much_memory_comes_back_to_the_last_byte() {
    let daemon = images(&[]).config("images", "max_mb = 4096").start();
    let session = session_named(&daemon, "a");
    let (count, digest) = (size(8, 128), "[hashlib.sha256(part).hexdigest() for part in parts]");
    let begin = format!(
        "import hashlib, random\nparts = [random.randbytes(8 << 20) for _ in range({count})]\n\
         before = {digest}"
    );
    let _made = session.execute_for(120_000, &begin).ok();
    let asleep = suspend(&session).expect_success();
    let bytes = asleep["image"]["size_bytes"].as_u64().unwrap();
    assert!(bytes > u64::from(count) << 23, "{bytes}");
    assert_eq!(session.execute_for(120_000, &format!("{digest} == before")).ok().result(), "True");
    daemon.stop_and_check();
}

#[test]
fn many_files_come_back_with_what_is_in_them() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let count = size(4_000, 65_000);
    let begin = format!(
        "import hashlib, os\n\
         for number in range({count} // 100):\n    \
             os.mkdir(f'd{{number}}')\n    \
             for other in range(98):\n        \
                 open(f'd{{number}}/f{{other}}', 'w').write(str((number, other)))\n    \
             os.link(f'd{{number}}/f0', f'd{{number}}/linked')"
    );
    let _made = session.execute_with(&json!({"code": begin, "timeout_ms": 120_000})).ok();
    let digest = "tree = hashlib.sha256()\n\
                  for where, directories, files in os.walk('.'):\n    \
                      directories.sort()\n    \
                      for file in sorted(files):\n        \
                          path = os.path.join(where, file)\n        \
                          tree.update(repr((path, open(path).read(), os.stat(path).st_nlink)).encode())\n\
                  tree.hexdigest()";
    let before = session.execute_for(120_000, digest).ok();
    let _asleep = suspend(&session).expect_success();
    let after = session.execute_for(120_000, digest).ok();
    assert_eq!(after.result(), before.result());
    daemon.stop_and_check();
}
