# %% [markdown]
# # Search your photos
#
# A folder of pictures with some words and categories becomes a collection that answers texts and pictures. The icons of
# `dlfh[icons]` stand for your photos; with your own, begin at the second step.

# %%
from dlfh import Collection, Encoder
from dlfh.datasets import load_dataset, read_items
from dlfh.features import BagOfWords, CombinedImage
from dlfh.methods import DLFH

known, later = load_dataset("icons").labelled().split(test_size=100)
known.write("photos")  # pictures, and a table: name, file, words, categories
later.write("more-photos")

# %% [markdown]
# ## Read what you have
#
# The columns of the table say what is what. A broken picture or an empty text would be reported, and the rest goes on.

# %%
items = read_items("photos/items.csv", id="name", image="file", text="words", labels="categories")
print(len(items), "items; labels of the first:", known.labels[0])

# %% [markdown]
# ## Learn, and measure
#
# Two hundred items are kept from training, to say what to expect of new questions. MAP is 1 where all right answers come first;
# chance is what a random order gets.

# %%
encoder = Encoder(
    {"image": CombinedImage(["hog"]), "text": BagOfWords(analyzer="word+char")}, DLFH(n_bits=64, random_state=0)
)
built = Collection.build("shop", items, encoder, hold_out=200)
for quality in built.evaluation.quality:
    print(f"{quality.query} asks for {quality.database}: MAP {quality.hamming:.2f}, chance {quality.chance:.2f}")

# %% [markdown]
# ## Ask

# %%
collection = built.collection
print(collection.search("text", "football", k=5))
print(collection.search("image", "photos/dice.png" if "dice" in collection else f"photos/{known.ids[0]}.png", k=5))
collection.close()

# %% [markdown]
# ## Items come and go
#
# Nothing is trained again. New items that have labels get learned codes, others hashed ones.

# %%
more = read_items("more-photos/items.csv", id="name", image="file", text="words", labels="categories")
with Collection.open("shop", writable=True) as opened:
    before = len(opened)
    opened.add(more)
    opened.remove([later.ids[0]])
    print(before, "→", len(opened), "items; like the second new one:")
    print(opened.similar(later.ids[1], k=5))

# %% [markdown]
# In a browser: `dlfh serve shop --pictures photos`. From a folder that changes: `dlfh sync shop photos --watch`.
