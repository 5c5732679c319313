"""What train_bench of a build prints, and the median of ratios of two of its runs, which take turns."""
import json
import statistics
import subprocess


def of_train_bench(folder, words):
    done = subprocess.run([folder / "train_bench", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder}/train_bench {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def ratios_of(rounds, rate_of, subject, against, unit):
    """rate_of(subject) over rate_of(against), of each round."""
    ratios = []
    for turn in range(rounds):
        # Who comes second finds the machine warmer.
        order = [subject, against] if turn % 2 == 0 else [against, subject]
        rates = {which: rate_of(which) for which in order}
        ratios.append(rates[subject] / rates[against])
        print(f"round {turn + 1}: {rates[subject]:.1f} against {rates[against]:.1f} {unit}", flush=True)
    return ratios


def told(ratios):
    return f"{statistics.median(ratios):.4f} ({', '.join(f'{r:.4f}' for r in ratios)})"
