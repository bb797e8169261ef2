"""
Data sets larger than memory
============================

A folder of Parquet files with categories, missing numbers and more rows than fit in memory.
`read_rows` copies it once into memory maps, from which every fit reads batch by batch;
`skgp.streams.predict_dist` predicts one chunk of the files after another. Here there are only
20,000 rows, so that the example runs quickly. Ten million would need a gigabyte more.
"""

# %%
# Months of trips, a file each. The duration depends on the distance, the hour and the kind of day,
# and so does how well it can be predicted.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow.dataset as ds
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skgp.streams
from skgp import PPGPRRegressor
from skgp.scoring import coverage, crps


def month(seed: int, n_rows: int = 5_000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "hour": rng.uniform(0, 24, n_rows),
            "distance": rng.gamma(2.0, 2.0, n_rows),
            "day": rng.choice(["weekday", "weekend"], n_rows, p=[5 / 7, 2 / 7]),
        }
    )
    rush = np.exp(-((frame["hour"] - 8) ** 2) / 4) + np.exp(-((frame["hour"] - 17) ** 2) / 6)
    rush *= np.where(frame["day"] == "weekday", 1.0, 0.2)
    minutes = 3 + 2.5 * frame["distance"] * (1 + rush)
    frame["minutes"] = minutes + (1 + 0.3 * frame["distance"] * rush) * rng.normal(size=n_rows)
    frame.loc[rng.uniform(size=n_rows) < 0.01, "distance"] = np.nan
    return frame


folder = Path(tempfile.mkdtemp())
for number in range(4):
    month(number).to_parquet(folder / f"month-{number}.parquet", index=False)

# %%
# A preprocessor turns the columns into numbers. Fit it first, here on the first rows of the first
# file, from which it learns the days, and the means and scales of the numbers.
inputs = ["hour", "distance", "day"]
preprocessor = ColumnTransformer(
    [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["hour", "distance"]),
        ("categories", OneHotEncoder(drop="if_binary"), ["day"]),
    ]
)
preprocessor.fit(ds.dataset(folder).head(2_000, columns=inputs).to_pandas())
rows = skgp.streams.read_rows(folder, target="minutes", preprocessor=preprocessor)
print(rows.X.shape, rows.X.dtype, rows.feature_names)

# %%
# The maps are arrays to every estimator.
model = PPGPRRegressor(
    n_inducing=50, n_inducing_mean=100, max_iter=8, batch_size=500, random_state=0
)
model.fit(rows.X, rows.y)

# %%
# Predictions come chunk by chunk; you choose what to keep of each.
months = Path(tempfile.mkdtemp())
new = month(99)
new.to_parquet(months / "new.parquet", index=False)
chunks = []
for dist in skgp.streams.predict_dist(model, months, preprocessor=preprocessor, chunk_size=1_000):
    lower, upper = dist.interval(0.9)
    chunks.append(pd.DataFrame({"mean": dist.mean(), "lower": lower, "upper": upper}))
predicted = pd.concat(chunks, ignore_index=True)

whole = model.predict_dist(preprocessor.transform(new))
print(f"{len(chunks)} chunks, {len(predicted)} rows")
print(f"CRPS {crps(new['minutes'], whole):.2f} minutes")
print(f"90 % intervals hold {coverage(new['minutes'], whole, coverage=0.9):.1%}")

# %%
# Intervals are wide where trips are hard to predict: long ones in the hours of work.
some = new["day"].eq("weekday") & new["distance"].between(5, 7)
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
order = new.loc[some, "hour"].sort_values().index
ax.fill_between(
    new.loc[order, "hour"], predicted["lower"][order], predicted["upper"][order], alpha=0.3
)
ax.plot(new.loc[order, "hour"], new.loc[order, "minutes"], ".", ms=3)
ax.set(xlabel="hour of a weekday", ylabel="minutes", title="Trips of five to seven miles")
plt.show()
