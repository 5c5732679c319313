#!/usr/bin/env python3
"""What a run shows of itself: monitors, read by their own readers value for value, the parts of a step, the
communication log, the state.

usage: insight.py FOLDER_OF_PROGRAMS

The readers of TensorBoard, Weights & Biases and Comet are Python packages (tensorboard, wandb, comet_ml); a line
says which are not there, and what they would have read is then compared by nobody.
"""
import csv
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

BATCH = 8
SECRET = "kOf4Wz7-nobody-else-may-read-this"
CONFIG = {
    "model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "vocab_size": 256},
    "data": {"train": ["corpus.txt"], "sequence_length": 32, "validation_fraction": 0.2},
    "train": {"steps": 12, "log_every": 5, "eval_every": 6, "eval_batches": 1},
    "train_batch_size": BATCH,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "zero_optimization": {"stage": 2},
    "steps_per_print": 4,
    "wall_clock_breakdown": True,
    "memory_breakdown": True,
    "dump_state": True,
    "log_level": "debug",
    "flops_profiler": {"enabled": True, "profile_step": 2, "top_modules": 2, "recompute_fwd_factor": 0.5},
    "comms_logger": {"enabled": True, "debug": True, "verbose": True},
    "tensorboard": {"enabled": True, "output_path": "boards", "job_name": "tiny"},
    "csv_monitor": {"enabled": True},
    "wandb": {"enabled": True, "project": "proj", "team": "team", "group": "group"},
    "comet": {"enabled": True, "project": "proj", "workspace": "space", "experiment_name": "tiny",
              "samples_log_interval": 0, "api_key": SECRET},
}
EVENTS = ["train_loss", "lr", "grad_norm", "samples_per_s", "tokens_per_s", "elapsed_time_ms_total",
          "elapsed_time_ms_forward", "elapsed_time_ms_backward", "elapsed_time_ms_backward_inner",
          "elapsed_time_ms_backward_allreduce", "elapsed_time_ms_step"]


def check(holds, what):
    if not holds:
        sys.exit(f"insight: {what}")


