"""Epochs that SVGP needs with Adam and with natural-gradient steps for q(u).

    python -m benchmarks.convergence --data DIR [--datasets kin8nm ...]

Prints a Markdown table: training loss and test NLL, nats per row, after fits of several lengths.
"""

import argparse
import time
from pathlib import Path

from benchmarks._protocol import load_protocol, load_split
from skgp import SVGPRegressor
from skgp.scoring import nll

EPOCHS = (5, 10, 20, 50, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the data sets")
    parser.add_argument("--datasets", nargs="+", default=["kin8nm", "elevators", "protein"])
    arguments = parser.parse_args()
    protocol = load_protocol("ppgpr2020")
    print("| set | epochs | Adam: loss | natgrad: loss | Adam: NLL | natgrad: NLL | seconds |")
    print("|---|---|---|---|---|---|---|")
    for dataset in arguments.datasets:
        path = arguments.data / protocol["folder"] / f"{dataset}.npz"
        rows = load_split(path, protocol, split=0)
        X_test, y_test = rows.test
        for epochs in EPOCHS:
            losses, scores, seconds = [], [], []
            for optimizer in ("adam", "natgrad"):
                model = SVGPRegressor(optimizer=optimizer, max_iter=epochs, random_state=0)
                start = time.perf_counter()
                model.fit(*rows.train)
                seconds.append(f"{time.perf_counter() - start:.0f}")
                losses.append(f"{model.loss_curve_[-1]:.4f}")
                scores.append(f"{nll(y_test, model.predict_dist(X_test)):.4f}")
            cells = [dataset, str(epochs), *losses, *scores, ", ".join(seconds)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
