"""Real processes under seeded faults: each schedule trains on 2 to 4 ranks, has 1 to 4 faults (failpoints,
kill -9, SIGSTOP, errors of the disk), and in most the launcher has trouble of its own (it stands still, nobody
reads what it prints, somebody launches again in its directory). It must end with code 0, the weights of the
undisturbed run to the bit, every step once in the metrics, and nothing left behind; a second launch with 75. After
some of them a person sets `latest` to an earlier tag and launches again, with a rank killed: the run goes on from that
tag, and its weights are again those of the undisturbed one.

usage: fault_schedules.py BIN_DIR [--count N] [--seed FIRST] [--jobs J] [--seconds S] [--device DEVICE] [--fp16]
       [--offload | --zenflow | --mesh]

--fp16 trains in fp16 in each, and in the undisturbed run, with a loss scale that overflows again and again: what is
skipped puts saves off, and pushes none out.

--offload keeps state and weights outside of the device in each (the weights' bits stay those of the run without), and
puts half of the faults there: nothing may be left of the swap files either. --zenflow trains with ZenFlow in each,
and in the undisturbed run, and puts half of the faults there. --mesh has ranks that share samples in each: stages of a
pipeline, parts of layers, parts of sequences, rings, and two of these; half of the faults are where such ranks talk.

Schedule k has seed FIRST + k; `--count 1 --seed S` runs one again (what the clock decides may differ).
Ends with 0 if all held, 1 with a line per schedule that did not, 77 where the build has no failpoints.
"""
import argparse
import concurrent.futures
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

STEPS, SAVE_EVERY, LIMIT_S = 12, 3, 120
JOIN_TIMEOUT = "8"  # a rank that stands still before it has joined is not waited for longer; more than a busy machine takes
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256,
              "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 16},
    "train": {"steps": STEPS, "save_every": SAVE_EVERY, "keep_checkpoints": 2},
    "train_batch_size": 12, "steps_per_print": 1000,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 2},
}


EVERY_RUN = []  # what each is told besides
ZERO = "zero_optimization."
OFFLOADED_PLACES = ("swap", "offload")
# Overflows at the start, and after every second step that goes well.
FP16 = ["+fp16.enabled=true", "+fp16.initial_scale_power=24", "+fp16.loss_scale_window=1", "+fp16.hysteresis=1"]
# Columns are chosen, and the rest's update is under way, at most steps at which somebody may have to go on.
ZENFLOW = [f"{ZERO}offload_optimizer.device=cpu", f"{ZERO}zenflow.topk_ratio=0.25",
           f"{ZERO}zenflow.select_strategy=step", f"{ZERO}zenflow.select_interval=5",
           f"{ZERO}zenflow.update_interval=2", f"{ZERO}zenflow.overlap_step=true"]


def state_on(device, **more):
    words = {"device": device, **({"nvme_path": "swap"} if device == "nvme" else {}), **more}
    return [f"{ZERO}offload_optimizer.{key}={value}" for key, value in words.items()]


def weights_on(device):
    words = {"device": device, **({"nvme_path": "swap", "max_in_cpu": 0} if device == "nvme" else {})}
    return [f"{ZERO}offload_param.{key}={value}" for key, value in words.items()]


