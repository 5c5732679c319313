"""The runner of mutants must not claim what it has not shown: a small project of its own, with a table for each lie."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).with_name("run.py")

NINJA = """
rule compile
  command = c++ -I{source} -MD -MT $out -MF $out.d -o $out -c $in
rule archive
  command = rm -f $out && ar rcs $out $in
rule link
  command = : && c++ $in -o $out libpart.a libjoined.a && :
build part/sum.cpp.o: compile {source}/part/sum.cpp
build part/other.cpp.o: compile {source}/part/other.cpp
build part/thrice.cpp.o: compile {source}/part/thrice.cpp
build own/main.cpp.o: compile {source}/own/main.cpp
build libpart.a: archive part/sum.cpp.o part/other.cpp.o part/thrice.cpp.o
build joined/part_of__0.cpp.o: compile {build}/joined/part_of__0.cpp
build libjoined.a: archive joined/part_of__0.cpp.o
build bin/tests: link own/main.cpp.o | libpart.a libjoined.a
default bin/tests
"""
FILES = {
    "part/sum.h": "int sum(int a, int b);\nint twice(int a);\nbool listed(int a);\nint halved(int a);\n"
                  "int quarter(int a);\n",
    "part/thrice.h": "[[gnu::noinline]] inline int thrice(int a) { return a * 3; }\n",
    "part/thrice.cpp": '#include "part/thrice.h"\nint nine_times(int a) { return thrice(thrice(a)); }\n',
    "part/sum.cpp": '#include "part/sum.h"\nint sum(int a, int b) { return a + b; }\n'
                    "bool listed(int a) { for (int i = 0; i < 3; ++i) { if (i == a) return true; } return false; }\n",
    "joined/one.cpp": '#include "part/sum.h"\nnamespace { int half(int a) { return a / 2; } }\n'
                      'int halved(int a) { return half(a); }\n',
    "joined/two.cpp": '#include "part/sum.h"\nint quarter(int a) { return halved(halved(a)); }\n',
    "part/other.cpp": '#include "part/sum.h"\nint twice(int a) { return sum(a, a); }\n',
    "own/main.cpp": '#include <cstdio>\n#include <cstring>\n#include "part/sum.h"\n#include "part/thrice.h"\n'
                    'int nine_times(int a);\nint main(int, char** argv) {\n'
                    '  if (!std::strcmp(argv[1], "sums")) return sum(1, 2) == 3 && twice(2) == 4 ? 0 : 1;\n'
                    '  if (!std::strcmp(argv[1], "halves")) return halved(6) == 3 && quarter(8) == 2 ? 0 : 1;\n'
                    '  if (!std::strcmp(argv[1], "thirds")) return thrice(2) == 6 && nine_times(1) == 9 ? 0 : 1;\n'
                    '  if (!std::strcmp(argv[1], "broken")) return 1;\n'
                    '  if (!std::strcmp(argv[1], "--device") && !std::strcmp(argv[2], "emulated") &&\n'
                    '      !std::strcmp(argv[3], "on emulated")) return twice(1) == 2 ? 0 : 1;\n'
                    '  std::puts("No test cases matched");\n  return 0;\n}\n',
}


def entry(**changes):
    mutant = {"name": "minus", "file": "part/sum.cpp", "find": "a + b", "replace": "a - b", "why": "it is no sum",
              "found_by": "tests: sums", **changes}
    return "[[mutant]]\n" + "".join(f'{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n'
                                    for key, value in mutant.items())


class RunnerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="mutants-")
        root = pathlib.Path(cls.folder.name)
        cls.source, cls.build = root / "source", root / "build"
        for name, text in FILES.items():
            (cls.source / name).parent.mkdir(parents=True, exist_ok=True)
            (cls.source / name).write_text(text)
        cls.build.mkdir()
        (cls.build / "joined").mkdir()
        (cls.build / "joined/part_of__0.cpp").write_text(
            "".join(f'#include "joined/{name}.cpp"\n' for name in ("one", "two")))
        (cls.build / "build.ninja").write_text(NINJA.format(source=cls.source, build=cls.build))
        subprocess.run(["ninja", "-C", str(cls.build)], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_table(self, *entries, options=()):
        table = pathlib.Path(self.folder.name) / "table.toml"
        table.write_text("\n".join(entries))
        done = subprocess.run([sys.executable, str(RUNNER), str(self.source), str(self.build), "--table", str(table),
                               *options], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def refused(self, why, *entries, options=()):
        code, out = self.run_table(*entries, options=options)
        self.assertEqual(code, 2, out)
        self.assertIn(why, out)

    def test_a_fault_is_found(self):
        code, out = self.run_table(entry())
        self.assertEqual(code, 0, out)
        self.assertIn("1 mutants, 0 survived", out)

    def test_a_fault_in_a_source_that_is_joined_to_others_is_found(self):
        changes = {"file": "joined/one.cpp", "find": "a / 2", "replace": "a / 3", "found_by": "tests: halves"}
        code, out = self.run_table(entry(**changes))
        self.assertEqual(code, 0, out)
        self.assertIn("1 mutants, 0 survived", out)

    def test_a_fault_that_no_test_sees_survives(self):
        code, out = self.run_table(entry(), entry(name="shorter", find="i < 3", replace="i < 2"))
        self.assertEqual(code, 1, out)
        self.assertIn("shorter                          SURVIVED", out)

    def test_a_fault_in_the_programs_own_object_is_found(self):
        code, out = self.run_table(entry(file="own/main.cpp", find="sum(1, 2) == 3", replace="sum(1, 2) == 4"))
        self.assertEqual(code, 0, out)

    def test_a_fault_in_a_function_that_the_programs_own_object_has_too_is_found(self):
        changes = {"file": "part/thrice.h", "compiled_in": "part/thrice.cpp", "find": "a * 3", "replace": "a * 4"}
        code, out = self.run_table(entry(**changes, found_by="tests: thirds"))
        self.assertEqual(code, 0, out)
        self.assertIn("1 mutants, 0 survived", out)

    def test_a_text_that_is_not_there_once_is_an_error(self):
        self.refused("0 times", entry(find="a * b"))
        self.refused("2 times", entry(find="(int a", replace="(long a"))
        self.refused("0 times in part/none.cpp", entry(file="part/none.cpp"))

    def test_a_change_that_does_not_compile_or_link_is_an_error(self):
        self.refused("does not compile", entry(replace="a +"))
        self.refused("does not link", entry(find="int sum(", replace="int total("))

    def test_a_change_that_changes_nothing_is_an_error(self):
        self.refused("changes nothing", entry(replace="a + b"))

    def test_a_test_that_is_not_there_or_fails_anyway_is_an_error(self):
        self.refused("has no test case", entry(found_by="tests: nothing like that"))
        self.refused("fails without any change", entry(found_by="tests: broken"))
        self.refused("no such program", entry(found_by="other_tests: sums"))

    def test_a_device_is_told_to_the_program(self):
        code, out = self.run_table(entry(found_by="tests: on emulated"), options=["--device", "emulated"])
        self.assertEqual(code, 0, out)
        self.refused("has no test case", entry(found_by="tests: on emulated"))
        code, out = self.run_table(entry(found_by="tests: on emulated", device="emulated"), options=["--device", "cpu"])
        self.assertEqual(code, 0, out)

    def test_nothing_to_try_is_an_error(self):
        self.refused("no mutant is left", entry(nightly=True))
        self.refused("no mutant is left", entry(), options=["--only", "another"])
        self.refused("two mutants are called minus", entry(), entry())

    def test_a_part_of_the_table_is_tried_and_all_of_it_is_read(self):
        table = [entry(), entry(name="shorter", find="i < 3", replace="i < 2")]
        code, out = self.run_table(*table, options=["--part", "1/2"])
        self.assertEqual(code, 0, out)
        self.assertIn("1 mutants, 0 survived", out)
        self.assertEqual(self.run_table(*table, options=["--part", "2/2"])[0], 1)
        self.assertEqual(self.run_table(*table[:1], options=["--part", "today/1"])[0], 0)
        self.refused("0 times", table[0], entry(name="gone", find="a * b"), options=["--part", "1/2"])
        for part in ("0/2", "3/2", "1/0", "1", "tomorrow/2", "/"):
            self.refused(f"--part {part}: expected", entry(), options=["--part", part])

    def test_texts_are_looked_at_without_building_anything(self):
        code, out = self.run_table(entry(found_by="other_tests: none"), options=["--texts"])
        self.assertEqual(code, 0, out)
        self.assertIn("1 mutants: the text of each is in its file once", out)
        self.refused("0 times", entry(), entry(name="gone", find="a * b", nightly=True), options=["--texts"])
        header = {"file": "part/thrice.h", "find": "a * 3", "replace": "a * 4"}
        self.refused("nothing compiles part/thrice.h", entry(**header), options=["--texts"])

    def test_nightly_ones_run_when_asked_for(self):
        code, out = self.run_table(entry(nightly=True), options=["--nightly"])
        self.assertEqual(code, 0, out)


if __name__ == "__main__":
    unittest.main()
