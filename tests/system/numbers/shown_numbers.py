#!/usr/bin/env python3
"""Every number of one run wherever it is shown: status as text, as JSON and for Prometheus, the metrics endpoint and
textfile, metrics.jsonl and metrics.csv, the CSV monitor, report.json and the page. The run pauses, is evaluated, loses
a rank, is stopped and goes on in another launch; at each of these points all agree, and none is 0 that is not known.

usage: shown_numbers.py FOLDER_OF_PROGRAMS
"""
import csv
import html
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

CONFIG = {
    "model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
    "data": {"train": ["corpus.txt"], "tokenizer": "byte", "sequence_length": 32, "validation_fraction": 0.2},
    "train": {"steps": 60, "eval_every": 4, "eval_batches": 1, "save_every": 1000},
    "train_batch_size": 8,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.0003}},
    "fp16": {"enabled": True, "loss_scale": 1024},
    "zero_optimization": {"stage": 1},
    "csv_monitor": {"enabled": True},
}
GAUGES = {"step": "dslaunch_step", "total_steps": "dslaunch_steps_planned", "loss": "dslaunch_loss",
          "grad_norm": "dslaunch_gradient_norm", "lr": "dslaunch_learning_rate", "loss_scale": "dslaunch_loss_scale",
          "tokens_per_s": "dslaunch_tokens_per_second", "samples": "dslaunch_samples", "epoch": "dslaunch_epoch",
          "time": "dslaunch_step_time_seconds", "skipped_steps": "dslaunch_skipped_steps"}
OF_FILES = ("loss", "grad_norm", "lr", "loss_scale", "tokens_per_s", "samples", "epoch", "time", "generation",
            "validation_loss", "skipped_steps")
MONITORED = {"train_loss": "loss", "lr": "lr", "grad_norm": "grad_norm", "loss_scale": "loss_scale",
             "tokens_per_s": "tokens_per_s", "eval_loss": "validation_loss"}


def check(holds, what):
    if not holds:
        sys.exit(f"shown_numbers: {what}")


def agree(one, other, what):
    both = one is not None and other is not None
    near = both and abs(float(one) - float(other)) <= 1e-5 * abs(float(other))
    check(near or (one is None and other is None), f"{what}: {one} and {other}")


def wait_until(what, holds):
    until = time.time() + 90
    while not holds():
        check(time.time() < until, f"waited in vain for {what}")
        time.sleep(0.02)


