"""Tests of run_tests.py on build folders that are made for it: a system test that fails once has a second try and is
named, one that fails twice is lost, a unit test has no second try, and what a test leaves in the checkout is an error."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "run_tests.py"
FAILS_ONCE = "test -e seen || { touch seen; exit 1; }"


def run(tests):
    """(exit code, output) of a project whose tests are {name: (label, shell command)}."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder)
        text = "cmake_minimum_required(VERSION 3.25)\nproject(t NONE)\nenable_testing()\n"
        for name, (label, command) in tests.items():
            (source / f"{name}.sh").write_text(command + "\n")
            text += f"add_test(NAME {name} COMMAND sh ${{CMAKE_SOURCE_DIR}}/{name}.sh)\n"
            text += f"set_tests_properties({name} PROPERTIES LABELS {label})\n"
        (source / "CMakeLists.txt").write_text(text)
        for words in (["git", "init", "-q"], ["git", "add", "."], ["cmake", "-B", "build"]):
            subprocess.run(words, cwd=source, check=True, capture_output=True)
        done = subprocess.run([sys.executable, str(SCRIPT), str(source / "build"), "-j2"], cwd=source,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class SecondTries(unittest.TestCase):
    def test_all_pass(self):
        code, out = run({"a": ("unit", "true"), "b": ("system", "true")})
        self.assertEqual(code, 0)
        self.assertIn("100% tests passed, 0 tests failed out of 2", out)
        self.assertNotIn("second try", out)

    def test_a_system_test_that_fails_once_passes_and_is_named(self):
        code, out = run({"a": ("unit", "true"), "b": ("system", FAILS_ONCE)})
        self.assertEqual(code, 0)
        end = out[out.rindex("passed at the second try"):]
        self.assertIn("to be mended): b\n", end)
        self.assertIn("100% tests passed, 0 tests failed out of 2", end)

    def test_a_system_test_that_fails_twice_is_lost(self):
        code, out = run({"a": ("unit", "true"), "b": ("system", "false")})
        self.assertEqual(code, 8)
        self.assertIn("50% tests passed, 1 tests failed out of 2", out)
        self.assertTrue(out.rstrip().endswith("b (Failed)"))

    def test_a_unit_test_has_one_try(self):
        code, out = run({"a": ("unit", FAILS_ONCE)})
        self.assertEqual(code, 8)
        self.assertIn("0% tests passed, 1 tests failed out of 1", out)
        self.assertNotIn("second try", out)

    def test_what_is_left_in_the_checkout_fails_the_run(self):
        code, out = run({"a": ("unit", "touch ../left_here")})
        self.assertEqual(code, 8)
        self.assertIn("left in the checkout by tests: left_here", out)
        self.assertIn("checkout_stays_clean (Failed)", out)


if __name__ == "__main__":
    unittest.main()
