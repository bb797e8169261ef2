"""A fit that was killed and one that goes on from its last checkpoint."""

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(8, 1.9), layout="constrained")
for y, start, end in ((1, 0, 210), (0, 180, 330)):
    ax.plot([start, end], [y, y], color="#0072B2", linewidth=5, solid_capstyle="butt")
ax.plot([60, 120, 180, 240, 300], [1, 1, 1, 0, 0], "o", color="white", markeredgecolor="black")
ax.plot([210], [1], "x", color="#D55E00", markersize=12, markeredgewidth=3)
ax.plot([330], [0], "s", color="#0072B2", markersize=9)
ax.annotate("", (180, 0.12), (180, 0.86), arrowprops={"arrowstyle": "->", "linestyle": "--"})
ax.text(218, 1, "killed", va="center")
ax.text(338, 0, "the same model, to the last bit", va="center")
ax.text(176, 0.5, "read the last state", ha="right", va="center", fontsize=9)
ax.set(yticks=[1, 0], yticklabels=["first process", "second process"], xlim=(0, 470))
ax.set(ylim=(-0.4, 1.4), xticks=range(0, 331, 60), xlabel="seconds of training (o: state written)")
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(left=False)
