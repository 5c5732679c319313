"""One call to the C library fails, once, in a run of two ranks: for each call of tests/support/failing_calls in turn,
and for the first, the second, ... call of it, as many as the run makes (of those that it makes by the hundred, some).
A run must end with 0, or with the code of what has failed and one error; never as if the program were wrong (1, 70,
an abort), but where a library aborts by itself. It leaves no process and no shared memory.

usage: failing_calls.py BIN_DIR [--call NAME] [--kind dslaunch|rank|other] [--number N] [--errno NAME] [--seconds S]

--seconds: begin no further run after so many; what fails in its own ways comes first. Ends with 0 if all held, 1 with
a line for each that did not.
"""
import argparse
import concurrent.futures
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ["dslaunch", "rank", "other"]
# In the order of the library's table, with what may come of each.
CALLS = {
    "open": ["EIO", "EACCES", "EMFILE"], "openat": ["EIO", "EMFILE"], "read": ["EIO", "EINTR"], "pread": ["EIO"],
    "write": ["EIO", "ENOSPC", "EINTR"], "pwrite": ["EIO", "ENOSPC"], "fsync": ["EIO"], "fdatasync": ["EIO"],
    "ftruncate": ["EIO", "EINTR", "ENOSPC"], "fallocate": ["ENOSPC", "EINTR", "ENOMEM"], "mmap": ["ENOMEM", "EACCES"],
    "shm_open": ["EACCES", "EINTR", "EMFILE"], "shm_unlink": ["EACCES", "EIO"], "unlink": ["EIO", "EACCES"],
    "unlinkat": ["EIO", "EACCES"], "rename": ["EIO", "ENOSPC"], "mkdir": ["EIO", "ENOSPC"], "fcntl": ["EINVAL"],
    "fchmod": ["EPERM", "EIO"], "fstat": ["EIO"], "opendir": ["EMFILE", "EIO"], "flock": ["EIO"],
    "pipe2": ["EMFILE"], "socketpair": ["EMFILE"], "eventfd": ["EMFILE"], "signalfd": ["EMFILE"], "epoll": ["EMFILE"],
    "memfd_create": ["EMFILE", "ENOMEM"], "getrandom": ["EINTR", "EIO"], "pidfd_open": ["EMFILE"],
    "posix_spawn": ["EAGAIN", "ENOMEM"], "pthread_create": ["EAGAIN"], "writev": ["EIO"],
}
RARE = 6  # calls of one kind up to which each is tried
# 65, 66: an input that cannot be read is as good as missing or wrong; 69: no further process or thread.
ALLOWED = {0, 65, 66, 69, 74}
LIMIT_S = 60
# gRPC and Abseil, which are linked into the programs, abort where a call of their own fails: no caller can change that.
ABORT_OF_LIBRARY = re.compile(r"\b(low_level_alloc|ev_epoll1_linux|statusor)\.cc *: ?\d+\]")
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
    "train": {"steps": 4, "save_every": 2}, "train_batch_size": 4, "steps_per_print": 1000,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 2},
}


def counts_in(path):
    """(kind, call) -> how many."""
    numbers = struct.unpack(f"{len(KINDS) * len(CALLS)}I", path.read_bytes())
    return {(kind, call): numbers[k * len(CALLS) + c] for k, kind in enumerate(KINDS) for c, call in enumerate(CALLS)}


def processes_in(folder):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def stray_shared_memory(known=frozenset()):
    """Of nobody who lives, beside what is known. Who has just made some, such as another test, maps it soon."""
    strays = unmapped_shared_memory() - known
    for _ in range(20):
        if not strays:
            break
        time.sleep(0.1)
        strays &= unmapped_shared_memory()
    return strays


def unmapped_shared_memory():
    mapped = ""
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            mapped += maps.read_text()
        except OSError:
            pass
    return {path.name for path in pathlib.Path("/dev/shm").glob("dslaunch-*") if str(path) not in mapped}


