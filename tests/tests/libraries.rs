//! The libraries people use work under the whole sandbox (SPEC section 1, seccomp).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;
use vivarium_tests::Daemon;
use vivarium_tests::host::{self, Requirement};

/// Runs each piece of code in a session of its own; its last expression has to be `True`.
#[track_caller]
fn all_work(pieces: &[&str]) {
    let daemon = Daemon::start();
    for code in pieces {
        let session = daemon.session();
        // Generous: imports are slow on an emulated machine.
        let outcome = session.execute_with(&json!({"code": code, "timeout_ms": 300_000})).ok();
        assert_eq!(outcome.result(), "True", "{code}\n{outcome}");
        assert_eq!(outcome.stderr(), "", "{code}");
        assert_eq!(session.request("DELETE", "", None).status, 204);
    }
    daemon.stop_and_check();
}

#[track_caller]
fn all_work_with_science(pieces: &[&str]) {
    if host::has(&[Requirement::PythonScience]) {
        all_work(pieces);
    }
}

#[test]
fn numpy() {
    all_work_with_science(&[
        "import numpy as np\na = np.random.default_rng(0).random((300, 300))\n\
         bool(np.allclose(np.linalg.inv(a) @ a, np.eye(300), atol=1e-6))",
        "import numpy as np\nnp.save('a.npy', np.arange(10**6))\n\
         bool(np.load('a.npy', mmap_mode='r').sum() == 499999500000)",
        "import numpy as np, threading\nresults = []\n\
         def work(): results.append(float((np.ones((200, 200)) @ np.ones((200, 200))).sum()))\n\
         threads = [threading.Thread(target=work) for _ in range(4)]\n\
         [t.start() for t in threads]; [t.join() for t in threads]\nresults == [8000000.0] * 4",
    ]);
}

#[test]
fn pandas() {
    all_work_with_science(&[
        "import pandas as pd, io\nframe = pd.read_csv(io.StringIO('k,v\\na,1\\nb,2\\na,3'))\n\
         frame.groupby('k').v.sum().to_dict() == {'a': 4, 'b': 2}",
        "import pandas as pd\npd.DataFrame({'x': range(1000)}).to_csv('x.csv')\n\
         int(pd.read_csv('x.csv').x.sum()) == 499500",
        "import pandas as pd\npd.to_datetime('2024-02-29 12:00').tz_localize('Europe/Berlin').hour == 12",
    ]);
}

#[test]
fn matplotlib() {
    all_work_with_science(&[
        "import io, matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2, 3]); \
         axes.set_title('title é')\nout = io.BytesIO(); figure.savefig(out, format='png'); \
         out.getvalue()[:4] == b'\\x89PNG'",
        "import matplotlib; matplotlib.get_backend().lower() == 'agg'",
    ]);
}

#[test]
fn scipy_and_pillow() {
    all_work_with_science(&[
        "from scipy import optimize\nbool(abs(optimize.brentq(lambda x: x * x - 2, 0, 2) - 2 ** 0.5) < 1e-9)",
        "import numpy as np\nfrom scipy import sparse, linalg\n\
         bool(linalg.norm(sparse.eye(100).toarray() - np.eye(100)) == 0)",
        "from PIL import Image\nimport io\nout = io.BytesIO(); Image.new('RGB', (64, 64), 'red').save(out, 'JPEG')\n\
         Image.open(io.BytesIO(out.getvalue())).size == (64, 64)",
    ]);
}

#[test]
fn databases_and_archives() {
    all_work(&[
        "import sqlite3\ndb = sqlite3.connect('x.db')\ndb.execute('pragma journal_mode=wal')\n\
         db.execute('create table t (x)'); db.executemany('insert into t values (?)', [(n,) for n in range(100)])\n\
         db.commit(); db.execute('select sum(x) from t').fetchone() == (4950,)",
        "import sqlite3; sqlite3.connect(':memory:').execute('select 6 * 7').fetchone() == (42,)",
        "import dbm, shelve\nwith shelve.open('s') as s: s['k'] = [1]\nwith shelve.open('s') as s: ok = s['k'] == [1]\nok",
        "import zipfile\nwith zipfile.ZipFile('x.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', 'b' * 1000)\n\
         zipfile.ZipFile('x.zip').read('a') == b'b' * 1000",
        "import tarfile, os\nopen('f', 'w').write('x')\nwith tarfile.open('x.tar.gz', 'w:gz') as t: t.add('f')\n\
         tarfile.open('x.tar.gz').getnames() == ['f']",
        "import gzip, bz2, lzma\nall(m.decompress(m.compress(b'x' * 999)) == b'x' * 999 for m in (gzip, bz2, lzma))",
        "import csv, io\nlist(csv.reader(io.StringIO('a,b\\n'))) == [['a', 'b']]",
        "import hashlib, secrets, uuid, ssl\nlen(hashlib.sha256(secrets.token_bytes(9)).hexdigest()) == 64 and ssl.create_default_context() is not None",
    ]);
}

