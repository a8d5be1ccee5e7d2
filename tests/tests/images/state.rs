//! Each kind of state that a session can have, before and after.

use vivarium_tests::host::{self, Requirement};

use crate::{images, sleep_once};

/// What makes a state, and an expression of it that is true as long as nothing is lost.
const STANDARD: [(&str, &str); 31] = [
    ("def count():\n    yield from range(9)\ng = count(); next(g); next(g)", "next(g) == 2"),
    (
        "n = 3\ndef outer():\n    v = [n]\n    return lambda: v\nf = outer(); f().append(4)",
        "f() == [3, 4]",
    ),
    (
        "class P:\n    def __init__(self, v): self.v = v\np = P({'k': 1})",
        "type(p) is P and p.v == {'k': 1}",
    ),
    ("import pickle\npickled = pickle.dumps(p)", "pickle.loads(pickled).v == p.v"),
    (
        "import threading\nlock = threading.RLock(); lock.acquire()",
        "lock._is_owned() and not lock.release()",
    ),
    ("import weakref\nw = weakref.ref(p)", "w() is p"),
    (
        "a = open('log', 'w+'); a.write('one\\ntwo\\n'); a.seek(0); a.readline()",
        "a.readline() == 'two\\n' and a.write('three\\n') == 6 and a.flush() is None and open('/workspace/log').read().endswith('three\\n')",
    ),
    (
        "b = open('added', 'a'); b.write('x'); b.flush()",
        "b.write('y') == 1 and not b.flush() and open('/workspace/added').read() == 'xy'",
    ),
    (
        "import os\nos.makedirs('d/e'); os.symlink('d', 'l'); os.chmod('d', 0o700)\ns = open('sparse', 'wb'); s.truncate(1 << 22); s.close()",
        "os.readlink('/workspace/l') == 'd' and os.stat('/workspace/sparse').st_size == 1 << 22 and os.stat('/workspace/sparse').st_blocks == 0",
    ),
    ("open('/tmp/kept', 'w').close()", "os.path.exists('/tmp/kept')"),
    ("open('/dev/shm/kept', 'w').close()", "os.path.exists('/dev/shm/kept')"),
    (
        "open('one', 'w').write('1'); os.link('one', 'd/two'); os.utime('one', (1e9, 1e9)); os.chmod('one', 0o751)",
        "os.path.samefile('/workspace/one', '/workspace/d/two') and (os.stat('/workspace/one').st_mtime, os.stat('/workspace/one').st_mode & 0o777) == (1e9, 0o751)",
    ),
    (
        "os.umask(0o027); os.environ['X'] = 'y'",
        "os.umask(0o027) == 0o027 and os.environ['X'] == 'y'",
    ),
    (
        "import signal\ngot = []\nsignal.signal(signal.SIGUSR1, lambda *_: got.append(1))\nsignal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "not os.kill(os.getpid(), signal.SIGUSR1) and not os.kill(os.getpid(), signal.SIGUSR2) and got == [1]",
    ),
    (
        "signal.setitimer(signal.ITIMER_REAL, 3000, 5)",
        "2000 < signal.getitimer(signal.ITIMER_REAL)[0] < 3000",
    ),
    (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))",
        "resource.getrlimit(resource.RLIMIT_NOFILE) == (100, 200)",
    ),
    ("r, w2 = os.pipe()", "os.write(w2, b'z') == 1 and os.read(r, 1) == b'z'"),
    (
        "full, end = os.pipe(); n = os.write(end, b'ab')",
        "os.read(full, 9) == b'ab' and os.write(end, b'ab') == 2",
    ),
    (
        "import concurrent.futures as cf\nexecutor = cf.ThreadPoolExecutor(2); n = list(executor.map(abs, [-1, -2, -3]))",
        "list(executor.map(abs, [-4, -5])) == [4, 5]",
    ),
    (
        "import asyncio\nn = await asyncio.to_thread(abs, -1)",
        "(await asyncio.to_thread(abs, -2)) == 2",
    ),
    (
        "import asyncio\nqueue = asyncio.Queue()\nawait asyncio.sleep(0)\nawait queue.put(3)",
        "await queue.get() == 3",
    ),
    (
        "import sqlite3\non_disk = sqlite3.connect('db'); on_disk.execute('create table t(a)'); on_disk.execute('insert into t values (7)'); on_disk.commit()\nin_memory = sqlite3.connect(':memory:'); in_memory.execute('create table t(a)'); in_memory.execute('insert into t values (8)')",
        "[c.execute('select a from t').fetchone() for c in (on_disk, in_memory)] == [(7,), (8,)]",
    ),
    (
        "import random\nown = random.Random(42); own.random(); same = random.Random(42); same.random()",
        "own.random() == same.random()",
    ),
    (
        "import sys, decimal\nsys.setrecursionlimit(2345); decimal.getcontext().prec = 7",
        "sys.getrecursionlimit() == 2345 and str(decimal.Decimal(1) / 3) == '0.3333333'",
    ),
    ("import ctypes\ncb = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 9)", "cb() == 9"),
    (
        "import zlib\npacker = zlib.compressobj(); packed = packer.compress(b'abc' * 100)",
        "zlib.decompress(packed + packer.flush()) == b'abc' * 100",
    ),
    (
        "import ctypes, shutil\nlibm = next(line.split()[-1] for line in open('/proc/self/maps') if '/libm.so' in line)\nshutil.copyfile(libm, 'own.so'); copied = ctypes.CDLL('/workspace/own.so'); copied.floor.restype = ctypes.c_double",
        "copied.floor(ctypes.c_double(2.5)) == 2.0",
    ),
    (
        "import mmap\nof_nobody = mmap.mmap(-1, 3 * 4096); of_nobody[4096:4099] = b'abc'",
        "of_nobody[4096:4099] == b'abc' and of_nobody[:2] == bytes(2) and of_nobody[-1] == 0",
    ),
    (
        "import multiprocessing\nsemaphore = multiprocessing.RLock(); n = semaphore.acquire()",
        "semaphore.release() is None and semaphore.acquire(timeout=1)",
    ),
    (
        "open('mapped', 'wb').write(bytes(4096)); backing = open('mapped', 'r+b'); mapped = mmap.mmap(backing.fileno(), 0); mapped[:2] = b'xy'",
        "mapped[:2] == b'xy' and mapped.seek(9) is None and mapped.write(b'z') == 1 and open('/workspace/mapped', 'rb').read(10)[9:] == b'z'",
    ),
    ("os.chdir('d')", "os.getcwd() == '/workspace/d'"),
];

