"""The working directory and the variables of one execution."""

import os
import unittest

from harness import KernelTest

SHOW = "import os; os.getcwd(), os.environ.get('A'), os.environ.get('HOME')"


class Surroundings(KernelTest):
    def placed(self, **options):
        answer = self.kernel.run(SHOW, **options)
        self.assertEqual(answer.completion, "ok", answer)
        return eval(answer.value)

    def test_hold_for_one_execution(self):
        home = os.path.realpath(self.workdir)
        os.mkdir(os.path.join(self.workdir, "sub"))
        before = self.placed()
        self.assertEqual(self.placed(cwd="sub", env={"A": "1", "HOME": "/h"})[1:], ("1", "/h"))
        self.assertEqual(self.placed(cwd="sub")[0], os.path.join(home, "sub"))
        self.assertEqual(self.placed(), before)

    def test_are_put_back_whatever_the_code_does(self):
        os.makedirs(os.path.join(self.workdir, "sub/deeper"))
        before = self.placed()
        for code in ("os.chdir('deeper')", "1/0", "del os.environ['A']", "os.environ.clear()"):
            self.kernel.run("import os\n" + code, cwd="sub", env={"A": "1"})
            if "clear" not in code:
                self.assertEqual(self.placed(), before, code)

    def test_a_directory_is_relative_to_the_workdir(self):
        os.mkdir(os.path.join(self.workdir, "sub"))
        self.run_ok("import os; os.chdir('sub')")
        self.assertTrue(self.placed(cwd="sub")[0].endswith("/sub"))
        self.assertTrue(self.placed()[0].endswith("/sub"), "where the code went stays")

    def test_a_directory_that_is_not_there_is_the_codes_error(self):
        answer = self.kernel.run("print('ran')", cwd="missing")
        self.assertEqual((answer.exception, answer.stdout), ("FileNotFoundError", ""), answer)
        self.assertNotIn("surroundings", answer.traceback)
        self.assert_usable()


if __name__ == "__main__":
    unittest.main()
