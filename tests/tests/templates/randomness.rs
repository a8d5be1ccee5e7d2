//! Kernels of one template share no random stream.

use std::collections::BTreeMap;
use std::thread;

use serde_json::Value;
use vivarium_tests::Session;
use vivarium_tests::host::{self, Requirement};

use crate::template;

/// Every generator that there is one of in a process, and some that are made anew.
const STREAMS: &str = "
import json, multiprocessing, os, random, secrets, ssl, tempfile, uuid
streams = {
    'random.random': random.random(), 'random.getrandbits': random.getrandbits(64),
    'random.Random': random.Random().random(), 'random.SystemRandom': random.SystemRandom().random(),
    'random.shuffle': random.sample(range(10**9), 4), 'secrets': secrets.token_hex(16),
    'ssl.RAND_bytes': ssl.RAND_bytes(16).hex(), 'os.urandom': os.urandom(16).hex(),
    'uuid1': str(uuid.uuid1()), 'uuid.getnode': uuid.getnode(), 'uuid4': str(uuid.uuid4()),
    'tempfile.mktemp': tempfile.mktemp(), 'tempfile.mkdtemp': tempfile.mkdtemp(),
    'multiprocessing': multiprocessing.current_process().authkey.hex(),
    'hash of a new object': secrets.choice(range(2**60)),
}
try:
    import numpy
except ImportError:
    pass
else:
    streams['numpy.random.random'] = float(numpy.random.random())
    streams['numpy.random.randint'] = int(numpy.random.randint(1 << 60))
    streams['numpy.random.normal'] = float(numpy.random.normal())
    streams['numpy.random.permutation'] = numpy.random.permutation(20).tolist()
    streams['numpy.random.RandomState'] = float(numpy.random.RandomState().random_sample())
    streams['numpy.random.default_rng'] = float(numpy.random.default_rng().random())
    streams['numpy.random.SeedSequence'] = str(numpy.random.SeedSequence().entropy)
control = random.of_the_template.random()
print(json.dumps([streams, control]))";

/// Uses each of them in the template, so that each has a state there to be inherited.
const USE: &str = "
import multiprocessing, os, random, secrets, ssl, tempfile, uuid
random.random(); secrets.token_hex(); ssl.RAND_bytes(16); uuid.uuid1(); uuid.uuid4()
tempfile.mktemp(); tempfile.gettempdir()
random.of_the_template = random.Random(7)
try:
    import numpy.random
    # Draws two, and keeps one for the next time.
    numpy.random.normal()
    numpy.random.random(); numpy.random.default_rng().random()
except ImportError:
    pass";

fn draw(session: &Session<'_>) -> (BTreeMap<String, Value>, Value) {
    serde_json::from_value(session.execute(STREAMS).ok().printed_json()).unwrap()
}

#[test]
fn kernels_of_one_template_share_no_stream() {
    let _it_has_numpy = host::has(&[Requirement::PythonScience]);
    let daemon = template(&[], USE).start();
    let sessions: Vec<_> = (0..6).map(|_| daemon.session()).collect();
    let mut drawn: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = sessions.iter().map(|one| scope.spawn(|| draw(one))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // Nor do those that take another's place.
    for session in &sessions[..2] {
        session.reset();
        drawn.push(draw(session));
    }
    for name in drawn[0].0.keys() {
        let mut values: Vec<_> =
            drawn.iter().map(|(streams, _)| streams[name].to_string()).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), drawn.len(), "{name}: {values:?}");
    }
    // The control: state that nobody renews is the template's in all of them.
    assert!(drawn.iter().all(|(_, control)| *control == drawn[0].1), "{drawn:?}");
    daemon.stop_and_check();
}
