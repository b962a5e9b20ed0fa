# %% [markdown]
# # Search your photos
#
# Build a collection from a folder of pictures with words and categories, and search it by texts and pictures. The icons of
# `dlfh[icons]` take the place of your photos; to use your own, start at the second step.

# %%
from dlfh import Collection, Encoder
from dlfh.datasets import load_dataset, read_items
from dlfh.features import BagOfWords, CombinedImage
from dlfh.methods import DLFH

known, later = load_dataset("icons").labelled().split(test_size=100)
known.write("photos")  # pictures, and a table: name, file, words, categories
later.write("more-photos")

# %% [markdown]
# ## Read the items
#
# Name the columns of the table. Broken pictures and empty texts are reported and skipped.

# %%
items = read_items("photos/items.csv", id="name", image="file", text="words", labels="categories")
print(len(items), "items; labels of the first:", known.labels[0])

# %% [markdown]
# ## Train and measure
#
# Two hundred items are held out of training, to estimate the quality for new queries. MAP is 1 if all relevant items are ranked first;
# chance is the MAP of a random order.

# %%
encoder = Encoder(
    {"image": CombinedImage(["hog"]), "text": BagOfWords(analyzer="word+char")}, DLFH(n_bits=64, random_state=0)
)
built = Collection.build("shop", items, encoder, hold_out=200)
for quality in built.evaluation.quality:
    print(f"{quality.query} queries, {quality.database} items: MAP {quality.hamming:.2f}, chance {quality.chance:.2f}")

# %% [markdown]
# ## Search

# %%
collection = built.collection
print(collection.search("text", "football", k=5))
print(collection.search("image", "photos/dice.png" if "dice" in collection else f"photos/{known.ids[0]}.png", k=5))
collection.close()

# %% [markdown]
# ## Add and remove items
#
# The model is not retrained. New items with labels are ranked by their labels, other items by their content.

# %%
more = read_items("more-photos/items.csv", id="name", image="file", text="words", labels="categories")
with Collection.open("shop", writable=True) as opened:
    before = len(opened)
    opened.add(more)
    opened.remove([later.ids[0]])
    print(before, "→", len(opened), "items; similar to the second new item:")
    print(opened.similar(later.ids[1], k=5))

# %% [markdown]
# `dlfh serve shop --pictures photos` opens a search page in the browser. `dlfh sync shop photos --watch` follows changes of a folder.
