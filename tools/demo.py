"""The main job in one command: simulate, omit half of the visits, and see what each method makes of the rest."""
import time
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import hmmop_nb as hm

OUT = Path("demo.png")


def count_transitions(labels, adjacent=None):
    "Row-normalised transition counts of labelled sequences; `adjacent` picks the pairs to count."
    starts = np.zeros(len(labels.values), bool)
    starts[labels.offsets[:-1][labels.lengths > 0]] = True
    pairs = ~starts[1:] if adjacent is None else ~starts[1:] & adjacent
    S = labels.values.max() + 1
    counts = np.bincount(labels.values[:-1][pairs] * S + labels.values[1:][pairs], minlength=S * S).reshape(S, S)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def main():
    model = hm.degree_chain(10, 5, psi=.5, seed=0)
    data = model.sample(1500, 80, seed=1)
    print(f"degree-5 chain, {model.n_states} states: {data}\n")
    # emissions are a tenth as wide as the distance between states, so the most likely state of each observation is its label
    labels = hm.Sequences(model.emission.log_likelihood(data.sequences.values).argmax(1), data.sequences.offsets)
    methods = {
        "Naive: as if nothing were missing": lambda: count_transitions(labels),
        "Semi-analytic: Naive, then unthin": lambda: hm.nearest_stochastic(hm.unthin(count_transitions(labels), .5)),
        "Neighbours only: pairs known to be one step apart": lambda: count_transitions(labels, np.diff(data.positions.values) == 1),
    }
    print(f"{'method':<52}{'L1 error':>9}{'seconds':>9}")
    estimates = {}
    for name, method in methods.items():
        begin = time.perf_counter()
        estimates[name] = method()
        print(f"{name:<52}{hm.l1_distance(estimates[name], model.T):9.3f}{time.perf_counter() - begin:9.3f}")
    draw(model.T, estimates)
    print(f"\nL1 is the mean over rows of the distance to the true row: 0 is perfect, 2 the worst.\nThe matrices are in {OUT}.")


def draw(T, estimates):
    "True and estimated matrices side by side."
    hm.use_style()
    fig, axes = plt.subplots(1, 1 + len(estimates), figsize=(3 * (1 + len(estimates)), 3.2))
    for ax, (name, M) in zip(axes, {"truth": T, **estimates}.items()): hm.plot_matrix(M, ax, name.split(":")[0], vmax=T.max())
    part = OUT.with_suffix(".part.png")
    fig.savefig(part, dpi=150)
    part.replace(OUT)


if __name__ == "__main__": main()
