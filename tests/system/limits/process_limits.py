"""Few processes and threads are allowed: a run is refused with the limit, what it needs and how to raise it, or ends
with such a sentence when the limit comes later; nobody waits for ever. And a launcher that does not come to heed
SIGTERM or SIGINT is ended by them all the same, in whatever it is.

usage: process_limits.py BIN_DIR

Needs root for all but the last part: a cgroup of version 1 of its own (pids), another user for `ulimit -u`.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from failing_calls import CALLS, CONFIG, KINDS, counts_in, processes_in  # noqa: E402

GROUPS = pathlib.Path("/sys/fs/cgroup/pids")
NOBODY = 65534
failures = []


def check(holds, what, output=""):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}\n    " + "\n    ".join(output.splitlines()[-12:]), flush=True)


def command(binaries, folder, *words):
    return [str(binaries / "dslaunch"), "train.json", "--run-dir", str(folder), "--num-ranks", "2", "--num-threads",
            "1", *words]


def bounded(words, scratch, seconds=60, **more):
    """Exit code (None: it did not end) and all that was said."""
    with open(scratch / "said", "w+") as said:
        process = subprocess.Popen(words, cwd=scratch, stdin=subprocess.DEVNULL, stdout=said, stderr=said, **more)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        return code, (scratch / "said").read_text()


class Group:
    """A cgroup that allows few processes; processes enter it by `enter`, which is called in the child."""

    def __init__(self):
        self.path = GROUPS / f"dslaunch-test-{os.getpid()}"
        self.path.mkdir()

    def allow(self, most):
        (self.path / "pids.max").write_text(str(most))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        """The most that were there at once; a guess for kernels that do not count it."""
        counted = self.path / "pids.peak"
        return int(counted.read_text()) if counted.exists() else 48 + 3 * 32 + 16

    def members(self):
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def close(self):
        for pid in self.members():
            os.kill(pid, signal.SIGKILL)
        for _ in range(200):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


def try_groups(binaries, scratch):
    group = Group()
    try:
        group.allow("max")
        # One run may have not all of its threads at once.
        for _ in range(3):
            shutil.rmtree(scratch / "run", ignore_errors=True)
            code, said = bounded(command(binaries, scratch / "run"), scratch, preexec_fn=group.enter)
            check(code == 0, f"no limit: exit code {code}", said)
        peak = group.peak()
        seen = {}
        for most in sorted({2, 4, *(peak * i // 12 for i in range(1, 12)), peak - 3, peak + 8}):
            group.allow(most)
            shutil.rmtree(scratch / "run", ignore_errors=True)
            code, said = bounded(command(binaries, scratch / "run"), scratch, preexec_fn=group.enter)
            seen[most] = code
            check(code in (0, 69), f"pids.max {most}: exit code {code}", said)
            if code == 69:
                check("pids.max" in said and group.path.name in said, f"pids.max {most}: the limit is not named", said)
                check(sum(line.startswith("error: ") for line in said.splitlines()) == 1,
                      f"pids.max {most}: not one error", said)
                needed = re.search(r"and has (\d+); its 2 ranks need (\d+) more", said)
                # What a run comes to is no less than what is asked for before it.
                check(not needed or sum(map(int, needed.groups())) <= peak,
                      f"pids.max {most}: more is asked for than the {peak} that a run has", said)
            check(not group.members(), f"pids.max {most}: processes are left")
        check(seen[4] == 69 and seen[peak + 8] == 0, f"exit codes by pids.max: {seen}")
        try_lowered(binaries, scratch, group)
    finally:
        group.close()


def try_lowered(binaries, scratch, group):
    """The limit comes while the run is there, and a rank has to be started again."""
    group.allow(200)
    shutil.rmtree(scratch / "run", ignore_errors=True)
    with open(scratch / "said", "w+") as said:
        process = subprocess.Popen(
            command(binaries, scratch / "run"), cwd=scratch, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            preexec_fn=group.enter, env=dict(os.environ, DSLAUNCH_RANKD=str(binaries / "fake_rank"),
                                             FAKE_RANK="rank=1 at=100 do=kill steps=100000"))
        metrics = scratch / "run/metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.01)
        group.allow(1)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
    text = (scratch / "said").read_text()
    check(code == 69 and "pids.max" in text, f"a limit that came later: exit code {code}", text)
    check(not group.members(), "a limit that came later: processes are left")


def try_user(binaries, scratch):
    """As a user of whom few processes may be there."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    for name in ("train.json", "corpus.txt"):
        shutil.copy(scratch / name, folder)
    for path in (scratch, folder, *folder.iterdir()):
        path.chmod(0o755)
    os.chown(folder, NOBODY, NOBODY)
    for most in (2, 10, 20):
        def become():
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            with open(scratch / "said", "w+") as said:
                process = subprocess.Popen(command(binaries, folder / "run"), cwd=folder, stdin=subprocess.DEVNULL,
                                           stdout=said, stderr=said, preexec_fn=become)
                code = process.wait(60)
        except PermissionError:
            print("skipped: another user may not start the programs where they are")
            return
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
        text = (scratch / "said").read_text()
        check(code == 69 and "ulimit -u" in text, f"ulimit -u {most}: exit code {code}", text)


