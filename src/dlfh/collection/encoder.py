"""Encode raw texts and images: a featuriser for each modality, and a hashing method for their vectors."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Mask, Singles
from dlfh._parallel import Workers, blas_threads
from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import read_model, with_prefix, write_model
from dlfh._validation import Features
from dlfh.codes import n_bytes, pack
from dlfh.collection.calibration.model import Calibration
from dlfh.collection.folder import is_collection, model_folder
from dlfh.collection.item_codes import ItemCodes, ItemVectors, Training, check_modalities
from dlfh.collection.understanding import LabelNames, Named, singular
from dlfh.collection.words import tokens
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import InputError, ModelError, NotFittedError
from dlfh.features.base import Featurizer
from dlfh.methods import CrossModalHasher
from dlfh.methods.base import hasher_from_parts

if TYPE_CHECKING:
    from dlfh._probabilities.model import LabelModel
    from dlfh._selection import Trial
    from dlfh.datasets.items import Items


#: Probability of a label that a text names in unknown words, and minimum probability of a label that it names.
_NAMED, _LIKELY = 0.95, 0.5


class Encoder(Parameterized):
    """A hashing method for raw texts and images.

    Parameters
    ----------
    featurizers : dict of str to Featurizer, or to a list of them
        Converts each modality's raw values into vectors. The best of a list is chosen on held-out items (from a sample
        of at most 1,200); with fewer than 100 items, it is the first.
    model : CrossModalHasher
        Learns codes from the vectors. `fit` uses copies of the model and the featurisers.

    Attributes
    ----------
    featurizers_ : dict of str to Featurizer
        The fitted featurisers.
    model_ : CrossModalHasher
        The fitted model.
    modalities_ : tuple of str
    codes_ : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        Learned codes of the training items.
    trials_ : list of Trial
        Held-out scores of the featurisers, if there were several.
    calibration_ : Calibration or None
        Probabilities that items are relevant, fitted when a collection is built with held-out items.
    word_labels_ : dict of str to str
        Words of texts, in the singular, that count as labels, in a collection that was built without labels.

    Examples
    --------
    >>> from dlfh import DLFH, Encoder
    >>> from dlfh.features import BagOfWords
    >>> english = ["a red car", "a blue car", "a small dog", "a big dog"] * 5
    >>> german = ["ein rotes Auto", "ein blaues Auto", "ein kleiner Hund", "ein grosser Hund"] * 5
    >>> encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    >>> encoder = encoder.fit({"english": english, "german": german}, ["car", "car", "dog", "dog"] * 5)
    >>> encoder.encode("german", ["Auto", "Hund"]).shape
    (2, 2)
    """

    featurizers_: dict[str, Featurizer]
    model_: CrossModalHasher
    trials_: Sequence[Trial[Any]] = ()
    calibration_: Calibration | None = None
    word_labels_: Mapping[str, str] = MappingProxyType({})

    def __init__(self, featurizers: Mapping[str, Featurizer | Sequence[Featurizer]], model: CrossModalHasher) -> None:
        self.featurizers = featurizers
        self.model = model
        self._names: dict[str, tuple[LabelNames, Mask]] = {}

    @classmethod
    def for_items(
        cls,
        items: Items,
        model: CrossModalHasher | None = None,
        *,
        image_features: str = "auto",
        text_features: str = "auto",
        verbose: bool = False,
    ) -> Self:
        """Return an unfitted encoder with the defaults of ``dlfh build``.

        Parameters
        ----------
        items : Items
            The features of a modality depend on the kind of its values: images, texts or vectors.
        model : CrossModalHasher, optional
            By default, ``DLFH(n_bits=128, random_state=0)``.
        image_features : str
            "gist", "hog", "thumbnail", "combined" (all three), "cnn" (a network, which needs ``dlfh[cnn]``), or
            "clip:FOLDER" for a CLIP model. "auto" chooses the best of several on held-out items.
        text_features : str
            Bags of words: "tfidf", "count", "binary" or "pieces" (words and parts of words); or "clip:FOLDER".
            "auto" chooses the best of "tfidf" and "pieces" on held-out items.
        verbose : bool
            Show progress bars while features are computed.

        Examples
        --------
        >>> from dlfh import Encoder
        >>> from dlfh.datasets import Items
        >>> items = Items.of({"english": ["a car", "a dog"], "german": ["Auto", "Hund"]}, labels=[["car"], ["dog"]])
        >>> Encoder.for_items(items, text_features="tfidf").model
        DLFH(n_bits=128, random_state=0)
        """
        from dlfh.collection.choosing import N_BITS, candidate_featurizers
        from dlfh.methods import DLFH

        featurizers = candidate_featurizers(items, image=image_features, text=text_features, verbose=verbose)
        return cls(featurizers, DLFH(N_BITS, random_state=0) if model is None else model)

    @classmethod
    def from_fitted(cls, featurizers: Mapping[str, Featurizer], model: CrossModalHasher) -> Self:
        """Return a fitted encoder from fitted featurisers and a fitted model."""
        encoder = cls({name: unfitted(featurizer) for name, featurizer in featurizers.items()}, unfitted(model))
        encoder.featurizers_, encoder.model_ = dict(featurizers), model
        return encoder

    @property
    def n_bits(self) -> int:
        return getattr(self, "model_", self.model).n_bits

    @property
    def modalities_(self) -> tuple[str, ...]:
        return self._fitted_model().modalities_

    @property
    def codes_(self) -> dict[str, Codes]:
        return self._fitted_model().codes_

    def _fitted_model(self) -> CrossModalHasher:
        if not hasattr(self, "model_"):
            raise NotFittedError("this Encoder is not fitted yet: call fit first")
        return self.model_

    def fit(self, modalities: Mapping[str, Sequence[Any]], labels: Any = None) -> Self:
        """Fit features, codes and hash functions to complete items.

        Parameters
        ----------
        modalities : dict of str to sequence
            By modality, a raw value per item: texts, images (paths, bytes, PIL images or arrays) or vectors.
        labels : array-like, optional
            As for `CrossModalHasher.fit`.
        """
        if not isinstance(modalities, Mapping) or set(modalities) != set(self.featurizers):
            got = sorted(modalities) if isinstance(modalities, Mapping) else type(modalities).__name__
            raise InputError(f"this encoder takes a dict of {sorted(self.featurizers)}, got {got}")
        featurizers = self._choose_featurizers(modalities, labels)
        matrices = {name: featurizer.fit_transform(modalities[name]) for name, featurizer in featurizers.items()}
        model = unfitted(self.model).fit(matrices, labels)
        self.featurizers_, self.model_, self.calibration_, self._names = featurizers, model, None, {}
        return self

    def fit_items(self, items: Items) -> Training:
        """Fit to items that may lack values or labels.

        Features are fitted to all readable values. Methods that support incomplete points (``info.takes_incomplete``)
        learn from every labelled item, others from complete items. Items without labels take part if the method is
        unsupervised, trains itself (``self_training``), or predicts their labels from two or more modalities.
        """
        from dlfh.collection.query import labels_of
        from dlfh.collection.training import fit_vectors  # not needed to search

        self._check_learnable(items)
        check_modalities(self.featurizers, items, fit=True)
        complete = items.take(np.flatnonzero(items.complete()))
        featurizers = self._choose_featurizers(complete.modalities, complete.labels)
        vectors = ItemVectors.from_items(featurizers, items, fit=True)
        given = [labels_of(each) for each in items.metadata] if self.word_labels_ else None
        return fit_vectors(self, featurizers, vectors, items.labels, unfitted(self.model), given)

    def partial_fit(self, items: Items) -> tuple[int, list[Problem]]:
        """Update the model with more items, as `DLFH.partial_fit` does; return their number and the problems.

        Features stay as they are, incomplete and unlabelled items are skipped, and the calibration is reset.
        """
        update: Any = getattr(self._fitted_model(), "partial_fit", None)
        if update is None:
            raise InputError(f"{type(self.model_).__name__} cannot learn from more items: use DLFH with keep_sums=True")
        vectors = self.featurize_items(items)
        rows = np.flatnonzero(np.logical_and.reduce([items.labelled(), *map(vectors.present, self.modalities_)]))
        if not len(rows):
            raise InputError(f"nothing to learn from: no item has {', '.join(self.modalities_)} and labels")
        update({name: vectors.take(name, rows) for name in self.modalities_}, items.take(rows).labels)
        self.calibration_ = None
        return len(rows), vectors.problems

    def _choose_featurizers(self, modalities: Mapping[str, Sequence[Any]], labels: Any) -> dict[str, Featurizer]:
        """Return an unfitted featuriser for each modality: of several candidates, the best on complete items."""
        from dlfh.collection.choosing import choose_featurizers  # not needed to search

        candidates = {
            name: [given] if isinstance(given, Featurizer) else [*given] for name, given in self.featurizers.items()
        }
        for name, featurizers in candidates.items():
            if not featurizers:
                raise InputError(f"the list of featurisers for the modality {name!r} is empty")
        seed = seed if isinstance(seed := getattr(self.model, "random_state", None), int) else 0
        chosen, self.trials_ = choose_featurizers(candidates, self.model, modalities, labels, seed)
        return {name: unfitted(featurizer) for name, featurizer in chosen.items()}

    def _check_learnable(self, items: Items) -> None:
        """Raise InputError for a method that cannot learn from the items, before features are computed."""
        method, info = type(self.model).__name__, self.model.info
        self.model.check_parameters()
        minimum, maximum = info.n_modalities
        n = len(self.featurizers)
        if n < minimum or n > (maximum or n):
            bound = "exactly" if minimum == maximum else "at least"
            raise InputError(
                f"{method} takes {bound} {minimum} modalities but the items have {n}: {', '.join(self.featurizers)}"
                + ("; use their labels as a second one (Items.with_label_words)" if n == 1 < minimum else "")
            )
        if info.supervised and items.labels is None:
            raise InputError(
                f"{method} learns from labels but the items have none: name a column of labels, or use an unsupervised "
                "method such as CCAITQ"
            )

    def featurize_items(self, items: Items) -> ItemVectors:
        """Return the vectors of the items' readable values."""
        self._fitted_model()
        return ItemVectors.from_items(self.featurizers_, items)

    def encode_items(
        self, vectors: ItemVectors, labels: Sequence[Sequence[str]] | None = None, training: Training | None = None
    ) -> ItemCodes:
        """Return the hashed codes of items, and learned codes where training or labels provide them.

        Parameters
        ----------
        vectors : ItemVectors
        labels : list of list of str, optional
            Labelled items get the code of their label set, which is learned here if it is new. Methods without
            ``codes_of_labels`` have learned codes of training items only.
        training : Training, optional
            The result of `fit_items` for these items. Their hashed codes are then leave-one-out codes, since a
            hash function may reproduce the learned codes of its training items.
        """
        n, model = vectors.n_items, self.label_model
        by_labels, known = self.codes_of_labels(labels, n)
        coded = ItemCodes({}, {}, {}, {}, {}, *self.known_labels(labels or [[]] * n))
        for name in self.modalities_:
            present = coded.present[name] = vectors.present(name)
            rows = np.flatnonzero(present)
            hashed = coded.hashed[name] = np.zeros_like(coded.labels)
            trained = np.zeros(n, bool) if training is None else training.used[name]
            is_left_out = training is not None and name in training.leave_one_out
            new = rows[~trained[rows]] if is_left_out else rows
            if len(new):
                hashed[new] = self.model_.encode(name, vectors.take(name, new))
            is_learned = coded.is_learned[name] = known & present
            learned = coded.learned[name] = np.where(is_learned[:, None], by_labels[name], np.uint8(0))
            left_out = None if training is None else training.suggested_labels.get(name)
            if training is not None:
                of_labels = training.learned[name]
                places = np.searchsorted(training.items, np.flatnonzero(of_labels))
                learned[of_labels] = np.asarray(self.codes_[name])[places]
                is_learned |= of_labels
                if is_left_out:
                    hashed[trained] = pack(training.leave_one_out[name])
            if model is not None and name != LABEL_WORDS:
                suggested = coded.suggested_labels[name] = np.hstack([np.zeros_like(coded.labels)] * 2)
                others = rows if left_out is None else rows[~trained[rows]]
                if len(others):
                    probabilities = self.label_probabilities(name, vectors.take(name, others))
                    suggested[others] = model.encode_suggested(name, probabilities)
                if left_out is not None:
                    suggested[trained] = left_out
        return coded

    @property
    def label_model(self) -> LabelModel | None:
        """The label probabilities of the model, if it has any and their labels have names.

        Its scores have no lifts, so that additional labels do not lower the rank of an item.
        """
        model = self._fitted_model().label_model_
        if model is None or model.names is None:
            return None
        known: tuple[LabelModel, LabelModel] | None = self.__dict__.get("_label_models")
        if known is None or known[0] is not model:
            known = self._label_models = model, model.without_lifts()
        return known[1]

    def label_probabilities(self, modality: str, vectors: Features) -> Singles:
        """Return the probability of each label, given vectors that a featuriser returned."""
        assert self.label_model is not None
        with blas_threads(self.model_.n_jobs), Workers(self.model_.n_jobs) as workers:
            return self.label_model.functions[modality].project(vectors, modality, workers)

    def label_queries(self, modality: str, texts: Sequence[str], predicted: Singles) -> tuple[Singles, list[Named]]:
        """Return the probability of each label for texts, given the predicted ones, and the labels that texts name.

        A text that names a label asks for it, even if the name consists of words unknown to the model. A text that
        consists of label names asks for these labels only.
        """
        probabilities, found = predicted.copy(), []
        names, is_unknown = self.label_names(modality)
        for row, text in enumerate(texts):
            named = [*names.find(text)]
            numbers = [number for _, numbers in named for number in numbers]
            if named and sum(len(words) for words, _ in named) == len(tokens(text)):
                probabilities[row] *= 1 - _NAMED
            else:
                numbers = [number for number in numbers if is_unknown[number]]
            probabilities[row, numbers] = np.maximum(probabilities[row, numbers], _NAMED)
            # Texts may have a word of the same meaning without the label, so that only names stand for labels.
            likely = [each for each in named if names.is_name(each[0]) and probabilities[row, each[1]].max() >= _LIKELY]
            found.append(Named(frozenset(word for words, _ in likely for word in words), [each[1] for each in likely]))
        return probabilities, found

    def label_names(self, modality: str) -> tuple[LabelNames, Mask]:
        """Return the label names, and a mask of the names without any word known to a modality's text features."""
        model = self.label_model
        assert model is not None
        names = [str(name) for name in model.names or ()]
        if modality not in self._names:
            vectors = self.featurizers_[modality].transform(names)
            is_unknown = np.diff(vectors.indptr) == 0 if sp.issparse(vectors) else np.zeros(len(names), bool)
            words = {} if self.calibration_ is None else self.calibration_.label_words.get(modality, {})
            self._names[modality] = LabelNames(names, words), is_unknown
        return self._names[modality]

    def label_rows(self, labels: Sequence[Sequence[str]]) -> tuple[Singles, Mask]:
        """Return rows of 0 and 1 for the labels that the model knows, and a mask of the items that have any of them."""
        assert self.label_model is not None
        names: tuple[Any, ...] = self.label_model.names or ()
        column = {name: number for number, name in enumerate(names)}
        rows = np.zeros((len(labels), len(names)), np.float32)
        for row, given in enumerate(labels):
            rows[row, [column[label] for label in given if label in column]] = 1
        return rows, np.asarray(rows.any(axis=1))

    def known_labels(self, labels: Sequence[Sequence[str]]) -> tuple[Codes, Mask]:
        """Return the labels of items as bytes, and a mask of the items with any label that the model knows."""
        if self.label_model is None:
            return np.zeros((len(labels), n_bytes(self.n_bits)), np.uint8), np.zeros(len(labels), bool)
        number_of: dict[tuple[str, ...], int] = {}  # most label sets occur several times
        numbers = [number_of.setdefault(tuple(given), len(number_of)) for given in labels]
        rows, has_labels = self.label_rows([*number_of])
        return self.label_model.encode(rows)[numbers], has_labels[numbers]

    def combine_labels(self, suggested: Mapping[str, Codes], present: Mapping[str, Mask]) -> Codes:
        """Combine the label probabilities predicted from each modality that an item has."""
        model = self.label_model
        assert model is not None
        width, masks = n_bytes(self.n_bits), np.stack([present[name] for name in suggested])
        combined = np.zeros((masks.shape[1], width), np.uint8)
        number = (masks.astype(np.int64) << np.arange(len(masks))[:, None]).sum(axis=0)
        for pattern in {*number.tolist()} - {0}:
            rows = np.flatnonzero(number == pattern)
            names = [name for place, name in enumerate(suggested) if pattern >> place & 1]
            if len(names) == 1:
                combined[rows] = suggested[names[0]][rows, :width]
            else:
                parts = {name: model.decode_suggested(name, suggested[name][rows]) for name in names}
                combined[rows] = model.encode(model.fuse(parts))
        return combined

    def with_words(self, labels: Sequence[Sequence[str]], metadata: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Return the labels of items, followed by the words of their texts that count as labels.

        A word that names a label stands for it, but not for an item with labels: these are known.
        """
        names = [
            name
            for name, given in getattr(self, "featurizers_", self.featurizers).items()
            if (given if isinstance(given, Featurizer) else given[0]).takes == "texts" and name != LABEL_WORDS
        ]
        found = [list(known) for known in labels]
        for known, about in zip(found, metadata, strict=True) if self.word_labels_ else ():
            texts = (about.get(name) for name in names)
            words = (singular(word) for text in texts if isinstance(text, str) for word in tokens(text))
            counted = (word for word in words if word in self.word_labels_)
            known += [self.word_labels_[word] for word in counted if not known or self.word_labels_[word] == word]
            known[:] = dict.fromkeys(known)
        return found

    def codes_of_labels(self, labels: Sequence[Sequence[str]] | None, n_items: int) -> tuple[dict[str, Codes], Mask]:
        """Return the learned codes of label sets, and a mask of items with one; empty if the method has none."""
        if labels is not None and any(labels) and getattr(self.model_, "label_codes_", None) is not None:
            codes: tuple[dict[str, Codes], Mask] = self.model_.codes_of_labels(labels)  # type: ignore[attr-defined]
            return codes
        zeros = np.zeros((n_items, n_bytes(self.n_bits)), np.uint8)
        return dict.fromkeys(self.modalities_, zeros), np.zeros(n_items, bool)

    def encode(self, modality: str, values: Any) -> Codes:
        """Return the packed codes of raw values of one modality, shape (n, ceil(n_bits / 8))."""
        return self._fitted_model().encode(modality, self.featurize(modality, values))

    def project(self, modality: str, values: Any) -> Singles:
        """Return the real values whose signs are the codes, for asymmetric ranking, shape (n, n_bits)."""
        return self.project_vectors(modality, self.featurize(modality, values))

    def project_vectors(self, modality: str, vectors: Features) -> Singles:
        """Return the projections of vectors that a featuriser returned, without checking them again."""
        model = self._fitted_model()
        with blas_threads(model.n_jobs), Workers(model.n_jobs) as workers:
            return model.hash_functions_[modality].project(vectors, modality, workers)

    def featurize(self, modality: str, values: Any) -> Features:
        """Return the vectors of raw values of one modality."""
        return self.featurizer(modality).transform(values)

    def featurizer(self, modality: str) -> Featurizer:
        """Return the fitted featuriser of a modality."""
        self._fitted_model()
        if not isinstance(modality, str):
            raise InputError(f"the first argument must be the name of a modality, got {type(modality).__name__}")
        if modality not in self.featurizers_:
            known = ", ".join(map(repr, self.featurizers_))
            raise InputError(f"unknown modality {modality!r}: this model has {known}")
        return self.featurizers_[modality]

    def describe(self, modality: str) -> dict[str, Any]:
        """Return the features of a modality, their number, and its hash function, as plain values."""
        model, chosen = self._fitted_model(), getattr(self.model_, "chosen_", {})
        return {
            "features": repr(self.featurizers_[modality]),
            "n_features": model.n_features_[modality],
            "hash_function": repr(chosen[modality]) if modality in chosen else model.hash_functions_[modality].kind,
        }

    def searchable_modalities(self) -> tuple[str, ...]:
        """Return the modalities by which items can be found; label words only serve as queries."""
        return tuple(name for name in self.modalities_ if name != LABEL_WORDS)

    def text_modalities(self) -> tuple[str, ...]:
        """Return the searchable modalities whose raw values are texts."""
        return tuple(name for name in self.searchable_modalities() if self.featurizers_[name].takes == "texts")

    def image_modalities(self) -> tuple[str, ...]:
        """Return the modalities whose raw values are images."""
        return tuple(name for name, featurizer in self.featurizers_.items() if featurizer.takes == "images")

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save featurisers and model atomically, as a folder of safetensors and JSON.

        Without ``overwrite``, raise ModelError if the folder contains a model.
        """
        config, arrays = self._fitted_model()._to_parts()
        config["features"] = {}
        for name, featurizer in self.featurizers_.items():
            config["features"][name], parts = featurizer.to_parts()
            arrays |= {f"features/{name}/{key}": array for key, array in parts.items()}
        config["word_labels"] = dict(self.word_labels_)
        config["calibration"] = None if self.calibration_ is None else self.calibration_.to_plain()
        write_model(folder, config, arrays, overwrite=overwrite)


def unfitted(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator."""
    return type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))


def load(folder: str | os.PathLike[str]) -> Any:
    """Load a model that ``model.save(folder)`` wrote.

    Parameters
    ----------
    folder : path
        It need not be trusted: no code in it is run, and its checksum is verified.

    Returns
    -------
    CrossModalHasher or Encoder
        Its codes are bit-identical to those of the saved model.
    """
    if is_collection(folder):
        raise ModelError(
            f"{folder} is a collection, not a model: open it with Collection.open, or load its model from "
            f"{model_folder(folder)}"
        )
    return from_parts(folder, *read_model(folder))


def from_parts(folder: str | os.PathLike[str], config: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Return a model or encoder from the contents of its folder."""
    try:
        model = hasher_from_parts(config, arrays)
        if "features" not in config:
            return model
        featurizers = {}
        for name in model.modalities_:
            parts = with_prefix(arrays, f"features/{name}/")
            featurizers[name] = Featurizer.from_parts(config["features"][name], parts)
            if featurizers[name].n_features_ != model.n_features_[name]:
                raise ValueError(f"the features of {name!r} do not match its hash function")
        encoder = Encoder.from_fitted(featurizers, model)
        encoder.word_labels_ = dict(config["word_labels"])
        if not all(isinstance(label, str) for label in encoder.word_labels_.values()):
            raise ValueError("the words that count as labels must be strings")
        if config["calibration"] is not None:
            encoder.calibration_ = Calibration.from_plain(config["calibration"], model.modalities_)
        return encoder
    except ModelError as error:
        raise ModelError(f"model {folder} cannot be loaded: {error}") from None
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelError(f"model {folder} is damaged: {error}") from None
