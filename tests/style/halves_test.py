"""The check of halves must find each part that is missing: a small family of its own, without one thing at a time."""
import pathlib
import tempfile
import unittest

import halves

FAMILY = {
    "kernels/fold.h": "void fold(Stream& stream, Tensor& y);\n",
    "kernels/fold.cpp": '#include "kernels/fold.h"\n'
                        "// Not on_float, and no parallel_for.\n"
                        "void fold(Stream& stream, Tensor& y) {\n"
                        "  on_device(stream, [&](Cpu) { fold_cpu(stream, pair(y, 1)); },\n"
                        "            [&](Cuda) { fold_cuda(stream, y); });\n"
                        "}\n",
    "kernels/fold_cpu.h": "void fold_cpu(Stream& stream, Tensor& y);\n",
    "kernels/fold_cpu.cpp": "void fold_cpu(Stream& stream, Tensor& y) { on_float(y); }\n",
    "kernels/fold_cuda.h": "void fold_cuda(Stream& stream, Tensor& y);\n",
    "kernels/fold_cuda.cu": "void fold_cuda(Stream& stream, Tensor& y) {}\n",
}
# A second one, deeper, and whose CUDA half has several sources.
DEEPER = {
    "kernels/turn/turn.h": "void turn(Stream& stream);\n",
    "kernels/turn/turn.cpp": "void turn(Stream& stream) {\n"
                             "  on_device(stream, [&](Cpu) { turn_cpu(stream); }, [&](Cuda) { turn_cuda(stream); });\n"
                             "}\n",
    "kernels/turn/turn_cpu.h": "void turn_cpu(Stream& stream);\n",
    "kernels/turn/turn_cpu.cpp": "void turn_cpu(Stream& stream) {}\n",
    "kernels/cpu/lanes.h": "int lanes();\n",
    "kernels/turn/turn_cuda.h": "void turn_cuda(Stream& stream);\n",
    "kernels/turn/turn_cuda_left.cu": "void turn_cuda(Stream& stream) {}\n",
    "kernels/turn/cuda/right.cu": "\n",
}