def try_deaf(binaries, scratch):
    """A call of the launcher that never returns, early and late; signals end it by then."""
    counters = scratch / "counters"
    environment = dict(os.environ, LD_PRELOAD=str(binaries / "libraries/failing_calls.so"), FAILING_CALLS=str(counters))
    size = 4 * len(KINDS) * len(CALLS)
    assert struct.calcsize("I") == 4
    counters.write_bytes(bytes(size))
    shutil.rmtree(scratch / "run", ignore_errors=True)
    code, said = bounded(command(binaries, scratch / "run"), scratch, env=environment)
    check(code == 0, f"undisturbed: exit code {code}", said)
    last = counts_in(counters)["dslaunch", "opendir"]  # when what the last epoch left is removed
    for call, number, number_of_signal, ends_with in (
            ("socketpair", 1, signal.SIGTERM, 143), ("posix_spawn", 2, signal.SIGINT, 130),
            ("opendir", last, signal.SIGTERM, 0)):  # the model is written by then
        counters.write_bytes(bytes(size))
        shutil.rmtree(scratch / "run", ignore_errors=True)
        with open(scratch / "said", "w+") as said:
            process = subprocess.Popen(command(binaries, scratch / "run"), cwd=scratch, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=said,
                                       env=dict(environment, FAILING_CALL=f"dslaunch {call} {number} 0"))
            while process.poll() is None and counts_in(counters)["dslaunch", call] < number:
                time.sleep(0.01)
            process.send_signal(number_of_signal)
            try:
                code = process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                code = None
        text = (scratch / "said").read_text()
        where = f"{number_of_signal.name} while {call} does not return"
        check(code == ends_with, f"{where}: exit code {code}", text)
        check("was not heeded for 10 s" in text, f"{where}: it is not said", text)
        for _ in range(100):
            left = processes_in(scratch)
            if not left:
                break
            time.sleep(0.05)
        check(not left, f"{where}: processes {left} are left")


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    os.environ.pop("DSLAUNCH_RANKD", None)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="limits-"))
    try:
        (scratch / "train.json").write_text(json.dumps(CONFIG))
        (scratch / "corpus.txt").write_text("".join(f"{i} {i * i}\n" for i in range(3000)))
        if os.getuid() == 0 and (GROUPS / "cgroup.procs").exists():
            try_groups(binaries, scratch)
        else:
            print("skipped: no cgroup of version 1 for processes that may be used here")
        if os.getuid() == 0:
            try_user(binaries, scratch)
        try_deaf(binaries, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
