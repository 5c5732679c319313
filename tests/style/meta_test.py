"""The check of questions for meta must count each of them, however it is asked, and nothing else."""
import pathlib
import tempfile
import unittest

import meta

ASKED = {
    "zero/one.cpp": "void f(Stream& stream) {\n  if (stream.device().is_meta()) return;\n}\n",
    "train/two.h": "bool g(Device device) { return device == Device::meta(); }\n",
    "offload/three.cpp": "bool h(Device device) { return Device::meta() != device; }\n",
    "model/deep/four.cpp": "bool i(Device device) { return device.kind == Device::Kind::kMeta; }\n",
    "optim/five.h": "bool is_meta() const;\n",
}
NOT_ASKED = {
    "core/device.h": "bool is_meta() const { return kind == Kind::kMeta; }\n",
    "kernels/front.cpp": "if (stream.device().is_meta()) return;\n",
    "tests/zero/one_test.cpp": "CHECK(stream.device().is_meta());\n",
    "zero/words.cpp": "// is_meta() is what it was called.\nthrow InternalError(\"is_meta() was asked\");\n",
    "zero/makes.cpp": "Stream stream({.device = Device::meta()});\n",
    "docs/words.md": "is_meta()\n",
}


class MetaTest(unittest.TestCase):
    def problems(self, files, most):
        with tempfile.TemporaryDirectory(prefix="meta-") as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(meta.problems(root, most))

    def test_each_question_counts(self):
        for name, text in ASKED.items():
            with self.subTest(name):
                self.assertEqual(self.problems({name: text, **NOT_ASKED}, 1), [])
                found = self.problems({name: text, **NOT_ASKED}, 0)
                self.assertEqual(len(found), 1)
                self.assertIn("1 questions whether a device is meta, at most 0", found[0])
                self.assertIn(f"{name}:{2 if name == 'zero/one.cpp' else 1}", found[0])

    def test_what_asks_nothing_does_not(self):
        self.assertEqual(self.problems(NOT_ASKED, 0), [])

    def test_the_number_falls(self):
        self.assertIn("fall from 6 to that", self.problems(ASKED, 6)[0])
        self.assertEqual(self.problems(ASKED, 5), [])


if __name__ == "__main__":
    unittest.main()
