"""What a checkpoint keeps of the variables: names, types and fingerprints, and no user code runs."""

import ast
import unittest

from harness import Answer, KernelTest, part_of_kernel

# The part that gathers them, without a name in the namespace.
PART = part_of_kernel("variables")

HOSTILE = """
class Meta(type):
    def __hash__(cls): raise SystemError('hash')
    def __eq__(cls, other): raise SystemError('eq')
    def __getattribute__(cls, name): raise SystemError('getattribute')
class Odd(metaclass=Meta):
    def __len__(self): raise SystemError('len')
    def __repr__(self): raise SystemError('repr')
    def __hash__(self): raise SystemError('hash')
    def __eq__(self, other): raise SystemError('eq')
    def __getattribute__(self, name): raise SystemError('getattribute')
class Text(str):
    __len__ = __repr__ = __hash__ = __eq__ = __radd__ = lambda *_: 1 / 0
class Count(int):
    bit_length = __index__ = __repr__ = lambda *_: 1 / 0
class Rows(list):
    __len__ = lambda *_: 1 / 0
class Key:
    def __hash__(self): return hash('odd')
    def __eq__(self, other): raise SystemError('eq')
class Name(str):
    startswith = isidentifier = __getitem__ = __len__ = lambda *_: 1 / 0
class Renamed: pass
Renamed.__qualname__ = Name('renamed')
class Control: pass
Control.__qualname__ = 'a\\x1b[2J\\ud800'
class Long: pass
Long.__qualname__ = 'L' * 10**6
odd, text, count, rows, renamed, control, long = Odd(), Text(), Count(), Rows(), Renamed(), Control(), Long()
names = globals()
names[1] = names[None] = names[()] = names['a b'] = names['a\\n'] = names['\\x1b[2J'] = names[''] = 1
names['\\ud800'] = names['n' * 101] = names[Name('subclass')] = 1
type(names)
"""


class Variables(KernelTest):
    def setUp(self):
        super().setUp()
        # The part is loaded by the first frame about images, which a kernel without a template
        # can not serve.
        self.kernel.send(7, bytes(8))
        kinds = [self.kernel.frame(Answer())[0] for _ in range(3)]
        self.assertEqual(kinds, [5, 2, 4])

    def gather(self):
        """Name to type and fingerprint, the newest first, and whether there are more."""
        text = self.run_ok("print(%s.gathered())" % PART).stdout
        found, more = ast.literal_eval(text)
        return {name: (kind, fingerprint) for name, kind, fingerprint in found}, more

    def test_a_new_kernel_has_none(self):
        self.assertEqual(self.gather(), ({}, False))
        self.run_ok("_private = 1\n7")
        self.run_ok("%matplotlib inline\n!true\n[_, In, Out, get_ipython()]")
        self.assertEqual(self.gather(), ({}, False))

    def test_names_and_types_are_told_the_newest_first(self):
        self.run_ok("import collections, json as j\nx = 1\ndef f(): pass\nclass A: pass\na = A()")
        self.run_ok("d = collections.OrderedDict()\nx = 'x'\nπ = 3.14")
        found, more = self.gather()
        kinds = [(name, kind) for name, (kind, _) in found.items()]
        self.assertFalse(more)
        self.assertEqual(
            kinds,
            [
                ("π", "float"),
                ("d", "collections.OrderedDict"),
                ("a", "A"),
                ("A", "type"),
                ("f", "function"),
                ("x", "str"),
                ("j", "module"),
                ("collections", "module"),
            ],
        )

    def test_fingerprints_follow_values_objects_and_lengths(self):
        def changed(code):
            before = self.gather()[0]
            self.run_ok(code)
            after = self.gather()[0]
            return [name for name in sorted(after) if after[name] != before[name]]

        self.run_ok(
            "i, big, f, z, c, b, n = 1000, 2**600, 1.5, 0.0, 1j, True, None\n"
            "s, t, y = 'text', 'long' * 99, b'bytes'\n"
            "l, d, e, u, o = [1], {1: 1}, {1}, (1,), object()\nclass A: pass\na = A()"
        )
        self.assertEqual(changed("pass"), [])
        # The same values, in other objects.
        again = "i, f, z, c, s, y = int('1000'), float('1.5'), 0.0, complex('1j'), ''.join('text'), bytes(y)"
        self.assertEqual(changed(again), [])
        self.assertEqual(changed("i, z, c, b, n = 1001, -0.0, 2j, False, 0"), list("bcinz"))
        self.assertEqual(changed("i = 1001.0"), ["i"])
        self.assertEqual(changed("i = -1"), ["i"])
        self.assertEqual(changed("i = -2"), ["i"])  # As hash(-1) == hash(-2).
        self.assertEqual(changed("s, y = 'next', b'other'"), ["s", "y"])
        self.assertEqual(
            changed("big, t, o, a = big + 1, t + '!', object(), A()"), list("a") + ["big", "o", "t"]
        )
        self.assertEqual(changed("l.append(2); d[2] = 2; e.add(2)"), ["d", "e", "l"])
        self.assertEqual(changed("l, d, e = list(l), dict(d), set(e)"), ["d", "e", "l"])
        # What is deep inside is not seen.
        self.assertEqual(changed("l[0] = 9; d[1] = 9; a.x = 9"), [])

    def test_a_hostile_namespace_runs_nothing(self):
        self.run_ok(HOSTILE)
        found, more = self.gather()
        self.assertTrue(more)  # A name was too long, and ends the list.
        self.run_ok("del names['n' * 101]")
        found, more = self.gather()
        self.assertFalse(more)
        kinds = {name: kind for name, (kind, _) in found.items() if name.islower()}
        expected = {"odd": "Odd", "text": "Text", "count": "Count", "rows": "Rows", "names": "dict"}
        expected.update(renamed="object", control="object", long="L" * 100)
        self.assertEqual(kinds, expected)
        # A class whose own namespace has a key that raises when it is compared.
        self.run_ok(
            "class Trap:\n  armed = False\n  def __hash__(self): return hash('__module__')\n"
            "  def __eq__(self, other):\n    if Trap.armed: raise KeyboardInterrupt\n    return False\n"
            "held = type('Held', (), {Trap(): 1})()\nTrap.armed = True"
        )
        answer = self.run_ok("print(%s.gather())" % PART)
        self.assertIs(type(ast.literal_eval(answer.stdout)), tuple)

    def test_they_are_bounded(self):
        self.run_ok("for at in range(500): globals()['n%d' % at] = at\ndel at")
        found, more = self.gather()
        self.assertEqual((len(found), more, next(iter(found))), (500, False, "n499"))
        self.run_ok("last = 1")
        found, more = self.gather()
        self.assertEqual((len(found), more, next(iter(found))), (500, True, "last"))
        self.run_ok("for at in range(9000): globals()['_%d' % at] = at\ndel at")
        self.assertEqual(self.gather(), ({}, True))
        self.run_ok("%reset\nfor at in range(500): globals()['n' * 90 + '%d' % at] = at")
        found, more = self.gather()
        self.assertTrue(more)
        self.assertLess(sum(len(name) + len(kind) for name, (kind, _) in found.items()), 33 << 10)


if __name__ == "__main__":
    unittest.main()
