"""The way of rows from files to a model."""

from boxes import DISK, MODEL, arrow, box, canvas

ax = canvas(8.6, 1.9)
box(ax, 0.95, 1.3, "Parquet, Arrow", DISK)
box(ax, 3.75, 1.3, "memory maps\nfloat32, on disk", DISK)
box(ax, 3.75, 0.4, "arrays of NumPy,\nzarr or h5py", DISK)
box(ax, 6.15, 0.85, "one batch\nin memory")
box(ax, 7.95, 0.85, "model", MODEL, width=0.9)
arrow(ax, (1.8, 1.3), (2.9, 1.3), "read_rows, once")
arrow(ax, (4.6, 1.3), (5.3, 0.95))
arrow(ax, (4.6, 0.4), (5.3, 0.75))
arrow(ax, (7.0, 0.85), (7.45, 0.85))
ax.text(4.95, 1.45, "fit, each epoch", fontsize=8, color="0.3")
