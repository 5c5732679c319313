"""Runs all tests of a build folder as ctest does, and ends with ctest's closing lines. Every option after the build
folder goes to ctest.

A system test that fails is run once more, alone, after the others have ended: real processes on a busy machine can
miss a deadline that has nothing to do with what is tested. Every test that needed its second try is named at the end, and
counts as one to be mended. A unit test has no second try.

A test may read and leave nothing in the checkout but what git knows: files that appeared beside those, outside of build
folders, are named and fail the run.

usage: run_tests.py BUILD_DIR [ctest options]
"""
import json
import pathlib
import subprocess
import sys
import time

RETRIED = "system"  # the label of tests that have a second try


def ctest(build, *options):
    return subprocess.run(["ctest", "--test-dir", str(build), *options], check=False).returncode


def listed(build, *options):
    """{name: labels} of the tests that these options select."""
    said = subprocess.run(["ctest", "--test-dir", str(build), *options, "--show-only=json-v1"],
                          capture_output=True, text=True, check=True).stdout
    found = {}
    for test in json.loads(said)["tests"]:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        found[test["name"]] = set(labels[0]) if labels else set()
    return found


def failed(build):
    """Names of the tests that failed in the newest run, in its order."""
    path = build / "Testing" / "Temporary" / "LastTestsFailed.log"
    if not path.exists():
        return []
    return [line.split(":", 1)[1].strip() for line in path.read_text().splitlines() if ":" in line]


def strays(source):
    """What lies in the checkout and is neither known to git nor a build folder's; empty where git knows nothing."""
    said = subprocess.run(["git", "-C", str(source), "status", "--porcelain", "--ignored", "--untracked-files=all"],
                          capture_output=True, text=True, check=False).stdout
    paths = (line[3:].strip('"') for line in said.splitlines() if line[:2] in ("??", "!!"))
    return {path for path in paths if not path.startswith("build")}


def second_tries(build, names, labels):
    """(names that passed when they were run again alone, names that stay failed)."""
    passed, lost = [], []
    for name in names:
        if RETRIED not in labels.get(name, ()):
            lost.append(name)
            continue
        print(f"\nsecond try of {name}, alone", flush=True)
        exact = "^" + name.replace(".", "\\.") + "$"
        code = ctest(build, "-R", exact, "-j1", "--output-on-failure", "--no-tests=error")
        (lost if code else passed).append(name)
    return passed, lost


def closing(tests, passed, lost, left, seconds):
    """The last lines, in ctest's words, for the run and its second tries together."""
    lines = [""]
    if passed:
        lines.append("passed at the second try, alone (each is to be mended): " + ", ".join(passed))
    if left:
        lines.append("left in the checkout by tests: " + ", ".join(sorted(left)))
    bad = len(lost) + bool(left)
    lines.append(f"{0 if bad == tests else 100 - -(-100 * bad // tests)}% tests passed, "
                 f"{bad} tests failed out of {tests}")
    lines.append(f"\nTotal Test time (real) = {seconds:.2f} sec")
    if bad:
        lines.append("\nThe following tests FAILED:")
        lines += [f"\t{name} (Failed)" for name in [*lost, *(["checkout_stays_clean"] if left else [])]]
    return "\n".join(lines)


def main(arguments):
    build = pathlib.Path(arguments[0]).resolve()
    source, options, began = build.parent, arguments[1:], time.time()
    labels, before = listed(build, *options), strays(source)
    last = build / "Testing" / "Temporary" / "LastTestsFailed.log"
    last.unlink(missing_ok=True)
    code = ctest(build, *options)
    names = failed(build)
    if code and not names:  # ctest itself failed, and has said why
        return code
    passed, lost = second_tries(build, names, labels)
    left = strays(source) - before
    if names or left:
        print(closing(len(labels), passed, lost, left, time.time() - began), flush=True)
    return 8 if lost or left else 0  # ctest's own code for failed tests


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
