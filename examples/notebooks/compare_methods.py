# %% [markdown]
# # Compare methods for a paper
#
# This notebook goes from a MATLAB file to a LaTeX table that compares several methods, code lengths and seeds, with the same splits for
# all methods. The file is generated here; replace it with yours.

# %%
from typing import Any

import numpy as np

import dlfh.methods
from dlfh.datasets import Paired, make_paired, read_arrays, write_arrays
from dlfh.metrics import mean_average_precision

generated = make_paired(1500, random_state=0)
write_arrays(
    "my-data.mat", {"I": generated.modalities["image"], "T": generated.modalities["text"], "L": generated.labels}
)

# %% [markdown]
# ## Read

# %%
arrays = read_arrays("my-data.mat")
print({name: array.shape for name, array in arrays.items()})
data = Paired({"image": arrays["I"], "text": arrays["T"]}, arrays["L"])

# %% [markdown]
# ## Measure
#
# Each seed draws 200 queries and 300 unseen items; a method learns from the rest. *Unseen* is the
# accuracy for new items; *learned* is what most papers report. Both are MAP over the full ranking, the mean of both directions, with ties in
# database order.


# %%
def measured(name: str, n_bits: int, seed: int) -> tuple[float, float]:
    rest, queries = data.split(200, seed)
    train, unseen = rest.split(300, seed + 100)
    method: Any = getattr(dlfh.methods, name)
    model = method(n_bits=n_bits)
    if "random_state" in model.get_params():  # nothing is random in SCM
        model.set_params(random_state=seed)
    model.fit(train.modalities, train.labels)
    scores = []
    for asking, asked in (("image", "text"), ("text", "image")):
        codes = model.encode(asking, queries.modalities[asking])
        new = model.encode(asked, unseen.modalities[asked])
        scores.append(
            (
                mean_average_precision(codes, new, queries.labels, unseen.labels),
                mean_average_precision(codes, model.codes_[asked], queries.labels, train.labels),
            )
        )
    both = np.mean(scores, axis=0)
    return float(both[0]), float(both[1])


names, lengths, seeds = ["DLFH", "SCM", "CCAITQ"], (16, 32), range(3)
results = {
    (name, n_bits): np.array([measured(name, n_bits, seed) for seed in seeds]) for name in names for n_bits in lengths
}

# %% [markdown]
# ## Write the table
#
# Cells show the mean and standard deviation over the seeds; the best of each column is bold.

# %%
columns = [(n_bits, protocol) for n_bits in lengths for protocol in (0, 1)]
means = {(name, *column): results[name, column[0]][:, column[1]].mean() for name in names for column in columns}
lines = [r"\begin{tabular}{lcccc}", r"\toprule"]
lines.append(" & ".join(["method", *(f"{('unseen', 'learned')[p]}, {b} bits" for b, p in columns)]) + r" \\ \midrule")
for name in names:
    cells = []
    for column in columns:
        values = results[name, column[0]][:, column[1]]
        text = f"{values.mean():.3f} \\pm {values.std(ddof=1):.3f}"
        best = means[name, *column] == max(means[other, *column] for other in names)
        cells.append(rf"$\mathbf{{{text}}}$" if best else f"${text}$")
    lines.append(" & ".join([name, *cells]) + r" \\")
lines += [r"\bottomrule", r"\end{tabular}"]
print("\n".join(lines))

# %% [markdown]
# `dlfh bench map my-data.mat` does the same for all methods, writes a report and can be interrupted; `dlfh cite DLFH SCM CCAITQ` prints
# the papers to cite.