#[test]
fn files_of_every_kind() {
    all_work(&[
        "import tempfile, os\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('x'); f.flush(); os.fsync(f.fileno()); ok = os.path.getsize(f.name) == 1\nok",
        "import tempfile\nwith tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').write('x')\nTrue",
        "import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x'); f.seek(0); ok = f.read() == b'x'\nok",
        "import os, shutil, pathlib\nos.makedirs('a/b'); pathlib.Path('a/b/c').write_text('x'); os.rename('a/b/c', 'a/d'); shutil.copytree('a', 'e')\n\
         os.symlink('e/d', 'l'); os.link('e/d', 'h'); shutil.rmtree('a'); pathlib.Path('l').read_text() + pathlib.Path('h').read_text() == 'xx'",
        "import fcntl, mmap, os\nf = open('m', 'w+b'); f.truncate(8192); fcntl.flock(f, fcntl.LOCK_EX); m = mmap.mmap(f.fileno(), 8192); m[0:2] = b'ok'; m.flush(); open('m', 'rb').read(2) == b'ok'",
        "import os\nr = os.open('/dev/null', os.O_RDWR); os.write(r, b'x') == 1 and os.read(r, 1) == b'' and len(os.urandom(8)) == 8",
        "import os\nos.set_inheritable(0, True); os.get_terminal_size.__name__ == 'get_terminal_size' and not os.isatty(1)",
        "import shutil\nshutil.disk_usage('.').total > 0 and shutil.which('sh') is not None",
    ]);
}

#[test]
fn threads_and_loops() {
    all_work(&[
        "import threading\nlocal = []\nts = [threading.Thread(target=local.append, args=(n,)) for n in range(20)]\n\
         [t.start() for t in ts]; [t.join() for t in ts]\nsorted(local) == list(range(20))",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool: r = list(pool.map(abs, range(-50, 0)))\nr == list(range(50, 0, -1))",
        "import asyncio\nasync def main():\n    reader, writer = [], []\n    async def serve(r, w): w.write(await r.readline()); await w.drain(); w.close()\n\
         \x20   server = await asyncio.start_server(serve, '127.0.0.1', 0)\n    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())\n\
         \x20   w.write(b'echo\\n'); line = await r.readline(); server.close(); return line\nasyncio.run(main()) == b'echo\\n'",
        "import asyncio\nprocess = await asyncio.create_subprocess_exec('echo', 'hi', stdout=asyncio.subprocess.PIPE)\n(await process.communicate())[0] == b'hi\\n'",
        "import asyncio\nawait asyncio.to_thread(sum, [1, 2]) == 3",
        "import signal, time\nhit = []\nsignal.signal(signal.SIGALRM, lambda *_: hit.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01)\nwhile not hit: time.sleep(0.001)\nhit == [1]",
        "import queue, sched, time, select\ns = sched.scheduler(); out = []; s.enter(0, 1, out.append, (1,)); s.run(); out == [1]",
    ]);
}