def run(binaries, scratch, failing):
    """What came of a run in which `failing`, or nothing, fails: code, output, the counts, what is left, and whether its
    model is written."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    (folder / "train.json").write_text(json.dumps(CONFIG))
    shutil.copy(scratch / "corpus.txt", folder)
    counters = folder / "counters"
    counters.write_bytes(bytes(4 * len(KINDS) * len(CALLS)))
    environment = dict(os.environ, LD_PRELOAD=str(binaries / "libraries/failing_calls.so"), FAILING_CALLS=str(counters))
    environment.pop("DSLAUNCH_RANKD", None)
    if failing:
        environment["FAILING_CALL"] = failing
    words = [str(binaries / "dslaunch"), "train.json", "--run-dir", str(folder / "run"), "--num-ranks", "2",
             "--num-threads", "2", "--join-timeout", "20"]
    process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        output, code = process.communicate()[0], None
    left = []
    for _ in range(100):  # who is killed may need a moment
        left = processes_in(folder)
        if not left:
            break
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, 9)
    counts = counts_in(counters)
    trained = (folder / "run/final/model.safetensors").exists()
    shutil.rmtree(folder, ignore_errors=True)
    return code, output, counts, left, trained


def complaints(code, output, left, strays):
    out = []
    is_of_library = code == -signal.SIGABRT and ABORT_OF_LIBRARY.search(output)
    if code is None:
        out.append(f"no end within {LIMIT_S} s")
    elif code not in ALLOWED and not is_of_library:
        out.append(f"exit code {code}")
    errors = sum(line.startswith("error: ") for line in output.splitlines())
    if code not in (0, None) and errors != 1 and not is_of_library:
        out.append(f"{errors} errors")
    if "this is a bug" in output or "terminate called" in output:
        out.append("it says that it is wrong itself")
    if left:
        out.append(f"processes {left} are left")
    if strays:
        out.append(f"shared memory is left: {sorted(strays)}")
    return out


def cases_of(counts, args):
    """Those with few calls first: each is a place of its own."""
    cases = []
    for (kind, call), count in sorted(counts.items(), key=lambda item: item[1]):
        if (args.call and call != args.call) or (args.kind and kind != args.kind):
            continue
        numbers = range(1, count + 1) if count <= RARE else sorted({*range(1, RARE + 1), *(
            1 + i * (count - 1) // RARE for i in range(RARE + 1))})
        for at, number in enumerate([args.number] if args.number else numbers):
            reasons = CALLS[call]
            for reason in [args.errno] if args.errno else reasons if count <= RARE else [reasons[at % len(reasons)]]:
                cases.append((kind, call, number, reason))
    return cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--call", choices=list(CALLS))
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--number", type=int)
    parser.add_argument("--errno")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0)
    args = parser.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="dslaunch-calls-"))
    start, lock, seen = time.monotonic(), threading.Lock(), {"runs": 0, "reached": 0, "wrong": 0}
    before = stray_shared_memory()

    def try_case(case):
        kind, call, number, reason = case
        if args.seconds and time.monotonic() - start > args.seconds:
            return
        code, output, counts, left, trained = run(args.binaries, scratch,
                                                  f"{kind} {call} {number} {getattr(errno, reason)}")
        with lock:
            strays = stray_shared_memory(before)
            wrong = complaints(code, output, left, strays)
            if trained and code != 0 and (kind, call) == ("dslaunch", "pthread_create"):
                wrong.append(f"the model is written, and the exit code is {code}")
            before.update(strays)
            seen["runs"] += 1
            seen["reached"] += counts[kind, call] >= number
            if wrong:
                seen["wrong"] += 1
                tail = "\n    ".join(output.splitlines()[-14:])
                print(f"{kind}: {call} {number} fails with {reason}: {'; '.join(wrong)}\n    {tail}", flush=True)

    try:
        (scratch / "corpus.txt").write_text("".join(f"{i} {i * i}\n" for i in range(3000)))
        code, output, counts, left, _ = run(args.binaries, scratch, "")
        if code != 0 or left:
            sys.exit(f"the undisturbed run ends with {code}: {output}")
        # What is meant to be tried must be there.
        for kind, call in (("rank", "ftruncate"), ("rank", "shm_unlink"), ("rank", "mmap"), ("dslaunch", "write"),
                           ("dslaunch", "posix_spawn"), ("dslaunch", "pthread_create")):
            if counts[kind, call] == 0:
                sys.exit(f"a run makes no call of {call} that could fail in a {kind}")
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(try_case, cases_of(counts, args)))
        print(f"{seen['runs']} runs, in {seen['reached']} of them the call came, {seen['wrong']} wrong, "
              f"{time.monotonic() - start:.0f} s")
        return 1 if seen["wrong"] or not seen["reached"] else 0
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
