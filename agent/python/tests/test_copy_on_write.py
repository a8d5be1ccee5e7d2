"""What a template does so that a kernel copies few of its pages."""

import json
import os
import subprocess
import sys
import unittest

from harness import FOLDERS, ROOT

HAS_IMMORTAL_OBJECTS = sys.version_info >= (3, 12)

LIBRARY = os.environ.get("VIVARIUM_TEST_LIBRARY", "")

START = """
import gc, json, os, sys
sys.path[:0] = %r
import copy_on_write
""" % [str(ROOT / folder) for folder in FOLDERS]

# A fork looks at each of many objects: how many of its pages that changes.
LOOK = """
things = [(str(number), [number]) for number in range(50_000)]
%s
def own_pages():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) // 4
def look():
    for one in things:
        kept = [one, one[0], one[1]]
if os.fork() == 0:
    look()
    os._exit(0)
os.wait()
read, write = os.pipe()
if os.fork() == 0:
    before = own_pages()
    look()
    os.write(write, str(own_pages() - before).encode())
    os._exit(0)
print(os.read(read, 100).decode())
"""

COUNTS = """
class Class:
    def method(self): ...
text = "".join(["of", "this", "process"])
instance, nested = Class(), {"list": [(text, 1.5 * len(text))]}
old = [sys, Class, Class.method, instance, nested, text, nested["list"][0], nested["list"][0][1]]
mortal = [sys.getrefcount(it) for it in old]
made = copy_on_write.make_immortal()
new = [Class(), "".join(["of", "a", "kernel"]), [1.5 * len(text)]]
print(json.dumps([made, sys.getrefcount(None), mortal, *([sys.getrefcount(it) for it in some] for some in (old, new))]))
"""

# Objects of many sizes, every other one of which has ended: whether new ones take their places.
PLACES = """
def of(size, count):
    return [bytes(size) for _ in range(count)]
sizes = range(1, 450, 16)
kept, places = [], set()
for size in sizes:
    made = of(size, 2_000)
    places.update(map(id, made[1::2]))
    kept.append(made[::2])
    del made
%s
new = [of(size, 500) for size in sizes]
print(sum(id(it) in places for some in new for it in some))
"""


class CopyOnWriteTest(unittest.TestCase):
    def run_script(self, script):
        done = subprocess.run(
            [sys.executable, "-c", START + script],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_what_lives_is_immortal_and_what_is_made_later_is_not(self):
        made, immortal, mortal, old, new = self.run_script(COUNTS)
        self.assertEqual(made, HAS_IMMORTAL_OBJECTS)
        self.assertTrue(all(count < 1000 for count in mortal + new), (mortal, new))
        if HAS_IMMORTAL_OBJECTS:
            self.assertEqual(old, [immortal] * len(old))
        else:
            self.assertTrue(all(count < 1000 for count in old), old)

    def test_a_fork_that_looks_at_objects_copies_few_pages(self):
        mortal = self.run_script(LOOK % "gc.freeze()")
        immortal = self.run_script(LOOK % "copy_on_write.make_immortal(); gc.freeze()")
        # Fifty thousand objects of three kinds are in more than a thousand pages.
        self.assertGreater(mortal, 1000)
        if HAS_IMMORTAL_OBJECTS:
            self.assertLess(immortal, 100)

    @unittest.skipUnless(LIBRARY, "VIVARIUM_TEST_LIBRARY names no library")
    def test_new_objects_do_not_take_the_places_between_old_ones(self):
        self.assertGreater(self.run_script(PLACES % ""), 10_000)
        fill = "import ctypes; copy_on_write.fill_pools(ctypes.PyDLL(%r))" % LIBRARY
        self.assertLess(self.run_script(PLACES % fill), 100)


if __name__ == "__main__":
    unittest.main()
