#!/usr/bin/env python3
"""What stands in a run directory, a model's folder or a data set may be anything: pipes, devices, files without end, JSON
as deep as it is long, numbers at the edges, escape sequences. Each command ends by itself, within bounded memory, with
an error in words or without, and steers no terminal.

usage: files.py FOLDER_OF_PROGRAMS [PART ...]

The parts are directories, runs, numbers, escapes and deep; all of them, where none is named.
"""
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

DSLAUNCH = os.path.join(os.path.abspath(sys.argv[1]), "dslaunch")
PATIENCE_S = 120  # for what takes a fraction of a second: the machine may be busy
MEMORY = 2 << 30
DEPTH = 200_000
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 16, "n_positions": 8, "vocab_size": 256},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 8},
    "train": {"steps": 4, "save_every": 2}, "train_batch_size": 4, "steps_per_print": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
}
STEERING = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f\x9b]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
INTERNAL = 70
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what, flush=True)


def bounded():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def dslaunch(*arguments, limit=bounded):
    return subprocess.run([DSLAUNCH, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=PATIENCE_S, preexec_fn=limit)


def ends(what, *arguments, names=None, limit=bounded):
    """The command ends by itself, with words where it fails (of `names`, if that is given)."""
    try:
        done = dslaunch(*arguments, limit=limit)
    except subprocess.TimeoutExpired:
        check(False, f"{what}: {arguments[0]} does not end")
        return None
    check(0 <= done.returncode < 128 and done.returncode != INTERNAL,
          f"{what}: {arguments[0]} ends with {done.returncode}: {done.stderr[-300:]}")
    check(done.returncode == 0 or done.stderr or done.stdout, f"{what}: {arguments[0]} fails without a word")
    if names and done.returncode != 0:
        check(names.encode() in done.stderr + done.stdout, f"{what}: {arguments[0]} does not name {names}: {done.stderr}")
    check(not STEERING.search(done.stdout + done.stderr), f"{what}: {arguments[0]} steers the terminal")
    return done


def replaced(path):
    """Nothing is at the path, and something can be put there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        bound.bind(path.name)
        os.chdir(here)


def sparse(path, size):
    with open(path, "wb") as out:
        out.truncate(size)


ODD = {
    "a FIFO": os.mkfifo,
    "a socket": a_socket,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/tty": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a directory": os.mkdir,
    "a terabyte of nothing": lambda path: sparse(path, 1 << 40),
    "300 MiB of nothing": lambda path: sparse(path, 300 << 20),
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "brackets": lambda path: path.write_text("[" * DEPTH),
    "closed brackets": lambda path: path.write_text("[" * DEPTH + "]" * DEPTH),
    "objects in objects": lambda path: path.write_text('{"step":' * DEPTH + "1" + "}" * DEPTH),
}
LOOKS = [("status",), ("status", "--json"), ("status", "--prometheus"), ("top", "-n", "1"), ("tail",), ("report",),
         ("ctl", "stop"), ("stack",)]
READ = {"report.json": LOOKS[:4] + LOOKS[5:], "plan.json": [("report",)], "metrics.jsonl": [("report",)],
        "logs/rank-0.log": [("tail",)], "lease.json": [("status",), ("ctl", "stop")], "config.json": [("status",)],
        "committed.json": [("status",)], "logs/dslaunch.log": [("status",), ("tail",)]}


def odd_run_directories(base, here):
    run = here / "odd"
    for name, verbs in READ.items():
        for what, put in ODD.items():
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(base, run)
            put(replaced(run / name))
            for verb, *options in verbs:
                page = ["--output", here / "page.html"] if verb == "report" else []
                order, options = (["stop"], []) if verb == "ctl" else ([], options)
                ends(f"{name} is {what}", verb, *order, run, *options, *page)
    # What a run that was killed had saved last.
    for what, put in ODD.items():
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(base, run)
        (run / "report.json").unlink()
        (run / "lease.json").unlink(missing_ok=True)
        put(replaced(run / "checkpoints" / "latest"))
        ends(f"checkpoints/latest is {what}", "status", run)


def odd_runs(base, here):
    run = here / "again"
    for name in ("checkpoints/latest", "committed.json", "metrics.jsonl", "report.json", "lease.json", "checkpoints/epoch"):
        for what in ("a FIFO", "a link to /dev/zero", "brackets"):
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(base, run)
            ODD[what](replaced(run / name))
            ends(f"{name} is {what}", "train.json", "train.steps=5", "--num-ranks", "1", "--num-threads", "1", "--run-dir",
                 run, limit=None)


def odd_numbers(base, here):
    text = (base / "metrics.jsonl").read_text()
    run = here / "numbers"
    shutil.copytree(base, run)
    turns = iter(range(10 ** 9))
    page = ["--output", here / "page.html"]
    for what, changed in {
            "steps of 1e308": re.sub(r'"step": \d+', '"step": 1e308', text),
            "steps of -1e308 and 1e308": re.sub(r'"step": \d+', lambda _: f'"step": {(-1e308, 1e308)[next(turns) % 2]}', text),
            "losses one bit apart": re.sub(r'"loss": [^,]+',
                                           lambda _: f'"loss": {(5.5, 5.500000000000001)[next(turns) % 2]}', text),
            "losses of 5e-324": re.sub(r'"loss": [^,]+', '"loss": 5e-324', text),
            "losses of 1.7e308 and less": re.sub(r'"loss": [^,]+',
                                                 lambda _: f'"loss": {(-1.7e308, 1.7e308)[next(turns) % 2]}', text)}.items():
        (run / "metrics.jsonl").write_text(changed)
        done = ends(what, "report", run, *page)
        check(done and done.returncode == 0, f"{what}: no page")
    report = json.loads((base / "report.json").read_text())
    for key in report:
        for value in (1e308, -1e308, "\x1b[2J", [], {}, None, True, [[[]]] * 3, {"rank": "x"}, [{"rank": 1e308}]):
            (run / "report.json").write_text(json.dumps({**report, key: value}))
            ends(f"report.json: {key} is {value}", "report", run, *page)
            ends(f"report.json: {key} is {value}", "status", run)


def on_terminal(*arguments):
    """What a terminal gets of the command."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(DSLAUNCH, [DSLAUNCH, *map(str, arguments)])
    out = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the last of them has gone
            break
        if not data:
            break
        out += data
    os.waitpid(pid, 0)
    return out.replace(b"\r\n", b"\n")  # the terminal's own


def escape_sequences(base, here):
    bad = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\x08"
    run = here / "escapes"
    shutil.copytree(base, run)
    report = (base / "report.json").read_text()
    (run / "report.json").write_text(report.replace("every rank is done", "why " + json.dumps(bad)[1:-1]))
    with open(run / "logs" / "rank-0.log", "ab") as out:
        out.write(b"said " + bad.encode() + b"\x9b31m\n")
    for verb, *options in LOOKS[:6]:
        ends("escape sequences", verb, run, *options)
    check(b"why \\u001b]0;owned" in dslaunch("status", run).stdout, "status does not show what is escaped")
    check(b"said \\u001b]0;owned" in dslaunch("tail", run).stdout, "tail does not show what is escaped")
    # In names and values of the user's, on both streams.
    evil = here / "evil-\x1b[2J-\u202e.json"
    evil.write_text(json.dumps({**CONFIG, "key \x1b[31m": 1, "zero_optimization": {"stage": "\x1b[2J\x9b"}}))
    for verb in (["check", evil], ["explain", evil], ["plan", evil, "--num-ranks", "1"], [evil, "--dry-run"],
                 ["status", here / "no \x1b[2J run"], ["generate", here / "no \x1b[2J model", "--prompt", "a"],
                 ["tokenize", "--tokenizer", "\x1b[2J", "a"], ["\x1b[2J"], ["status", "--\x1b[2J"], ["init", "--data", evil]):
        ends("escape sequences in names", *verb)
        shown = on_terminal(*verb).replace(b"\x1b[1;31merror:\x1b[0m", b"error:")
        check(not STEERING.search(shown), f"{verb[0]} on a terminal: {shown}")
    # What a model says goes to programs as it is, and to a terminal as it is shown.
    say = ["generate", base / "final", "--prompt", "a\x1b[2J\n\tb", "--max-tokens", "1", "--num-threads", "1"]
    check(dslaunch(*say, limit=None).stdout.startswith(b"a\x1b[2J\n\tb"), "generate: a pipe does not get every byte")
    shown = on_terminal(*say)
    check(shown.startswith(b"a\\u001b[2J\n\tb") and not STEERING.search(shown), f"generate on a terminal: {shown}")
    ids = ["tokenize", "--tokenizer", "byte", "--decode", "97 27 91 50 74"]
    check(dslaunch(*ids).stdout == b"a\x1b[2J\n", "tokenize: a pipe does not get every byte")
    check(on_terminal(*ids) == b"a\\u001b[2J\n", "tokenize steers the terminal")


def deep_inputs(base, here):
    """Every file of JSON that somebody else may have written."""
    tokenizer = here / "tokenizer.json"
    tokenizer.write_text(json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}))
    model = here / "model"
    deep = {what: ODD[what] for what in ("brackets", "closed brackets", "objects in objects")}
    say = ["generate", model, "--prompt", "a", "--max-tokens", "1", "--num-threads", "1"]
    train = ["train.json", "--num-ranks", "1", "--num-threads", "1", "--run-dir", here / "deep"]
    for what, put in deep.items():
        for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                     "special_tokens_map.json", "model.safetensors.index.json"):
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(base / "final", model)
            put(replaced(model / name))
            if "index" in name:
                (model / "model.safetensors").unlink()
            ends(f"{name} is {what}", *say, limit=None)
        put(replaced(here / "text"))
        text = (here / "text").read_bytes()
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(base / "final", model)
        (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
        ends(f"the head of model.safetensors is {what}", *say, limit=None)
        put(replaced(here / "deep_tokenizer.json"))
        ends(f"tokenizer.json is {what}", "tokenize", "--tokenizer", here / "deep_tokenizer.json", "a")
        put(replaced(here / "deep_train.json"))
        for verb in (["check"], ["explain"], ["plan"], []):
            ends(f"train.json is {what}", *verb, here / "deep_train.json")
        ends(f"a value is {what}", "check", "train.json", "model=" + text[:60_000].decode())
        (here / "lines.jsonl").write_bytes(b'{"text": "abcdefghijklmnop"}\n' * 40 + text + b"\n")
        for override in ('data.train=["lines.jsonl"]', 'data.train=["corpus.txt"]'):
            shutil.rmtree(here / "deep", ignore_errors=True)
            ends(f"a line of the data is {what}", *train, override, limit=None)
        put(replaced(here / "hf" / "config.json"))
        shutil.rmtree(here / "deep", ignore_errors=True)
        ends(f"a model's config.json is {what}", *train, 'model={"from": "hf"}', limit=None)
        tag = sorted((base / "checkpoints").glob("global_step*"))[-1].name
        for name in ("manifest.json",):
            run = here / "deep"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(base, run)
            put(replaced(run / "checkpoints" / tag / name))
            ends(f"{name} of a checkpoint is {what}", *train, "train.steps=5", limit=None)


def main():
    here = pathlib.Path(tempfile.mkdtemp(prefix="hostile-files-"))
    os.chdir(here)
    try:
        (here / "corpus.txt").write_text("".join(f"{i}\n" for i in range(400)))
        (here / "train.json").write_text(json.dumps(CONFIG))
        base = here / "base"
        done = dslaunch("train.json", "--num-ranks", "1", "--num-threads", "1", "--run-dir", base, limit=None)
        if done.returncode != 0:
            sys.exit(f"the run itself: {done.stderr.decode()}")
        parts = {"directories": odd_run_directories, "runs": odd_runs, "numbers": odd_numbers, "escapes": escape_sequences,
                 "deep": deep_inputs}
        for name in sys.argv[2:] or parts:
            parts[name](base, here)
    finally:
        os.chdir("/")
        shutil.rmtree(here, ignore_errors=True)
    print(f"hostile_files: {len(failures)} failed" if failures else "hostile_files: passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
