"""The kernel's files depend on each other in one direction only."""

import ast
import unittest

from harness import EARLY, FILES, FOLDERS, PARTS


def imports_of(source):
    """The modules that a file imports anywhere, and the parts that it names as a string."""
    found: set = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
        elif isinstance(node, ast.Constant) and node.value in PARTS:
            found.add(node.value)
    return found


def circle_in(graph):
    """The names on one circle of a graph, or an empty list: name -> names it depends on."""
    done = set()

    def walk(path):
        for name in sorted(graph.get(path[-1], ())):
            if name in path:
                return path[path.index(name) :]
            found = [] if name in done else walk([*path, name])
            if found:
                return found
        done.add(path[-1])
        return []

    return next(filter(None, (walk([name]) for name in sorted(graph))), [])


class Layers(unittest.TestCase):
    def setUp(self):
        self.imports = {name: imports_of(FILES[name].read_text()) for name in PARTS}

    def test_a_circle_is_found(self):
        sources = {"guard": "def f():\n    import wire", "wire": "PART = 'render'", "show": ""}
        graph = {name: imports_of(source) for name, source in sources.items()}
        self.assertEqual(circle_in(graph), [])
        graph["render"] = imports_of("from guard import load")
        self.assertEqual(circle_in(graph), ["guard", "wire", "render"])

    def test_no_files_import_each_other_in_a_circle(self):
        self.assertEqual(circle_in(self.imports), [])

    def test_a_folder_uses_only_those_before_it(self):
        level = {name: FOLDERS.index(FILES[name].parent.name) for name in PARTS}
        upwards = [
            (name, used)
            for name in PARTS
            for used in self.imports[name] & level.keys()
            if level[used] > level[name]
        ]
        self.assertEqual(upwards, [])

    def test_late_parts_import_no_module_that_user_code_can_replace(self):
        before_user_code = {"loader", "template", "copy_on_write", "rehearsal", "after_fork"}
        for name in {*PARTS} - {*EARLY} - before_user_code:
            self.assertLessEqual(self.imports[name], {*PARTS}, name)