def run(binaries, *arguments):
    done = subprocess.run([f"{binaries}/dslaunch", *arguments], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def csv_values(run_dir):
    """By name and samples; every monitor has to have the same."""
    values = {}
    for path in pathlib.Path(run_dir, "csv_monitor", "DeepSpeedJobName").glob("*.csv"):
        head, *rows = list(csv.reader(path.open()))
        name = "Train/Samples/" + head[1]
        check(path.name == name.replace("/", "_") + ".csv", f"{path.name} begins with {head}")
        values[name] = {int(samples): float(value) for samples, value in rows}
        check(len(values[name]) == len(rows), f"{path.name}: a line twice")
    return values


def check_metrics(run_dir, values, steps):
    lines = [json.loads(line) for line in open(f"{run_dir}/metrics.jsonl")]
    check([line["step"] for line in lines] == steps, f"metrics.jsonl has {[line['step'] for line in lines]}")
    for line in lines:
        at = line["step"] * BATCH
        for metric, event in (("loss", "train_loss"), ("lr", "lr"), ("grad_norm", "grad_norm")):
            ours = values["Train/Samples/" + event][at]
            check(abs(ours - line[metric]) <= 1e-6 * abs(ours), f"{event} at {at}: {ours}, metrics {line[metric]}")


def read_tensorboard(values, folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    board = EventAccumulator(folder, size_guidance={"scalars": 0})
    board.Reload()
    check(sorted(board.Tags()["scalars"]) == sorted(values), f"TensorBoard has {board.Tags()['scalars']}")
    for name, by_samples in values.items():
        read = [(event.step, event.value) for event in board.Scalars(name)]
        expected = [(at, struct.unpack("f", struct.pack("f", value))[0]) for at, value in sorted(by_samples.items())]
        check(read == expected, f"TensorBoard, {name}: {read}, expected {expected}")


def wandb_records(path):
    data = path.read_bytes()
    check(data[:7] == b":W&B\xe1\xbe\x00", f"{path}: begins with {data[:7]}")
    at, record = 7, b""
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        crc, length, kind = struct.unpack("<IHB", data[at:at + 7])
        piece = data[at + 7:at + 7 + length]
        check(zlib.crc32(bytes([kind]) + piece) == crc, f"{path}: checksum at {at}")
        record += piece
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def wandb_scanned(path):
    """By wandb's own reader, where the release has one in Python."""
    from wandb.sdk.internal import datastore
    store = datastore.DataStore()
    store.open_for_scan(str(path))
    while (data := store.scan_data()) is not None:
        yield data


def read_wandb(values, run_dir):
    from wandb.proto import wandb_internal_pb2
    history, runs = {}, set()
    for path in sorted(pathlib.Path(run_dir, "wandb").glob("offline-run-*/run-*.wandb")):
        records = list(wandb_records(path))
        try:
            check(list(wandb_scanned(path)) == records, f"{path}: wandb reads other records")
        except ImportError:
            print("wandb: this release has its reader in Go; records are taken apart here")
        kinds = []
        for number, data in enumerate(records, 1):
            record = wandb_internal_pb2.Record.FromString(data)
            kinds.append(record.WhichOneof("record_type"))
            check(kinds[-1] != "history" or record.num > 2, f"{path}: record {number} is number {record.num}")
            if kinds[-1] == "run":
                one = record.run
                runs.add((one.run_id, one.entity, one.project, one.run_group))
                json.loads({item.key: item.value_json for item in one.config.update}["train_json"])
            if kinds[-1] == "history":
                row = {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}
                check(row["_step"] == record.history.step.num, f"{path}: step {row['_step']}")
                for name, value in row.items():
                    if not name.startswith("_"):
                        history.setdefault(name, {})[record.history.step.num] = value
        check(kinds[:2] == ["header", "run"] and kinds[-1] == "exit", f"{path}: records {kinds[:3]} ... {kinds[-1]}")
    check(len(runs) == 1, f"wandb: {runs}")
    check(next(iter(runs))[1:] == ("team", "proj", "group"), f"wandb: {runs}")
    check(history == values, f"wandb has other values: {history}")


def read_comet(values, run_dir):
    from comet_ml.offline import unzip_offline_archive
    from comet_ml.schemas import get_experiment_file_validator, get_metric_msg_validator
    archives = list(pathlib.Path(run_dir, "comet").glob("*.zip"))
    check(len(archives) == 1, f"comet: {archives}")
    folder = pathlib.Path(unzip_offline_archive(str(archives[0])))
    experiment = json.loads((folder / "experiment.json").read_text())
    get_experiment_file_validator().validate(experiment)
    check(experiment["offline_id"] == archives[0].stem, f"comet: {experiment}")
    check((experiment["project_name"], experiment["workspace"]) == ("proj", "space"), f"comet: {experiment}")
    read = {}
    for line in (folder / "messages.json").read_text().splitlines():
        message = json.loads(line)
        if message["type"] == "metric_msg":
            get_metric_msg_validator().validate(message["payload"])
            metric = message["payload"]["metric"]
            read.setdefault(metric["metricName"], {})[metric["step"]] = metric["metricValue"]
    check(read == values, f"comet has other values: {read}")


def check_readers(run_dir, values):
    for name, read in (("tensorboard", lambda: read_tensorboard(values, "boards/tiny")),
                       ("wandb", lambda: read_wandb(values, run_dir)),
                       ("comet_ml", lambda: read_comet(values, run_dir))):
        try:
            read()
            print(f"{name}: reads all values")
        except ModuleNotFoundError as missing:
            print(f"{name}: skipped, no module {missing.name}")


def check_lines(output, run_dir):
    for step in (4, 8, 12):
        for words in ("time (ms) | fwd_microstep: ", "time (ms) | fwd: ", "ranks, least/mean/most (ms) | fwd: ",
                      "memory | device: now ", "ranks, least/mean/most memory | device: "):
            check(f"step {step}: {words}" in output, f"no line \"step {step}: {words}\" in\n{output}")
    place = os.path.abspath(run_dir)
    for words in ("before the first step: memory", "state of the engine:", "gradients ....", "sharded on device",
                  "Comm. Op ", "reduce_scatter | [Caller: ", "Breakdown with straggler effect",
                  "the others waited for rank ", f"wandb: `wandb sync {place}/wandb/offline-run-*` uploads",
                  f"comet: `comet upload {place}/comet/*.zip` uploads"):
        check(words in output, f"no \"{words}\" in\n{output}")
    log = pathlib.Path(run_dir, "logs", "rank-1.log").read_text()
    check("comm op: reduce_scatter | [Caller: " in log and "| msg size: " in log, f"no calls in the log:\n{log}")


def check_breakdown(values):
    """The parts make the step: what is left of it is little, over all steps together."""
    at = lambda name: sum(values[f"Train/Samples/elapsed_time_ms_{name}"].values())
    check(at("forward") + at("backward") + at("step") <= at("total") * 1.001, "parts longer than the step")
    check(abs(at("backward_inner") + at("backward_allreduce") - at("backward")) <= 1e-3 * at("backward"),
          "backward is not its parts")


def check_profile(output, run_dir, binaries):
    for words in ("DeepSpeed Flops Profiler", "Profile Summary at step 2:", "(c_attn): Conv1D(",
                  "bwd FLOPS per GPU = 2.5 * fwd flops"):
        check(words in output, f"no \"{words}\" in\n{output}")
    told = json.load(open(f"{run_dir}/profile.json"))
    alone = json.loads(run(binaries, "profile", "train.json", "--num-ranks", "2", "--json"))
    check(told["model"]["macs"] == alone["model"]["macs"] > 0, f"{told['model']['macs']}, {alone['model']['macs']}")
    check(alone["fwd_latency_s"] > 0 and alone["bwd_latency_s"] > 0, f"latencies {alone}")
    text = run(binaries, "profile", "train.json", "--num-ranks", "2", "flops_profiler.detailed=false")
    check("Aggregated Profile per GPU" in text and "Detailed Profile" not in text, text)


def check_report(run_dir, binaries):
    report = json.load(open(f"{run_dir}/report.json"))
    spent = report["goodput"]
    parts = sum(value for name, value in spent.items() if name != "share")
    check(abs(parts - report["seconds"]) < 0.02 * report["seconds"] + 0.05, f"{spent} of {report['seconds']} s")
    check(0 < spent["share"] < 1 and spent["productive_s"] > 0 and spent["checkpoint_s"] > 0, f"goodput {spent}")
    page = pathlib.Path(run(binaries, "report", run_dir).strip()).read_text()
    check(page.count("<svg") >= 3 and "Where the time went" in page and "<script" not in page, page[:2000])


def check_secret(output, folders):
    """What is written may be uploaded, and what is said may be kept in a log."""
    check(SECRET not in output, "the key of Comet is said")
    files = [path for folder in folders for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    check(len(files) > 20, f"only {len(files)} files of a run")
    for path in files:
        data = [path.read_bytes()]
        if path.suffix == ".zip":
            archive = zipfile.ZipFile(path)
            data += [archive.read(name) for name in archive.namelist()]
        check(not any(SECRET.encode() in one for one in data), f"the key of Comet is in {path}")


def main():
    binaries = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        pathlib.Path("corpus.txt").write_text("".join(f"{i} squared is {i * i}.\n" for i in range(4000)))
        pathlib.Path("train.json").write_text(json.dumps(CONFIG))
        output = run(binaries, "train.json", "--num-ranks", "2", "--run-dir", "run")
        check_lines(output, "run")
        values = csv_values("run")
        check(set(values) == {"Train/Samples/" + name for name in EVENTS + ["eval_loss"]}, f"events {sorted(values)}")
        steps = [step * BATCH for step in range(1, 13)]
        check(all(sorted(values["Train/Samples/" + name]) == steps for name in EVENTS), "a step is missing")
        check_metrics("run", values, [1, 5, 6, 10, 12])
        check_breakdown(values)
        check_readers("run", values)
        check_profile(output, "run", binaries)
        check_report("run", binaries)
        check_secret(output + run(binaries, "explain", "train.json"), ["run", "boards"])
        # It goes on, and everything goes on with it. What is no warning the ranks now keep to themselves.
        calls = pathlib.Path("run/logs/rank-1.log").read_text().count("comm op: ")
        run(binaries, "train.json", "--num-ranks", "2", "--run-dir", "run", "train.steps=16", "--resume", "required",
            "log_level=warning")
        left = pathlib.Path("run/logs/rank-1.log").read_text().count("comm op: ")
        check(calls > 0 and left in (0, calls), f"{left} calls in a log of warnings, which had {calls} before")
        values = csv_values("run")
        check(len(values["Train/Samples/lr"]) == 16, f"{len(values['Train/Samples/lr'])} steps after going on")
        check_readers("run", values)
        # A monitor that cannot be written is a line, and so is what a monitor would get of the curvature.
        pathlib.Path("blocked").write_text("no folder")
        output = run(binaries, "train.json", "--num-ranks", "1", "--run-dir", "other", "csv_monitor.output_path=blocked",
                     "wandb.enabled=false", "comet.enabled=false", "tensorboard.enabled=false",
                     "zero_optimization.stage=1", "eigenvalue.enabled=true", "eigenvalue.layer_name=transformer.h",
                     "eigenvalue.layer_num=2", "eigenvalue.max_iter=2", "eigenvalue.gas_boundary_resolution=6",
                     "eigenvalue.verbose=true")
        told = re.findall(r"eigenvalue: step (\d+), block (\d), iteration (\d): (\S+)", output)
        places = [tuple(map(int, line[:3])) for line in told]
        check(places == [(step, block, i) for step in (6, 12) for block in (0, 1) for i in (1, 2)], f"told {told}")
        check(all(abs(float(line[3])) > 0 for line in told), f"told {told}")
        # Steps of less than a quarter of a second are written together, of which the last are told at the end.
        told = "csv_monitor cannot be written: " in output or "writes are lost: " in output
        check(told and "blocked" in output, f"no line of it in\n{output}")


main()
