#!/usr/bin/env python3
"""`dslaunch trace` of a real run of two ranks: the file is what viewers read, its slices nest, every rank is in it,
its collectives are those of the communication log, clocks agree; what cannot be is one error; and the run goes on.

usage: trace.py FOLDER_OF_PROGRAMS
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = {
    "model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32},
    "train": {"steps": 1000000, "save_every": 40, "keep_checkpoints": 2},
    "train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "zero_optimization": {"stage": 3},
}
MILLISECOND = 1000.0


def check(holds, what):
    if not holds:
        sys.exit(f"trace: {what}")


def wait_until(what, holds):
    until = time.time() + 60
    while not holds():
        check(time.time() < until, f"waited in vain for {what}")
        time.sleep(0.05)


def trace(binaries, *arguments, code=0):
    done = subprocess.run([f"{binaries}/dslaunch", "trace", "run", *arguments], capture_output=True, text=True,
                          timeout=120)
    check(done.returncode == code, f"trace {arguments}: exit {done.returncode}, expected {code}\n{done.stdout}\n"
          f"{done.stderr}")
    return done.stdout if code == 0 else done.stderr


def slices(path):
    """Those of a file, by rank; every one complete, and within what it lies in."""
    file = json.load(open(path))
    by_rank = {}
    names = {}
    for event in file["traceEvents"]:
        check(event["ph"] in "XM", f"an event of kind {event['ph']}")
        if event["ph"] == "M":
            if event["name"] == "process_name":
                names[event["pid"]] = event["args"]["name"]
            continue
        check(event["dur"] >= 0, f"{event} ends before it begins")
        by_rank.setdefault(event["pid"], []).append(event)
    check(set(names) == set(by_rank), f"processes {names}, events of {set(by_rank)}")
    for events in by_rank.values():
        check_nesting(events)
    return by_rank


def check_nesting(events):
    tracks = {}
    for event in events:
        begin = round(event["ts"] * MILLISECOND)
        tracks.setdefault(event["tid"], []).append((begin, -round(event["dur"] * MILLISECOND), event["name"]))
    for track in tracks.values():
        open_ends = []
        for begin, negative, name in sorted(track, key=lambda one: one[:2]):
            end = begin - negative
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            check(not open_ends or end <= open_ends[-1], f"{name} ends after what it lies in")
            open_ends.append(end)


def of_kind(events, kind):
    return [event for event in events if event["cat"] == kind]


def check_calls(by_rank, steps, wire_bytes_per_step):
    calls = {rank: of_kind(events, "collective") for rank, events in by_rank.items()}
    for rank, mine in calls.items():
        data = sum(call["args"]["wire_bytes"] for call in mine if call["args"]["group"] == "data")
        check(data == steps * wire_bytes_per_step, f"rank {rank}: {data} bytes in {steps} steps, measured are "
              f"{wire_bytes_per_step} per step")
    # Nobody leaves a collective before all have come: one clock.
    for one, other in zip(calls[0], calls[1]):
        check(one["name"] == other["name"], f"{one['name']} of rank 0 beside {other['name']}")
        for late, early in ((one, other), (other, one)):
            check(late["ts"] + late["dur"] > early["ts"] - 5 * MILLISECOND, f"{late} is over before {early} begins")


def start(binaries):
    job = subprocess.Popen([f"{binaries}/dslaunch", "train.json", "--run-dir", "run", "--num-ranks", "2"],
                           stdout=open("job.out", "a"), stderr=subprocess.STDOUT)
    wait_until("the first step", lambda: os.path.exists("run/metrics.jsonl") and os.path.getsize("run/metrics.jsonl"))
    return job


def steps_made():
    return sum(1 for _ in open("run/metrics.jsonl"))


def check_trace(binaries):
    said = json.loads(trace(binaries, "--steps", "4", "-o", "four.json", "--json"))
    check(said["file"] == "four.json" and said["ranks"] == 2 and said["steps"] == 4 and said["left_out"] == 0,
          f"it says {said}")
    by_rank = slices("four.json")
    check(sorted(by_rank) == [0, 1], f"ranks {sorted(by_rank)}")
    check(said["events"] == sum(len(events) for events in by_rank.values()), f"{said['events']} events")
    for rank, events in by_rank.items():
        names = [event["name"] for event in of_kind(events, "step")]
        check(names == [f"step {said['first_step'] + i}" for i in range(4)], f"rank {rank} has {names}")
        check(len(of_kind(events, "micro-step")) == 8, f"rank {rank}: micro-steps")
        modules = {event["name"] for event in of_kind(events, "module")}
        for module in ("transformer.h.1.attn.c_attn", "transformer.h.0.mlp.c_fc", "head"):
            check(module in modules, f"rank {rank} has no module {module}: {sorted(modules)}")
        check(of_kind(events, "kernel") and of_kind(events, "copy"), f"rank {rank}: kernels or copies")
    check(not os.path.exists("run/logs/trace.lines"), "what ranks sent is left behind")
    return by_rank


def check_errors(binaries):
    check("--steps" in trace(binaries, "--steps", "0", code=2), "a trace of no steps")
    check("the ranks are 0 to 1" in trace(binaries, "--ranks", "0,7", code=69), "a rank that there is not")
    long = subprocess.Popen([f"{binaries}/dslaunch", "trace", "run", "--steps", "1000", "-o", "long.json", "--json"],
                            stdout=subprocess.PIPE, text=True)
    wait_until("the trace", lambda: json.loads(subprocess.run(
        [f"{binaries}/dslaunch", "status", "run", "--json"], capture_output=True, text=True).stdout)["trace"]["state"]
        == "recording")
    check("under way already" in trace(binaries, code=69), "a second trace beside the first")
    for _ in range(2):  # steps are told some at a time: those told first may be older than the trace
        made = steps_made()
        wait_until("steps of the trace", lambda: steps_made() > made)
    long.send_signal(signal.SIGINT)
    said = json.loads(long.communicate(timeout=60)[0])
    check(long.returncode == 0 and 0 < said["steps"] < 1000, f"Ctrl-C: {long.returncode}, {said}")
    slices("long.json")
    said = json.loads(trace(binaries, "--steps", "45", "--ranks", "1", "--json"))
    by_rank = slices("run/trace.json")
    check(list(by_rank) == [1] and said["steps"] == 45, f"--ranks 1: {list(by_rank)}, {said}")
    check("save" in [event["name"] for event in of_kind(by_rank[1], "phase")], "the save is missing")


def check_lost_rank(binaries):
    long = subprocess.Popen([f"{binaries}/dslaunch", "trace", "run", "--steps", "1000", "-o", "lost.json"],
                            stderr=subprocess.PIPE, text=True)
    status = lambda: json.loads(subprocess.run([f"{binaries}/dslaunch", "status", "run", "--json"],
                                               capture_output=True, text=True).stdout)
    wait_until("the trace", lambda: status()["trace"]["state"] == "recording")
    os.kill(status()["ranks"][1]["pid"], signal.SIGKILL)
    check(long.wait(timeout=60) == 1, "a lost rank's trace does not fail")
    said = long.stderr.read()
    check("came to nothing" in said and "killed" in said, f"a lost rank: {said}")
    check(not os.path.exists("lost.json"), "a trace of a lost rank is written")
    wait_until("the next generation", lambda: status()["phase"] == "running" and status()["generation"] == 2)
    check(json.loads(trace(binaries, "--steps", "1", "--json"))["ranks"] == 2, "no trace after a restart")


def main():
    binaries = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        pathlib.Path("corpus.txt").write_text("\n".join(str(i * i) for i in range(4000)))
        pathlib.Path("train.json").write_text(json.dumps(CONFIG))
        trace(binaries, code=66)
        job = start(binaries)
        try:
            by_rank = check_trace(binaries)
            check_errors(binaries)
            check_lost_rank(binaries)
            made = steps_made()
            wait_until("more steps", lambda: steps_made() > made)
            subprocess.run([f"{binaries}/dslaunch", "ctl", "stop", "run"], check=True, capture_output=True)
            check(job.wait(timeout=60) == 75, f"the run ends with {job.returncode}")
        finally:
            job.kill()
        check("does not run any more" in trace(binaries, code=66), "a run that is over")
        measured = json.load(open("run/report.json"))["ranks"][0]["results"]
        per_step = sum(value for key, value in measured.items() if key.startswith("wire_bytes.data."))
        check_calls(by_rank, 4, round(per_step))
    print("trace: all is well")


if __name__ == "__main__":
    main()
