"""A Ray cluster of two nodes on this machine, and what may happen to it: `python -m trust.ray_cluster`.

same      `sweep`, `rate`, `compare` and `claims` find on Ray what they find in this process, to the last digit
address   `pellucid sweep --on ray --address` from another process comes to the same cluster
node      a node is killed while pieces run: they are done again on the other, and none is missing
worker    a worker process is killed in the middle of its piece: the same
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ray
from ray.cluster_utils import Cluster
from trust.kills import write_data
from trust.pieces import die_once, square_slowly

from pellucid.training.workers import WorkerOptions, run_pieces

N_PIECES = 12
TINY = {"size": "tiny", "start": "scratch", "threads": 1}
RATES = [1e-4, 0.003, 0.01, 0.03]


def search(workers: WorkerOptions | None, name: str) -> list[tuple[int, list[float]]]:
    from pellucid.api.sweep import sweep

    over = {"learning_rate": RATES}
    found = sweep("names.txt", over=over, workers=workers, name=name, model="mlp", steps=16, **TINY).record  # type: ignore[arg-type]
    return [(trial.number, [one.dev for one in trial.rounds]) for trial in found.trials]


def rates(workers: WorkerOptions | None, _: str) -> object:
    from pellucid.api.train import rate

    return rate("names.txt", seeds=(1, 2, 3), workers=workers, model="mlp", **TINY).record  # type: ignore[arg-type]


def ladder(workers: WorkerOptions | None, name: str) -> list[tuple[str, float]]:
    from pellucid.api.train import compare

    found = compare("names.txt", models=["mlp", "rnn"], name=name, workers=workers, steps=16, **TINY).record  # type: ignore[arg-type]
    return [(rung.name, rung.dev) for rung in found.rungs]


def verdicts(workers: WorkerOptions | None, _: str) -> list[tuple[str, str]]:
    from pellucid.api.claims import run_claims

    return [(one.id, one.verdict) for one in run_claims(["likelihood-and-smoothing"], workers=workers).results]


def sweep_from_outside(address: str) -> list[tuple[int, list[float]]]:
    """As a user with a cluster does it."""
    over = "learning_rate=" + ",".join(map(str, RATES))
    options = f"--over {over} --model mlp --size tiny --start scratch --threads 1 --steps 16 --name outside --json"
    done = subprocess.run(
        [sys.executable, "-m", "pellucid", "sweep", "names.txt", "--on", "ray", "--address", address, *options.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    return [(trial["number"], [one["dev"] for one in trial["rounds"]]) for trial in json.loads(done.stdout)["trials"]]


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        print(f"{len([node for node in ray.nodes() if node['Alive']])} nodes")
        asked = WorkerOptions(on="ray", workers=2)
        with tempfile.TemporaryDirectory() as folder:
            write_data(Path(folder))
            os.chdir(folder)
            for command in (search, rates, ladder, verdicts):
                on_ray, here = command(asked, "on-ray"), command(None, "here")
                assert on_ray == here, (command.__name__, on_ray, here)
                print(f"{command.__name__}: the same on Ray as here")
                for left in ("on-ray", "here"):
                    for run in Path("runs").glob(f"{left}*"):
                        run.rename(Path(folder) / f"{command.__name__}-{run.name}")
            outside = sweep_from_outside(cluster.address)
            assert outside == search(None, "here"), outside
            print("pellucid sweep --on ray --address: the same as here")
            os.chdir("/")
        with tempfile.TemporaryDirectory() as folder:
            marker = str(Path(folder) / "died")
            found = dict(run_pieces(die_once, [(marker, n) for n in range(4)], asked))
            assert found == {n: n * n for n in range(4)}
            print("a worker was killed in the middle of its piece: all 4 results are there")
        found, is_killed = {}, False
        for number, result in run_pieces(square_slowly, [(n, 1.0) for n in range(N_PIECES)], asked):
            found[number] = result
            if len(found) == 3 and not is_killed:
                is_killed = True
                cluster.remove_node(second, allow_graceful=False)
        assert found == {n: n * n for n in range(N_PIECES)}
        print(f"a node was killed after 3 of {N_PIECES} pieces: all results are there")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