OFFLOADS = [(stages, words) for stages, words in (
    ([1, 2, 3], state_on("cpu")),
    ([3], state_on("cpu", ratio=0.3)),
    ([1, 2, 3], state_on("cpu", super_offload="true")),
    ([3], state_on("nvme")),
    ([3], state_on("nvme", pipeline_read="true", pipeline_write="true") + [f"{ZERO}sub_group_size=1000"]),
    ([3], state_on("nvme", super_offload="true") + [f"{ZERO}sub_group_size=1000"]),
    ([3], weights_on("cpu")),
    ([3], weights_on("nvme")),
    ([3], weights_on("cpu") + state_on("nvme")),
    ([3], weights_on("nvme") + state_on("nvme", ratio=0.5) + [f"{ZERO}sub_group_size=1000"]),
)]


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Who works on one sample together."""
    ranks: int = 1
    stages: tuple = (0, 1, 2, 3)  # of ZeRO
    words: tuple = ()  # what the command says of it, also in the undisturbed run
    places: tuple = ()  # kinds of failpoints that only such ranks come to


NO_MESH = Mesh()
TENSOR, TRADE, PIPE = "+tensor_parallel.autotp_size=", "+sequence_parallel_size=", "+pipeline.stages="
WITH_RING = (f"{TRADE}2", "+sequence_parallel_attention=ring")
# Several micro-batches are under way, heads are enough for two axes, and what is dropped depends on who has which rows.
OF_MESHES = ("gradient_accumulation_steps=3", "model.n_layer=2", "model.n_head=4", "model.resid_pdrop=0.1",
             "model.embd_pdrop=0.1")
MESHES = [Mesh(ranks, stages, OF_MESHES + words, places) for ranks, stages, words, places in (
    (2, (0, 1), (f"{PIPE}2",), ("pipe",)),
    (2, (0, 1), (f"{PIPE}2", "+pipeline.schedule=zb_h1"), ("pipe",)),
    (2, (0, 1), (f"{PIPE}2", "+pipeline.schedule=gpipe", "train.offload_activations=true"), ("pipe",)),
    (2, (1,), (f"{PIPE}2", "+pipeline.schedule=interleaved", "gradient_accumulation_steps=2", *state_on("cpu")),
     ("pipe",)),
    (2, (0, 1, 2, 3), (f"{TENSOR}2",), ("tensor",)),
    (2, (0, 1, 2, 3), (f"{TENSOR}2", "+tensor_parallel.sequence_parallel=true"), ("tensor",)),
    (2, (0, 1, 2, 3), (f"{TENSOR}2", "+activation_checkpointing.partition_activations=true"), ("tensor",)),
    (2, (3,), (f"{TENSOR}2", *state_on("nvme")), ("tensor",)),
    (2, (0, 1, 2, 3), (f"{TRADE}2",), ("sequence",)),
    (2, (0, 1, 2, 3), WITH_RING, ("ring",)),
    (2, (3,), (*WITH_RING, *weights_on("cpu"), *state_on("cpu")), ("ring",)),
    (4, (0, 1), (f"{PIPE}2", f"{TENSOR}2"), ("pipe", "tensor")),
    (4, (0, 1), (f"{PIPE}2", *WITH_RING), ("pipe", "ring")),
    (4, (0, 1, 2, 3), (f"{TENSOR}2", f"{TRADE}2"), ("tensor", "sequence")),
)]
OF_MESH_PLACES = {place for mesh in MESHES for place in mesh.places}


def command(binaries, run_dir, ranks, stage, memory_every=0, apart=False, words=()):
    return [str(binaries / "dslaunch"), "train.json", "--num-ranks", str(ranks), "--num-threads", "1",
            "--run-dir", str(run_dir), "--max-restarts", "40", "--join-timeout", JOIN_TIMEOUT, f"zero_optimization.stage={stage}",
            f"train.save_in_memory_every={memory_every}",
            f"checkpoint.use_node_local_storage={str(apart).lower()}", *words, *EVERY_RUN]


def digest(run_dir):
    return hashlib.sha256((run_dir / "final/model.safetensors").read_bytes()).hexdigest()


def metrics(run_dir):
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [(m["step"], m["loss"], m["grad_norm"], m["lr"], m["samples"]) for m in lines]


def action_for(rng, name):
    place = name.split(".")[0]
    actions = ["kill"] * 10 + ["exit(9)"] * 2 + ["sleep(40)", "stop"]
    # Errors where the code meant to meet them; elsewhere they would be bugs, and are ends of the run.
    if place in ("ckpt", "file", "commit", "text", "latest", "export", "epoch"):
        actions += ["error(eio)"] * 4 + ["error(enospc)"] * 3
    if place in ("engine", "train", *OF_MESH_PLACES):
        actions += ["error(comm)"] * 3
    return rng.choice(actions)


def make_schedule(seed, names, special, meshes):
    """Where there is something special, offloads or meshes, half of the places are of that."""
    rng = random.Random(seed)
    ranks, stage, places, signals, offload, mesh = rng.choice([2, 3, 4]), rng.randrange(4), [], [], [], NO_MESH
    if meshes:
        mesh = rng.choice(meshes)
        ranks, stage = rng.choice(range(mesh.ranks, 5, mesh.ranks)), rng.choice(mesh.stages)
        names = rng.choice([names, [name for name in special if name.split(".")[0] in mesh.places]])
    elif special:
        stages, offload = rng.choice(OFFLOADS)
        stage = rng.choice(stages)
        names = rng.choice([names, special])
    struck = []  # ranks

    def strike(rank):
        """That one, or the next: three times the same is the end, by design."""
        struck.append((rank + 1) % ranks if struck.count(rank) == 2 else rank)
        return struck[-1]

    for epoch in range(1, rng.choice([1, 1, 2, 2, 3, 4]) + 1):
        if rng.random() < 0.2:
            stops = rng.random() < 0.1
            when, rank = rng.uniform(0.05, 1.2), strike(rng.randrange(ranks))
            signals.append((when, rank, signal.SIGSTOP if stops else signal.SIGKILL))
        else:
            name = rng.choice(names)
            skip = rng.choice([0, 0, 1, 2, 3, 5, 8, 13])
            term = (f"{skip}*off->" if skip else "") + f"1*{action_for(rng, name)}->off"
            places.append(f"{name}@rank{strike(rng.choice([0, rng.randrange(ranks)]))}@epoch{epoch}={term}")
    memory_every = rng.choice([0, 1, 1, 2])
    apart = rng.random() < 0.5  # each host keeps its own files; here there is one host
    return Schedule(ranks, stage, memory_every, apart, "; ".join(places), signals, offload, mesh,
                    *launcher_troubles(rng), rng.choice([None, None, None, rng.uniform(0.05, 1.2)]))


@dataclasses.dataclass
class Schedule:
    ranks: int
    stage: int
    memory_every: int
    apart: bool
    places: str  # failpoints
    signals: list  # of ranks: when, which, number
    offload: list  # what the command says of it
    mesh: Mesh
    pauses: list  # of the launcher: when, for how long
    deaf: float  # when somebody begins to read what it prints; None: from the start
    second: float  # when somebody launches again; None: nobody
    back: float  # when a rank is killed of a run whose latest somebody has set to an earlier tag; None: nobody does


def launcher_troubles(rng):
    pauses = [(rng.uniform(0, 1.5), rng.uniform(0.1, 4)) for _ in range(rng.choice([0, 0, 1, 2]))]
    return sorted(pauses), rng.choice([None, rng.uniform(0.5, 5)]), rng.choice([None, None, rng.uniform(0.05, 1.5)])


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def send_signals(process, signals):
    start = time.monotonic()
    for delay, rank, number in sorted(signals):
        while process.poll() is None and time.monotonic() - start < delay:
            time.sleep(0.005)
        ranks = children(process.pid)
        if process.poll() is None and ranks:
            try:
                os.kill(ranks[rank % len(ranks)], number)
            except ProcessLookupError:
                pass


def pause_launcher(process, pauses):
    start = time.monotonic()
    for delay, length in pauses:
        time.sleep(max(0.0, start + delay - time.monotonic()))
        if process.poll() is not None:
            return
        process.send_signal(signal.SIGSTOP)
        time.sleep(length)
        process.send_signal(signal.SIGCONT)


def read_late(source, target, deaf, filler):
    """What a launcher prints, from a pipe that is full from the start where nobody reads at first."""
    if deaf is not None:
        time.sleep(deaf)
    with open(source, "rb", buffering=0) as pipe, open(target, "wb") as out:
        skip = filler
        while data := pipe.read(1 << 16):
            out.write(data[min(skip, len(data)):])
            skip -= min(skip, len(data))


def full_pipe():
    """Both ends, and how many bytes are in it."""
    read_end, write_end = os.pipe()
    size = fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    os.write(write_end, b"x" * size)
    return read_end, write_end, size


def launch_again(command_line, folder, first, at, log):
    """Somebody who does not know of the first one; what it did wrong, or nothing."""
    time.sleep(at)
    lease = folder / "run/lease.json"
    while first.poll() is None and not (lease.exists() and lease.stat().st_size):
        time.sleep(0.01)
    if first.poll() is not None:
        return
    second = subprocess.run(command_line + ["train.seed=99"], cwd=folder, capture_output=True, text=True,
                            stdin=subprocess.DEVNULL)
    # One that is over, but still has to print it, leaves its directory to others; then it is the seed that is refused.
    if second.returncode != 75 and not (second.returncode == 77 and "the seed was" in second.stderr):
        log.append(f"a second launch ended with {second.returncode}: {second.stderr[-300:]}")


def processes_in(folder):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def run_schedule(binaries, folder, schedule, problems):
    """The exit code; None where it did not end."""
    words = command(binaries, folder / "run", schedule.ranks, schedule.stage, schedule.memory_every, schedule.apart,
                    [*schedule.mesh.words, *schedule.offload])
    if schedule.deaf is None:
        read_end, write_end = os.pipe()
        filler = 0
    else:
        read_end, write_end, filler = full_pipe()
    process = subprocess.Popen(words, cwd=folder, env=dict(os.environ, DSL_FAILPOINTS=schedule.places),
                               stdout=write_end, stderr=write_end, stdin=subprocess.DEVNULL)
    os.close(write_end)
    helpers = [threading.Thread(target=read_late, args=(read_end, folder / "out", schedule.deaf, filler)),
               threading.Thread(target=pause_launcher, args=(process, schedule.pauses))]
    if schedule.second is not None:
        helpers.append(threading.Thread(target=launch_again, args=(words, folder, process, schedule.second, problems)))
    for helper in helpers:
        helper.start()
    send_signals(process, schedule.signals)
    try:
        code = process.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = None
    for helper in helpers:
        helper.join()
    return code


def tags_in(run_dir):
    return sorted(run_dir.glob("checkpoints/global_step*"), key=lambda tag: int(tag.name.removeprefix("global_step")))


def go_back(binaries, folder, schedule, problems):
    """As a person does it, DeepSpeed's way."""
    tags = tags_in(folder / "run")
    if len(tags) < 2:
        problems.append(f"tags: {[tag.name for tag in tags]}, expected two or more")
        return
    (folder / "run/checkpoints/latest").write_text(tags[-2].name)
    shutil.rmtree(folder / "run/final")
    words = command(binaries, folder / "run", schedule.ranks, schedule.stage, schedule.memory_every, schedule.apart,
                    [*schedule.mesh.words, *schedule.offload])
    with open(folder / "out", "a") as out:
        process = subprocess.Popen(words, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        send_signals(process, [(schedule.back, 0, signal.SIGKILL)])
        try:
            code = process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
    if code != 0:
        problems.append(f"exit code {code} after going back to {tags[-2].name}")
    elif not any(words in (folder / "out").read_text() for words in (
            f"from={tags[-2].name}",
            # Where a fault struck while the newest tag was named, nobody can tell a wish from an accident.
            f"checkpoints/latest still names {tags[-2].name} (to go back there: --resume")):
        problems.append(f"it did not go back to {tags[-2].name}")


def one_schedule(binaries, scratch, places, reference, seed):
    """What is wrong, or nothing; and the number of restarts."""
    schedule = make_schedule(seed, *places)
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch, prefix=f"seed{seed}-"))
    for name in ("train.json", "corpus.txt"):
        shutil.copy(scratch / name, folder)
    (folder / "swap").mkdir()
    run_dir = folder / "run"
    problems, restarts = [], 0
    code = run_schedule(binaries, folder, schedule, problems)
    if code is None:
        return f"{schedule}: no end after {LIMIT_S} s", 0
    if code == 0 and schedule.back is not None:
        go_back(binaries, folder, schedule, problems)
    if code != 0:
        problems.append(f"exit code {code}")
    elif not problems:
        restarts = json.loads((run_dir / "report.json").read_text())["restarts"]
        weights, points = reference.of(schedule.ranks, schedule.mesh)
        if digest(run_dir) != weights:
            problems.append("other weights")
        if metrics(run_dir) != points:
            problems.append("other metrics")
    problems += [f"left behind: {p.name}" for p in run_dir.rglob("*") if any(mark in p.name for mark in (".tmp", ".old.", ".ready."))]
    problems += [f"left behind: swap/{p.name}" for p in (folder / "swap").iterdir()]
    if processes_in(folder):
        problems.append("a process is left")
    if problems:
        tail = (folder / "out").read_text().splitlines()[-12:]
        return f"{schedule}: {problems}\n    " + "\n    ".join(tail), restarts
    shutil.rmtree(folder)
    return "", restarts


