"""Three processes that train one model together."""

from boxes import DISK, MODEL, PLAIN, arrow, box, canvas

ax = canvas(8.2, 2.9)
for rank, y in enumerate((2.4, 1.45, 0.5)):
    box(ax, 0.95, y, f"rows of process {rank}", DISK)
    box(ax, 3.35, y, "loss of its batch,\ngradient", PLAIN)
    arrow(ax, (1.8, y), (2.5, y))
    arrow(ax, (4.2, y), (4.95, 1.45 + 0.15 * (1 - rank)))
    box(ax, 7.35, y, "the same model", MODEL, width=1.4)
    arrow(ax, (6.0, 1.45 + 0.15 * (1 - rank)), (6.6, y))
box(ax, 5.48, 1.45, "mean", PLAIN, width=0.9)
