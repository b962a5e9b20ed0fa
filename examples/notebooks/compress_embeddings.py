# %% [markdown]
# # Compress embeddings
#
# Suppose that you have embeddings such as CLIP's, 512 numbers of 4 bytes for each image and text. Codes of 64 bits take 8 bytes, 256 times
# less. How much accuracy does that cost? The vectors here are generated: two noisy views of the topic of an item.

# %%
import numpy as np

from dlfh import DLFH, Index
from dlfh.metrics import mean_average_precision

rng = np.random.default_rng(0)
n, topics = 3000, 20
about = rng.integers(0, topics, n)
centres = rng.normal(size=(topics, 32))


def embedded() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    hidden = centres[about] + rng.normal(0, 1.2, (n, 32))
    vectors = hidden @ rng.normal(size=(32, 512)) + rng.normal(0, 4, (n, 512))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


vectors = {"image": embedded(), "text": embedded()}
train, queries, database = np.arange(1500), np.arange(1500, 1700), np.arange(1700, n)

# %% [markdown]
# ## Learn codes from labelled items

# %%
model = DLFH(n_bits=64, random_state=0).fit({name: each[train] for name, each in vectors.items()}, about[train])
print("hash functions:", model.chosen_)

# %% [markdown]
# ## Compare the accuracy
#
# No item of the database was in the training set. The two embeddings have no common space, so cosines can only compare images with images,
# while codes also let texts find images. Codes can even be more accurate, because they were learned from labels.

# %%
codes = model.encode("image", vectors["image"][database])
asked = model.encode("text", vectors["text"][queries])
real = model.project("text", vectors["text"][queries])
similar = about[queries][:, None] == about[database][None]


def average_precision(scores: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> float:
    ordered = np.take_along_axis(similar, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    precisions = np.cumsum(ordered, axis=1) / np.arange(1, ordered.shape[1] + 1)
    return float(np.mean((precisions * ordered).sum(1) / ordered.sum(1)))


cosines = average_precision(vectors["image"][queries] @ vectors["image"][database].T)
rows = [
    ("cosine, image to image", vectors["image"][0].nbytes, cosines),
    ("64 bits, text to image", codes.shape[1], mean_average_precision(asked, codes, about[queries], about[database])),
    ("the same, asymmetric", codes.shape[1], mean_average_precision(real, codes, about[queries], about[database])),
]
for name, size, score in rows:
    print(f"{name:<24} {size:>5} bytes per item   MAP {score:.3f}")

# %% [markdown]
# ## Search
#
# An index in a folder survives crashes. `Index.create` also takes the address of a PostgreSQL, DuckDB or Milvus database.

# %%
with Index.create("codes", n_bits=64, modalities=["image"]) as index:
    index.add([f"item-{row}" for row in database], {"image": codes})
    print(index.search("image", asked[:1], k=5).ids[0], "for topic", about[queries[0]])