class HalvesTest(unittest.TestCase):
    def problems(self, changes=None, one_half=None):
        """Of the two families with some texts changed; None takes a file away, a pair replaces within one."""
        halves.ONE_HALF = one_half or {}
        files = {**FAMILY, **DEEPER}
        for name, change in (changes or {}).items():
            if isinstance(change, tuple):
                self.assertEqual(files[name].count(change[0]), 1, change[0])
                change = files[name].replace(*change)
            files[name] = change
        with tempfile.TemporaryDirectory(prefix="halves-") as folder:
            for name, text in files.items():
                if text is not None:
                    (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                    (pathlib.Path(folder) / name).write_text(text)
            return list(halves.Kernels(pathlib.Path(folder)).problems())

    def found(self, problem, changes, one_half=None):
        found = self.problems(changes, one_half)
        self.assertIn(problem, found)
        return found

    def test_whole_families_are_right(self):
        self.assertEqual(self.problems(), [])

    def test_a_missing_part_is_named(self):
        self.found("kernels/fold.cpp:1: fold has no front kernels/.../fold.h", {"kernels/fold.h": None})
        self.found("kernels/fold_cpu.h:1: fold has no front kernels/.../fold.cpp", {"kernels/fold.cpp": None})
        self.found("kernels/fold.cpp:1: fold has no header of the CPU half, kernels/.../fold_cpu.h",
                   {"kernels/fold_cpu.h": None})
        self.found("kernels/fold.cpp:1: fold has no source of the CPU half, kernels/.../fold_cpu.cpp",
                   {"kernels/fold_cpu.cpp": None})
        self.found("kernels/fold.cpp:1: fold has no header of the CUDA half, kernels/.../fold_cuda.h",
                   {"kernels/fold_cuda.h": None})
        self.found("kernels/fold.cpp:1: fold has no source of the CUDA half, kernels/.../fold_cuda.cu",
                   {"kernels/fold_cuda.cu": None})
        self.found("kernels/turn/turn.cpp:1: turn has no source of the CUDA half, kernels/.../turn_cuda.cu",
                   {"kernels/turn/turn_cuda_left.cu": None, "kernels/turn/cuda/right.cu": None})

    def test_a_function_without_its_like_is_named(self):
        more = "void fold_cpu(Stream& stream, Tensor& y);\nvoid %s(Stream& stream);\n"
        self.found("kernels/fold_cpu.h:2: unfold_cpu() has no unfold_cuda() in the CUDA half",
                   {"kernels/fold_cpu.h": more % "unfold_cpu", "kernels/fold_cpu.cpp": "fold_cpu() unfold_cpu()\n"})
        self.found("kernels/fold_cuda.h:2: unfold_cuda() has no unfold_cpu() in the CPU half",
                   {"kernels/fold_cuda.h": more.replace("fold_cpu", "fold_cuda") % "unfold_cuda",
                    "kernels/fold_cuda.cu": "fold_cuda() unfold_cuda()\n"})

    def test_a_function_that_no_source_has_is_named(self):
        self.found("kernels/fold_cuda.h:1: fold_cuda() is declared, but no source of the CUDA half has it",
                   {"kernels/fold_cuda.cu": "// fold_cuda()\n"})

    def test_a_call_names_both_halves(self):
        self.found("kernels/fold.cpp:4: on_device() calls fold, but not fold_cuda()",
                   {"kernels/fold.cpp": ("fold_cuda(stream, y);", "")})
        self.found("kernels/fold.cpp:4: on_device() calls fold, but not fold_cpu()",
                   {"kernels/fold.cpp": ("fold_cpu(stream, pair(y, 1));", "")})
        self.found("kernels/fold.cpp:4: on_device() calls fold/unfold, but not unfold_cpu()",
                   {"kernels/fold.cpp": ("fold_cuda(stream, y)", "unfold_cuda(stream)")})
        both = self.problems({"kernels/fold.cpp": "void fold() { on_device(stream, cpu, cuda); }\n"})
        self.assertEqual(len(both), 2, both)  # and not the halves that nobody calls: the linker knows better

    def test_the_halves_are_not_interchanged(self):
        found = self.problems({"kernels/turn/turn.cpp": (
            "[&](Cpu) { turn_cpu(stream); }, [&](Cuda) { turn_cuda(stream); }",
            "[&](Cpu) { turn_cuda(stream); }, [&](Cuda) { turn_cpu(stream); }")})
        self.assertTrue(found)

    def test_a_half_does_not_hand_on(self):
        self.found("kernels/fold_cpu.cpp:1: on_device() outside of a front",
                   {"kernels/fold_cpu.cpp": ("on_float(y)", "on_device(stream)")})
        self.found("optim/rule.cpp:1: on_device() outside of a front", {"optim/rule.cpp": "on_device(stream, a, b);\n"})

    def test_a_front_does_not_compute(self):
        text = '#include "kernels/fold.h"\n'
        for line, what in [("#include <hwy/highway.h>\n", "hwy/highway.h: vectors of the CPU"),
                           ('#include "kernels/cpu/simd.h"\n', "kernels/cpu/simd.h: vectors of the CPU"),
                           ('#include "kernels/cpu/tile.inl"\n', "kernels/cpu/tile.inl: vectors of the CPU"),
                           ("DS_SIMD_EXPORT(fold);\n", "DS_SIMD_EXPORT: vectors of the CPU"),
                           ("  on_float(y);\n", "on_float: work on elements"),
                           ("  stream.pool().parallel_for(y);\n", "parallel_for: work on elements")]:
            self.found(f"kernels/fold.cpp:2: {what} in a front, which only hands on",
                       {"kernels/fold.cpp": (text, text + line)})

    def test_what_waits_for_its_half_is_listed(self):
        without = {"kernels/fold_cuda.h": None, "kernels/fold_cuda.cu": None,
                   "kernels/fold.cpp": ("fold_cuda(stream, y);", "throw Unsupported();")}
        self.assertEqual(self.problems(without, {"fold": "something"}), [])
        self.assertEqual(len(self.problems(without)), 4)
        more = {"kernels/fold_cpu.h": "void fold_cpu();\nvoid check_cpu();\n",
                "kernels/fold_cpu.cpp": "void fold_cpu() {}\nvoid check_cpu() {}\n"}
        self.assertEqual(self.problems(more, {"check": "something"}), [])

    def test_what_waits_no_longer_is_an_error(self):
        self.found("fold: listed in halves.py as waiting for its other half, but it has both", {},
                   {"fold": "something"})

    def test_no_front_at_all_is_an_error(self):
        found = self.problems({name: "\n" for name in [*FAMILY, *DEEPER]})
        self.assertEqual(found, ["no front found in kernels/: this check no longer reads on_device()"])


if __name__ == "__main__":
    unittest.main()