#[test]
fn state_of_the_standard_library_survives_twice() {
    let daemon = images(&["json"]).start();
    let session = daemon.session();
    for (code, _) in STANDARD {
        let _made = session.execute(code).ok();
    }
    sleep_once(&session);
    sleep_once(&session);
    for (code, expression) in STANDARD {
        assert_eq!(session.value(expression), "True", "{code}");
    }
    daemon.stop_and_check();
}

const LIBRARIES: [(&str, &str); 9] = [
    (
        "import numpy, pandas\ndf = pandas.DataFrame({'a': range(1000), 'b': list('ab') * 500})",
        "df.groupby('b').a.sum().to_dict() == {'a': 249500, 'b': 250000}",
    ),
    // 100 MB, by a sum that a lost or doubled page would change.
    (
        "big = numpy.arange(13_107_200); total = int((big * (big % 7)).sum())",
        "int((big * (big % 7)).sum()) == total",
    ),
    (
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots(); lines = axes.plot([1, 2, 3]); plt.close('all')",
        "len(axes.lines) == 1 and list(lines[0].get_ydata()) == [1, 2, 3]",
    ),
    (
        "from sklearn.linear_model import LinearRegression\nmodel = LinearRegression().fit([[0], [1], [2]], [0, 1, 2])",
        "round(float(model.predict([[5]])[0]), 6) == 5",
    ),
    (
        "import scipy.stats\nnormal = scipy.stats.norm(0, 1)",
        "round(float(normal.cdf(1)), 3) == 0.841",
    ),
    (
        "import PIL.Image\nimage = PIL.Image.new('RGB', (5, 5), 'red')",
        "image.getpixel((1, 1)) == (255, 0, 0)",
    ),
    (
        "import tqdm\nbar = iter(tqdm.tqdm(range(9))); n = next(bar)",
        "next(bar) == 1 and list(tqdm.tqdm(range(3))) == [0, 1, 2]",
    ),
    (
        "memmap = numpy.memmap('array', dtype='int64', mode='w+', shape=1000); memmap[:] = range(1000)",
        "int(memmap.sum()) == 499500 and numpy.fromfile('array', dtype='int64')[999] == 999",
    ),
    (
        "generator = numpy.random.default_rng(7); generator.random(); same = numpy.random.default_rng(7); same.random()",
        "generator.random() == same.random()",
    ),
];

#[test]
fn state_of_libraries_survives_those_that_the_template_has_and_others() {
    if !host::has(&[Requirement::PythonScience]) {
        return;
    }
    let daemon = images(&["numpy", "pandas", "matplotlib.pyplot"]).start();
    let session = daemon.session();
    for (code, _) in LIBRARIES {
        let _made = session.execute(code).ok();
    }
    sleep_once(&session);
    sleep_once(&session);
    for (code, expression) in LIBRARIES {
        assert_eq!(session.value(expression), "True", "{code}");
    }
    daemon.stop_and_check();
}

#[test]
fn what_has_to_differ_differs_and_hooks_are_called() {
    let daemon = images(&["json"]).start();
    let session = daemon.session();
    let _made = session
        .execute(
            "import random, uuid, os, tempfile, vivarium\nseen = []\nrandom.seed(1); state = random.getstate()\n\
             @vivarium.on_resume\ndef woke(): seen.append(os.getpid())\n\
             @vivarium.on_resume\ndef fails(): 1 / 0",
        )
        .ok();
    sleep_once(&session);
    assert_eq!(session.value("seen == [os.getpid()]"), "True");
    assert_eq!(session.value("random.getstate() != state"), "True");
    // Its executions go on where they were.
    let next = session.execute("1").ok();
    assert_eq!(next.text("execution_id"), "4");
    daemon.stop_and_check();
}
