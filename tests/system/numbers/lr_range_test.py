#!/usr/bin/env python3
"""`dslaunch lr-range-test` in real runs.

usage: lr_range_test.py FOLDER_OF_PROGRAMS
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(sys.argv[1], "dslaunch").resolve())


def check(holds, what):
    if not holds:
        raise SystemExit(f"failed: {what}")


def dslaunch(folder, *words, code=0, starter=()):
    done = subprocess.run([*starter, PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    check(done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def write_job(folder, scheduler):
    (folder / "text.txt").write_text("All the world's a stage, and all the men and women merely players. " * 60)
    job = {"model": {"family": "gpt2", "vocab_size": 257, "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
           "data": {"train": ["text.txt"], "tokenizer": "byte", "sequence_length": 16},
           "train": {"steps": 12}, "train_batch_size": 4,
           "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.99]}}}
    if scheduler:
        job["scheduler"] = scheduler
    (folder / "train.json").write_text(json.dumps(job))


def near(one, other):
    return math.isclose(one, other, rel_tol=1e-6)


# Each trial is a run at one rate with one seed, and what is proposed is the rate with the lowest mean loss among those
# that were tried with the most seeds.
def the_trials(folder, found):
    trials = found["trials"]
    check(found["trial_loss"] == "loss", f"trial_loss: {found['trial_loss']}")
    check(found["trial_steps"] == 10 and len(trials) >= 5, f"trials: {trials}")
    losses = {}
    for trial in trials:
        losses.setdefault(trial["lr"], []).append(trial["loss"])
    most = max(map(len, losses.values()))
    means = {lr: sum(of) / most for lr, of in losses.items() if len(of) == most}
    check(near(found["lr"], min(means, key=means.get)), f"{found['lr']} is not the best of {means}")
    for number, trial in enumerate(trials, 1):
        lines = (folder / f"range/trials/{number}/metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line) for line in lines]
        check([step["step"] for step in steps] == list(range(1, 11)), f"steps of trial {number}")
        check(all(near(step["lr"], trial["lr"]) for step in steps), f"trial {number} is not at one rate")
        check(near(steps[-1]["loss"], trial["loss"]), f"trial {number}: loss {trial['loss']}")
        resolved = json.loads((folder / f"range/trials/{number}/config.json").read_text())
        check(resolved["train"]["seed"] == 1234 + trial["seed"], f"seed of trial {number}: {resolved['train']}")


# Where data are held out, they tell the trials apart.
def the_held_out_trials(folder):
    done = dslaunch(folder, "lr-range-test", "train.json", "data.validation_fraction=0.2", "--steps", "12", "--num-ranks", "1",
                    "--run-dir", "held_out", "--trial-steps", "6", "--json")
    found = json.loads(done.stdout)
    check(found["trial_loss"] == "validation_loss", f"trial_loss: {found['trial_loss']}")
    for number, trial in enumerate(found["trials"], 1):
        lines = (folder / f"held_out/trials/{number}/metrics.jsonl").read_text().splitlines()
        evaluated = [step for step in map(json.loads, lines) if "validation_loss" in step]
        check([step["step"] for step in evaluated] == [6], f"trial {number} is evaluated at {evaluated}")
        check(near(evaluated[0]["validation_loss"], trial["loss"]), f"held-out loss of trial {number}: {trial['loss']}")


def the_verb(folder):
    write_job(folder, {"type": "WarmupLR", "params": {"warmup_num_steps": 5}})
    done = dslaunch(folder, "lr-range-test", "train.json", "--steps", "40", "--num-ranks", "2", "--num-threads", "1",
                    "--run-dir", "range", "--trial-steps", "10", "--json")
    found = json.loads(done.stdout)
    check([p["step"] for p in found["points"]] == list(range(1, 40)), "a point of each step that has a next one")
    for i, point in enumerate(found["points"]):
        check(near(point["lr"], 1e-4 * (1 + 10 * i / 4)), f"rate of point {i + 1}: {point['lr']}")
    check(found["lowest_loss"] < found["points"][0]["loss"], "the loss fell")
    check(0 < found["cycle_min_lr"] < found["cycle_max_lr"] <= max(found["lowest_lr"], found["lr"]), "rates of a cycle")
    check("<svg" in pathlib.Path(found["plot"]).read_text(), "a picture")
    check(not list((folder / "range").glob("checkpoints/global_step*")), "no state is saved")
    check(not (folder / "range/final").exists(), "no model is saved")
    the_trials(folder, found)
    the_held_out_trials(folder)
    text = dslaunch(folder, "lr-range-test", "train.json", "--steps", "12", "--num-ranks", "1", "--staircase",
                    "--step-size", "3", "--step-rate", "1", "--min-lr", "0.001", "--trial-steps", "0").stdout
    check("OneCycle" in text and "lr-range-test.svg" in text and "trials" not in text, text)
    check(len(list((folder / "runs").glob("train-lr-*/metrics.jsonl"))) == 1, "a run directory of its own")
    check(not (folder / "runs/latest").exists(), "it is not the latest run")


# A rate that no weight survives, from the second stair on.
def a_rate_too_large(folder):
    write_job(folder, None)
    found = json.loads(dslaunch(folder, "lr-range-test", "train.json", "--steps", "30", "--num-ranks", "2", "--num-threads", "1",
                                "--staircase", "--step-size", "8", "--step-rate", "1e33", "--min-lr", "0.001",
                                "--trial-steps", "0", "--json").stdout)
    check(found["diverged_lr"] and found["diverged_lr"] > 1e20, f"diverges at {found['diverged_lr']}")
    check(found["lowest_lr"] == 0.001 and found["points"][-1]["loss"] is None, "the first stair is the best")
    check(found["lr"] <= 0.001 and found["trials"] == [], f"without trials: {found['lr']}")


# At every rate that is tried the training is lost: no rate is proposed, and that is said.
def every_trial_lost(folder):
    write_job(folder, None)
    said = dslaunch(folder, "lr-range-test", "train.json", "--steps", "10", "--num-ranks", "1", "--num-threads", "1",
                    "--min-lr", "1e-30", "--step-size", "1", "--step-rate", "1", "--trial-steps", "5",
                    "train.seed=1", "optimizer.params.weight_decay=1e38", code=65).stderr
    check("lost in all" in said and "--min-lr" in said, said)


# One dslaunch for each rank: all of them are ranks, and one has the results.
def started_by_mpirun(folder):
    if not shutil.which("mpirun"):
        return
    write_job(folder, None)
    many = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
    words = ("lr-range-test", "train.json", "--steps", "10", "--json")
    done = dslaunch(folder, *words, starter=many)
    found = json.loads(done.stdout)
    check("no trials follow, as mpirun" in done.stderr and found["trials"] == [], done.stderr)
    log = next((folder / "runs").glob("train-lr-*/logs/dslaunch.log")).read_text()
    check("rank 1 joined" in log, "both are ranks")
    alone = json.loads(dslaunch(folder, *words, "--num-ranks", "2", "--trial-steps", "0").stdout)
    check(found["points"] == alone["points"], "they find what ranks find that dslaunch starts")


def errors(folder):
    write_job(folder, None)
    said = dslaunch(folder, "lr-range-test", "train.json", "--min-lr", "0", code=2).stderr
    check("--min-lr" in said, said)
    said = dslaunch(folder, "lr-range-test", "train.json", "--steps", "3", code=2).stderr
    check("--steps" in said, said)
    said = dslaunch(folder, "lr-range-test", "missing.json", code=66).stderr
    check("missing.json" in said, said)
    check(not (folder / "runs").exists(), "nothing is begun")


def main():
    for part in (the_verb, a_rate_too_large, started_by_mpirun, errors):
        with tempfile.TemporaryDirectory() as name:
            part(pathlib.Path(name))


main()