class Run:
    def __init__(self, binaries):
        self.program = f"{binaries}/dslaunch"
        self.began = time.time()

    def launch(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.job = subprocess.Popen(
            [self.program, "train.json", "--run-dir", "run", "--num-ranks", "2", "--max-restarts", "2",
             "--metrics-listen", f"127.0.0.1:{self.port}", "--metrics-textfile", "run.prom"],
            stdout=open("job.out", "a"), stderr=subprocess.STDOUT)

    def said(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=60).stdout

    def order(self, what):
        wait_until(f"ctl {what}", lambda: subprocess.run([self.program, "ctl", what, "run"],
                                                         capture_output=True).returncode == 0)

    def status(self):
        said = self.said("status", "run", "--json")
        return json.loads(said) if said else {"phase": ""}

    def await_pause(self, generation):
        wait_until(f"a pause in generation {generation}", lambda: self.status()["phase"] == "paused"
                   and self.status()["generation"] == generation)

    def endpoint(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as reply:
            return reply.read().decode()


def samples_in(exposition):
    """By name, of those that are of no rank."""
    return {name: float(value) for name, labels, value in
            re.findall(r'^(\w+)\{(run="[^"]*")\} (\S+)$', exposition, re.M)}


def check_exposition(where, exposition, status):
    shown = samples_in(exposition)
    for key, gauge in GAUGES.items():
        agree(shown.get(gauge), status["last_step"][key], f"{where}: {gauge} and {key} of the status")
    agree(shown.get("dslaunch_generation"), status["generation"], f"{where}: the generation")
    agree(shown.get("dslaunch_restarts_total"), status["restarts"], f"{where}: restarts")
    agree(shown.get("dslaunch_exit_code"), status["exit_code"], f"{where}: the exit code")
    committed = status["last_committed"]
    agree(shown.get("dslaunch_committed_step"), committed and committed["step"], f"{where}: the committed step")
    agree(shown["dslaunch_running"], int(status["launcher_pid"] > 0), f"{where}: whether it runs")
    if status["exit_code"] is not None:
        agree(shown.get("dslaunch_elapsed_seconds"), status["elapsed_s"], f"{where}: elapsed seconds")


def lines_of_metrics():
    """What metrics.jsonl has; metrics.csv has the same."""
    lines = [json.loads(line) for line in open("run/metrics.jsonl")]
    rows = list(csv.DictReader(open("run/metrics.csv")))
    check(len(rows) == len(lines), f"{len(rows)} rows in metrics.csv, {len(lines)} lines in metrics.jsonl")
    for row, line in zip(rows, lines):
        for key in ("step", *OF_FILES):
            agree(float(row[key]) if row[key] else None, line.get(key), f"{key} of step {line['step']} in metrics.csv")
    return lines


def check_metrics(run, lines, status):
    last = status["last_step"]
    check([line["step"] for line in lines] == list(range(1, last["step"] + 1)),
          f"metrics.jsonl has steps {[line['step'] for line in lines]}, the status {last['step']}")
    for key in OF_FILES:
        agree(lines[-1].get(key), last[key], f"{key} in metrics.jsonl and in the status")
    passes = lines[0]["epoch"] / lines[0]["samples"]
    for before, line in zip([{"time": run.began, "generation": 1}, *lines], lines):
        agree(line["samples"], 8 * line["step"], f"samples of step {line['step']}")
        agree(line["epoch"], passes * line["samples"], f"passes over the data after step {line['step']}")
        check(before["time"] - 0.01 <= line["time"] <= time.time() + 0.01, f"the time of step {line['step']}: {line}")
        check(before["generation"] <= line["generation"], f"the generation of step {line['step']}: {line}")
        check(line["lr"] == 0.0003 and line["loss_scale"] == 1024, f"rate and scale of step {line['step']}: {line}")


def check_text(text, status):
    last = status["last_step"]
    of_all = f"/{last['total_steps']}" if last["total_steps"] else ""  # metrics.jsonl does not say it
    words = [f"step {last['step']}{of_all}  loss {last['loss']:.4f}  lr {last['lr']:.2e}",
             f"scale {last['loss_scale']:g}", f"generation {status['generation']}"]
    for word in words:
        check(word in text, f"'{word}' is not in the status\n{text}")


def check_monitor(lines, generation):
    """A rank that was killed has left its last steps to metrics.jsonl alone."""
    for event, key in MONITORED.items():
        path = pathlib.Path(f"run/csv_monitor/DeepSpeedJobName/Train_Samples_{event}.csv")
        rows = list(csv.reader(path.open()))[1:] if path.exists() else []
        values = {int(samples): float(value) for samples, value in rows}
        by_samples = {line["samples"]: line[key] for line in lines if line.get(key) is not None}
        whole = {line["samples"] for line in lines if line["generation"] == generation}
        check(whole & by_samples.keys() <= values.keys() <= by_samples.keys(),
              f"{event} is there for {sorted(values)} samples, expected {sorted(by_samples)}")
        for samples, value in values.items():
            agree(value, by_samples[samples], f"{event} after {samples} samples in the monitor")


def check_live(run):
    status = run.status()
    check_exposition("the endpoint", run.endpoint(), status)
    lines = []

    def are_written():  # by a thread of its own
        lines[:] = lines_of_metrics()
        return lines and lines[-1]["step"] == status["last_step"]["step"]
    wait_until("the metrics of the last step", are_written)
    check_metrics(run, lines, status)
    check_text(run.said("status", "run"), status)
    wait_until("heartbeats of the last step",
               lambda: {rank["step"] for rank in run.status()["ranks"]} == {status["last_step"]["step"]})
    return status


def check_page(run, lines, report):
    run.said("report", "run")
    page = html.unescape(pathlib.Path("run/report.html").read_text())
    for title, key in (("training", "loss"), ("learning rate", "lr"), ("tokens per second", "tokens_per_s")):
        ends = f"{title}: {lines[0][key]:.5g} at step 1, {lines[-1][key]:.5g} at step {lines[-1]['step']}"
        check(ends in page, f"the page does not say '{ends}'")
    again = [line["step"] for before, line in zip(lines, lines[1:]) if line["generation"] > before["generation"]]
    if again:
        words = f"restart{'s' * (len(again) > 1)} at step{'s' * (len(again) > 1)} " + ", ".join(map(str, again))
        check(words in page, f"the page does not say '{words}'")
    check(f"at step {report['steps']} with {report['restarts']} restart" in page, "the page has another end")
    for what in ("gpt2", "train_batch_size 8", "corpus.txt", "fp16"):
        check(what in page, f"the page does not say {what}")


def check_ended(run, code):
    check(run.job.wait(timeout=90) == code, f"the run ends with {run.job.returncode}, expected {code}")
    status = run.status()
    report = json.load(open("run/report.json"))
    lines = lines_of_metrics()
    check_metrics(run, lines, status)
    check_exposition("status --prometheus", run.said("status", "run", "--prometheus"), status)
    check_exposition("the textfile", open("run.prom").read(), status)
    check_text(run.said("status", "run"), status)
    check_monitor(lines, status["generation"])
    check_page(run, lines, report)
    made = report["last_step"]  # null: this launch had nothing left to do
    check(made in (None, status["last_step"]), f"report.json: {made}, the status {status}")
    for key, there in (("steps", status["last_step"]["step"]), ("loss", made and made["loss"]),
                       ("generation", status["generation"]), ("restarts", status["restarts"]),
                       ("seconds", status["elapsed_s"]), ("exit_code", code)):
        agree(report[key], there, f"{key} of report.json")
    check(report["generations"][-1]["steps"] == (made and made["step"]), f"generations: {report['generations']}")
    for rank in report["ranks"]:
        check(rank["steps"] == report["steps"] and rank["rss_bytes_peak"] > 1 << 20, f"{rank}")
        check(rank["results"].get("seconds_per_step", 1) > 0, f"{rank}")
    return report


def peak_of(pid):
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", open(f"/proc/{pid}/status").read())[1])


def main():
    run = Run(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        pathlib.Path("corpus.txt").write_text("\n".join(str(i * i) for i in range(4000)))
        pathlib.Path("train.json").write_text(json.dumps(CONFIG))
        run.launch()
        try:
            run.order("pause")
            run.await_pause(1)
            run.order("resume")
            wait_until("an evaluation", lambda: "validation_loss" in open("run/metrics.jsonl").read())
            run.order("pause")
            run.await_pause(1)
            before = check_live(run)
            run.order("save")
            wait_until("the checkpoint", lambda: run.status()["last_committed"])
            os.kill(before["ranks"][1]["pid"], signal.SIGKILL)
            run.await_pause(2)
            status = check_live(run)
            check(status["restarts"] == 1, f"{status['restarts']} restarts")
            peaks = [peak_of(rank["pid"]) for rank in status["ranks"]]
            run.order("stop")
            stopped = check_ended(run, 75)
            for rank, peak in zip(stopped["ranks"], peaks):
                check(rank["rss_bytes_peak"] >= peak, f"rank {rank['rank']} had {peak} bytes: {rank['rss_bytes_peak']}")
            run.launch()
            done = check_ended(run, 0)
            check(done["steps"] == 60 and done["generation"] == 3, f"the end: {done}")
            run.launch()  # with nothing left to do
            done = check_ended(run, 0)
            check(done["steps"] == 60, f"another launch: {done}")
        finally:
            run.job.kill()
    print("shown_numbers: all agree")


if __name__ == "__main__":
    main()
