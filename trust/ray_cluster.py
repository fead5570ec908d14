"""A Ray cluster of two nodes on this machine, and what may happen to it: `python -m trust.ray_cluster`.

same      a search of settings on Ray finds what it finds in processes of this machine, to the last digit
node      a node is killed while pieces run: they are done again on the other, and none is missing
worker    a worker process is killed in the middle of its piece: the same
"""

import os
import tempfile
from pathlib import Path

import ray
from ray.cluster_utils import Cluster
from trust.kills import write_data
from trust.pieces import die_once, square_slowly

from pellucid.training.workers import WorkerOptions, run_pieces

N_PIECES = 12


def search(folder: Path, workers: WorkerOptions, name: str) -> list[tuple[int, list[float]]]:
    from pellucid.api.sweep import sweep

    os.chdir(folder)
    options = {"model": "mlp", "size": "tiny", "start": "scratch", "steps": 16, "threads": 1}
    over = {"learning_rate": [1e-4, 0.003, 0.01, 0.03]}
    found = sweep("names.txt", over=over, workers=workers, name=name, **options).record  # type: ignore[arg-type]
    return [(trial.number, [one.dev for one in trial.rounds]) for trial in found.trials]


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        print(f"{len([node for node in ray.nodes() if node['Alive']])} nodes")
        asked = WorkerOptions(on="ray", workers=2)
        with tempfile.TemporaryDirectory() as folder:
            write_data(Path(folder))
            on_ray = search(Path(folder), asked, "on-ray")
            here = search(Path(folder), WorkerOptions(workers=1), "here")
            os.chdir("/")
        assert on_ray == here, (on_ray, here)
        print(f"a search of {len(here)} settings is the same on Ray as here")
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