class References:
    """Weights and metrics of undisturbed runs, each made when it is asked for; they do not depend on the stage."""

    def __init__(self, binaries, scratch):
        self.binaries, self.scratch, self.known, self.lock = binaries, scratch, {}, threading.Lock()

    def of(self, ranks, mesh):
        with self.lock:
            if (ranks, mesh) not in self.known:
                run_dir = self.scratch / f"reference{len(self.known)}"
                subprocess.run(command(self.binaries, run_dir, ranks, mesh.stages[-1], words=mesh.words),
                               cwd=self.scratch, check=True, stdout=subprocess.DEVNULL)
                self.known[ranks, mesh] = digest(run_dir), metrics(run_dir)
            return self.known[ranks, mesh]


def run_all(args, binaries, scratch, places):
    (scratch / "train.json").write_text(json.dumps(CONFIG))
    (scratch / "swap").mkdir()
    (scratch / "corpus.txt").write_text("".join(f"{i} {i * i}\n" for i in range(3000)))
    reference = References(binaries, scratch)
    start, done, failed, restarts = time.monotonic(), 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        def run(seed):
            if args.seconds and time.monotonic() - start > args.seconds:
                return None
            return one_schedule(binaries, scratch, places, reference, seed)
        seeds = range(args.seed, args.seed + args.count)
        for seed, result in zip(seeds, pool.map(run, seeds)):
            if result is None:
                continue
            done, restarts = done + 1, restarts + result[1]
            if result[0]:
                failed += 1
                print(f"seed {seed}: {result[0]}", flush=True)
    seconds = time.monotonic() - start
    print(f"{done} schedules, {restarts} restarts, {failed} failed, {seconds:.0f} s "
          f"({seconds / max(done, 1):.2f} s each)")
    return 1 if failed or not done else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where ranks compute")
    parser.add_argument("--seconds", type=float, default=0, help="begin no schedule after so many")
    parser.add_argument("--offload", action="store_true", help="state and weights outside of the device")
    parser.add_argument("--fp16", action="store_true", help="in fp16, with steps that overflow")
    parser.add_argument("--zenflow", action="store_true", help="important columns at once, the rest later")
    parser.add_argument("--mesh", action="store_true", help="ranks that share samples")
    args = parser.parse_args()
    if args.device != "cpu":
        EVERY_RUN.extend(["--device", args.device])
    os.environ.pop("DSLAUNCH_RANKD", None)
    listed = subprocess.run([args.binaries / "rankd", "--list-failpoints"], capture_output=True, text=True)
    everything = listed.stdout.split()
    offloaded = [name for name in everything if name.split(".")[0] in OFFLOADED_PLACES]
    zenflow = [name for name in everything if name.split(".")[0] == "zenflow"]
    of_meshes = [name for name in everything if name.split(".")[0] in OF_MESH_PLACES]
    # A place that no run comes to tests nothing.
    elsewhere = [name for name in everything if name.startswith("generate.")]
    names = [name for name in everything if name not in offloaded + zenflow + of_meshes + elsewhere]
    if not names:
        print("SKIPPED: this build has no failpoints")
        return 77
    if args.fp16:
        EVERY_RUN.extend(FP16)
    if args.zenflow:
        EVERY_RUN.extend(ZENFLOW)
        OFFLOADS[:] = [([1, 2, 3], [])]
    special = zenflow if args.zenflow else offloaded if args.offload else of_meshes if args.mesh else []
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="dslaunch-faults-"))
    try:
        return run_all(args, args.binaries, scratch, (names, special, MESHES if args.mesh else []))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