#[test]
fn processes_of_multiprocessing() {
    let work = "def square(n): return n * n\n";
    let pieces = [
        "import multiprocessing as mp\nwith mp.get_context('fork').Pool(3) as pool: r = pool.map(square, range(10))\nr == [n * n for n in range(10)]",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as pool: r = list(pool.map(square, range(5)))\nr == [0, 1, 4, 9, 16]",
        "import multiprocessing as mp\nq = mp.Queue(); p = mp.Process(target=q.put, args=('x',)); p.start(); r = q.get(); p.join(); r == 'x'",
        "import multiprocessing as mp\nv = mp.Value('i', 0); l = mp.Lock()\ndef add():\n    with l: v.value += 1\nps = [mp.Process(target=add) for _ in range(4)]\n[p.start() for p in ps]; [p.join() for p in ps]\nv.value == 4",
        "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=1 << 20); s.buf[:2] = b'ok'\nt = shared_memory.SharedMemory(s.name); r = bytes(t.buf[:2]); t.close(); s.close(); s.unlink(); r == b'ok'",
        "import multiprocessing as mp\na, b = mp.Pipe(); p = mp.Process(target=b.send, args=([1, 2],)); p.start(); r = a.recv(); p.join(); r == [1, 2]",
        "import multiprocessing as mp\nm = mp.Manager(); d = m.dict(); d['k'] = 1; r = dict(d) == {'k': 1}; m.shutdown(); r",
        // A spawned child imports by name, so what it runs is in a file.
        "open('worker.py', 'w').write('def cube(n): return n ** 3')\nimport multiprocessing as mp, worker\nwith mp.get_context('spawn').Pool(2) as pool: r = pool.map(worker.cube, range(4))\nr == [0, 1, 8, 27]",
        "open('worker.py', 'w').write('def cube(n): return n ** 3')\nimport multiprocessing as mp, worker\nwith mp.get_context('forkserver').Pool(2) as pool: r = pool.map(worker.cube, range(4))\nr == [0, 1, 8, 27]",
    ];
    let pieces: Vec<_> = pieces.iter().map(|piece| format!("{work}{piece}")).collect();
    all_work(&pieces.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn programs_of_subprocess() {
    all_work(&[
        "import subprocess as s\ns.run(['true'], stdin=s.DEVNULL, stdout=s.DEVNULL, stderr=s.DEVNULL).returncode == 0",
        "import subprocess as s\ns.run('echo $((6 * 7)) | cat', shell=True, capture_output=True, text=True).stdout == '42\\n'",
        "import subprocess as s\np = s.Popen(['cat'], stdin=s.PIPE, stdout=s.PIPE); p.communicate(b'x' * 200000)[0] == b'x' * 200000",
        "import subprocess as s, sys\ns.check_output([sys.executable, '-c', 'print(6 * 7)'], text=True) == '42\\n'",
        "import subprocess as s\ns.run(['sh', '-c', 'exit 3']).returncode == 3 and s.run(['sh', '-c', 'kill -9 $$']).returncode == -9",
        "import subprocess as s\ntry: s.run(['sleep', '100'], timeout=0.1)\nexcept s.TimeoutExpired: ok = True\nok",
        "import subprocess as s\ns.run(['ls', '/usr', '/etc', '/tmp'], capture_output=True).returncode == 0",
        "import subprocess as s\n'sandbox' in s.run(['id'], capture_output=True, text=True).stdout",
        "import os\nos.popen('expr 1 + 1').read() == '2\\n'",
        "import pty, os\npty.__name__ == 'pty'",
    ]);
}

#[test]
fn the_rest_of_the_standard_library() {
    all_work(&[
        "import ctypes; ctypes.CDLL(None).abs(-3) == 3",
        "import locale, os, platform, sys, time, zoneinfo, decimal, fractions, statistics\nplatform.system() == 'Linux' and str(zoneinfo.ZoneInfo('Europe/Berlin')) == 'Europe/Berlin' and os.cpu_count() > 0",
        "import getpass, pwd, os\ngetpass.getuser() == 'sandbox' and pwd.getpwuid(os.getuid()).pw_name == 'sandbox'",
        "import socket\na, b = socket.socketpair(); a.send(b'x'); b.recv(1) == b'x' and socket.gethostname() == 'vivarium'",
        "import socket\nsocket.gethostbyname('localhost') == '127.0.0.1'",
        "import http.server, threading, urllib.request\nh = type('H', (http.server.BaseHTTPRequestHandler,), {'do_GET': lambda s: (s.send_response(200), s.end_headers(), s.wfile.write(b'hi')), 'log_message': lambda *a: None})\n\
         server = http.server.HTTPServer(('127.0.0.1', 0), h); threading.Thread(target=server.handle_request).start()\n\
         urllib.request.urlopen('http://127.0.0.1:%d' % server.server_port).read() == b'hi'",
        "import unittest, doctest, io\nt = unittest.FunctionTestCase(lambda: None); unittest.TextTestRunner(io.StringIO()).run(t).wasSuccessful()",
        "import venv, sysconfig, importlib.metadata\nlen(sysconfig.get_paths()) > 0",
        "import resource, gc, tracemalloc\ntracemalloc.start(); x = bytearray(1000); tracemalloc.get_traced_memory()[0] > 0",
    ]);
}
