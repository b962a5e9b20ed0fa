"""From raw texts and images to codes: a featuriser for each modality, and a hashing method over them."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import read_model, write_model
from dlfh._validation import Features
from dlfh.codes import Codes, n_bytes, pack, unpack
from dlfh.collection.calibration.model import Calibration
from dlfh.collection.contents import content_hashes
from dlfh.collection.folder import is_collection
from dlfh.collection.item_vectors import ItemCodes, ItemVectors, Mask, Training
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import InputError, ModelError, NotFittedError
from dlfh.features.base import Featurizer
from dlfh.methods import CrossModalHasher
from dlfh.methods.base import hasher_from_parts

if TYPE_CHECKING:
    from dlfh._selection import Trial
    from dlfh.datasets.items import Items

__all__ = ["Encoder", "from_parts", "load"]


class Encoder(Parameterized):
    """A hashing method that takes raw texts and images.

    Parameters
    ----------
    featurizers : dict of str to Featurizer, or to a list of them
        What turns each modality's raw values into vectors. Of several, the one that serves best is taken: each is tried
        on items that it was not fitted to (1,200 items at most); of fewer than 100, the first is taken.
    model : CrossModalHasher
        What learns codes from the vectors. Fitting leaves it and the featurisers as they are, and learns in copies.

    Attributes
    ----------
    featurizers_ : dict of str to Featurizer
        The fitted featurisers.
    model_ : CrossModalHasher
        The fitted model.
    modalities_ : tuple of str
    codes_ : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        The model's codes of the training items.
    trials_ : list of Trial
        What each of several featurisers did, if there were several.
    calibration_ : Calibration or None
        What distances say of the probability that an item is right, if items were held out to tell.

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

    def __init__(self, featurizers: Mapping[str, Featurizer | Sequence[Featurizer]], model: CrossModalHasher) -> None:
        self.featurizers = featurizers
        self.model = model

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
        """Return an unfitted encoder with the defaults of `dlfh build`.

        Parameters
        ----------
        items : Items
            The kind of a modality's values (images, texts or vectors) decides its features.
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
        from dlfh.collection.candidates import N_BITS, candidate_featurizers
        from dlfh.methods import DLFH

        featurizers = candidate_featurizers(items, image=image_features, text=text_features, verbose=verbose)
        return cls(featurizers, DLFH(N_BITS, random_state=0) if model is None else model)

    @classmethod
    def of_fitted(cls, featurizers: Mapping[str, Featurizer], model: CrossModalHasher) -> Self:
        """Return a fitted encoder of featurisers and a model that are fitted already."""
        encoder = cls({name: _unfitted(featurizer) for name, featurizer in featurizers.items()}, _unfitted(model))
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
        """Learn features, codes and hash functions from complete items.

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
        featurizers = self._choose(modalities, labels)
        matrices = {name: featurizer.fit_transform(modalities[name]) for name, featurizer in featurizers.items()}
        model = _unfitted(self.model).fit(matrices, labels)
        self.featurizers_, self.model_, self.calibration_ = featurizers, model, None
        return self

    def fit_items(self, items: Items) -> Training:
        """Learn from items as they come: with missing texts, images that cannot be read, and some without labels.

        Features are learned from all values that there are. Codes and hash functions are learned from every labelled
        item by methods that take incomplete points (``info.takes_incomplete``), and by the others from the items that
        have every modality and, if the method learns from labels, labels. Items without labels take part if the model
        trains itself (``self_training``).

        Parameters
        ----------
        items : Items

        Returns
        -------
        Training
        """
        self._check_learnable(items)
        _check_modalities(self.featurizers, items, fit=True)
        whole = items.take(np.flatnonzero(items.complete()))
        featurizers = self._choose(whole.modalities, whole.labels)
        vectors = _describe(featurizers, items, fit=True)
        supervised = self.model.info.supervised
        labelled = items.labelled() if supervised else np.ones(len(items), bool)
        present = {name: vectors.present(name) for name in featurizers}
        used = self._trainable(present, labelled)
        self._check_enough(used & labelled, present, vectors.problems)
        rows = np.flatnonzero(used)
        missing: dict[str, Any] = {}
        if not all(mask[rows].all() for mask in present.values()):
            missing["present"] = {name: mask[rows] for name, mask in present.items()}
        if not labelled[rows].all():
            missing["labelled"] = labelled[rows]
        matrices = {name: vectors.take_padded(name, rows) for name in featurizers}
        model = _unfitted(self.model).fit(matrices, items.take(rows).labels if supervised else None, **missing)
        self.featurizers_, self.model_, self.calibration_ = featurizers, model, None
        learns_codes = "learned" in model.info.protocols
        learned = {name: used & labelled & mask & learns_codes for name, mask in present.items()}
        incomplete = used & ~np.logical_and.reduce([labelled, *present.values()])
        left_out = {}
        for name, mask in learned.items():
            codes = model.codes_[name][np.searchsorted(rows, np.flatnonzero(mask))]
            values = (
                model.project_left_out(name, vectors.take(name, np.flatnonzero(mask)), codes) if len(codes) else None
            )
            if values is not None:
                left_out[name] = values
        return Training(vectors, rows, learned, int(incomplete.sum()), left_out)

    def fit_more(self, items: Items) -> tuple[int, list[Problem]]:
        """Learn from more items, without those that were learned from before: see `DLFH.partial_fit`.

        Features stay as they are. Items that lack a modality or labels are left out. How probable answers are to be
        right is to be measured again.

        Parameters
        ----------
        items : Items

        Returns
        -------
        int, list of Problem
            How many were learned from, and what could not be read.
        """
        learn: Any = getattr(self._fitted_model(), "partial_fit", None)
        if learn is None:
            raise InputError(f"{type(self.model_).__name__} does not learn further: DLFH with keep_sums=True does")
        vectors = self.describe(items)
        rows = np.flatnonzero(np.logical_and.reduce([items.labelled(), *map(vectors.present, self.modalities_)]))
        if not len(rows):
            raise InputError(f"there is nothing to learn from: no item has {', '.join(self.modalities_)} and labels")
        matrices = {name: vectors.take(name, rows) for name in self.modalities_}
        learn(matrices, items.take(rows).labels)
        self.calibration_ = None
        return len(rows), vectors.problems

    def _choose(self, modalities: Mapping[str, Sequence[Any]], labels: Any) -> dict[str, Featurizer]:
        """Return a featuriser to fit for each modality: of several, the one that serves complete items best."""
        from dlfh.collection.choosing import choose_featurizers  # not needed to search

        several = {name: [own] if isinstance(own, Featurizer) else [*own] for name, own in self.featurizers.items()}
        empty = [name for name, own in several.items() if not own]
        if empty:
            raise InputError(f"there are no features to choose from for the modality {empty[0]!r}")
        seed = getattr(self.model, "random_state", None)
        taken, self.trials_ = choose_featurizers(
            several, self.model, modalities, labels, seed if isinstance(seed, int) else 0
        )
        return {name: _unfitted(featurizer) for name, featurizer in taken.items()}

    def _trainable(self, present: Mapping[str, Mask], labelled: Mask) -> Mask:
        """Return which items the model can learn from."""
        masks = list(present.values())
        if not self.model.info.takes_incomplete:
            return np.logical_and.reduce([labelled, *masks])
        # One code for all modalities of a point needs them all.
        described = np.logical_and.reduce(masks) if getattr(self.model, "shared_code", False) else np.any(masks, axis=0)
        # Unless the model trains itself, a point without labels changes nothing but its own code, which is hashed.
        return described if getattr(self.model, "self_training", 0) else described & labelled

    def _check_enough(self, taught: Mask, present: Mapping[str, Mask], problems: Sequence[Problem]) -> None:
        """Say so if there are not two items to learn from, or none in some modality."""
        if taught.sum() >= 2:
            for name, mask in present.items():
                if not (taught & mask).any():
                    raise InputError(f"there is nothing to learn from: no item with labels has the modality {name!r}")
            return
        partly = self.model.info.takes_incomplete and not getattr(self.model, "shared_code", False)
        needs = (" or " if partly else " and ").join(self.featurizers)
        needs += " and labels" if self.model.info.supervised else ""
        number = "only one item has" if taught.any() else "no item has"
        why = f" ({problems[0]})" if problems else ""
        raise InputError(f"there is nothing to learn from: {number} {needs}{why}")

    def _check_learnable(self, items: Items) -> None:
        """Say what is wrong before anything is read that takes long."""
        method, info = type(self.model).__name__, self.model.info
        self.model.check_parameters()
        least, most = info.n_modalities
        n = len(self.featurizers)
        if n < least or n > (most or n):
            raise InputError(
                f"{method} takes {'exactly' if least == most else 'at least'} {least} modalities, and the items have "
                f"{n}: {', '.join(self.featurizers)}"
                + ("; labels can be a second one (Items.with_label_words)" if n == 1 < least else "")
            )
        if info.supervised and items.labels is None:
            raise InputError(
                f"{method} learns from labels and the items have none: name a column of labels, or choose a method "
                "that learns from pairs, such as CCAITQ"
            )

    def describe(self, items: Items) -> ItemVectors:
        """Return the vectors of what can be read of the items, in the modalities that this encoder knows."""
        self._fitted_model()
        return _describe(self.featurizers_, items)

    def encode_items(
        self, vectors: ItemVectors, labels: Sequence[Sequence[str]] | None = None, training: Training | None = None
    ) -> ItemCodes:
        """Return the items' codes: hashed ones of all, and learned ones where training or their labels give one.

        Parameters
        ----------
        vectors : ItemVectors
        labels : list of list of str, optional
            The items' labels: they have the code of their label set, which is learned here if it is new. Methods that
            cannot (``codes_of_labels``) give a learned code to the items that they were trained with alone.
        training : Training, optional
            What `fit_items` returned, if it was given these items. Their hashed codes are then those of functions that
            did not see them: functions that know an item by heart repeat its learned code.
        """
        n = vectors.n_items
        by_labels, known = self.codes_of_labels(labels, n)
        hashed, present, learned, is_learned = {}, {}, {}, {}
        for name in vectors.matrices:
            present[name] = vectors.present(name)
            rows = np.flatnonzero(present[name])
            hashed[name] = np.zeros((n, n_bytes(self.n_bits)), np.uint8)
            if len(rows):
                hashed[name][rows] = self.model_.encode(name, vectors.take(name, rows))
            is_learned[name] = known & present[name]
            learned[name] = np.where(is_learned[name][:, None], by_labels[name], np.uint8(0))
            if training is not None:
                trained = training.learned[name]
                learned[name][trained] = self.codes_[name][np.searchsorted(training.items, np.flatnonzero(trained))]
                is_learned[name] = is_learned[name] | trained
                if name in training.left_out:
                    hashed[name][trained] = pack(training.left_out[name])
        return ItemCodes(hashed, present, learned, is_learned)

    def codes_of_labels(self, labels: Sequence[Sequence[str]] | None, n_items: int) -> tuple[dict[str, Codes], Mask]:
        """Return the learned codes of items by their labels, and which have one: none, by methods that cannot."""
        if labels is not None and any(labels) and getattr(self.model_, "label_codes_", None) is not None:
            codes: tuple[dict[str, Codes], Mask] = self.model_.codes_of_labels(labels)  # type: ignore[attr-defined]
            return codes
        nothing = np.zeros((n_items, n_bytes(self.n_bits)), np.uint8)
        return dict.fromkeys(self.modalities_, nothing), np.zeros(n_items, bool)

    def encode(self, modality: str, values: Any) -> Codes:
        """Return the packed codes of raw values of one modality.

        Parameters
        ----------
        modality : str
        values : sequence
            Texts, images or vectors, as the modality's featuriser takes them.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
        """
        vectors = self.vectors(modality, values)
        return self.model_.encode(modality, vectors)

    def project(self, modality: str, values: Any) -> npt.NDArray[np.float32]:
        """Return the real values whose signs are the codes of raw values, for asymmetric ranking.

        Parameters
        ----------
        modality : str
        values : sequence

        Returns
        -------
        ndarray of float32, shape (n, n_bits)
        """
        vectors = self.vectors(modality, values)
        return self.model_.project(modality, vectors)

    def text_modalities(self) -> tuple[str, ...]:
        """Return the modalities whose raw values are texts, less what stands for words of labels."""
        return tuple(name for name in self.searchable() if self.featurizers_[name].takes == "texts")

    def searchable(self) -> tuple[str, ...]:
        """Return the modalities that items are found by: labels that stand for words are there to ask with."""
        return tuple(name for name in self.modalities_ if name != LABEL_WORDS)

    def image_modalities(self) -> tuple[str, ...]:
        """Return the modalities whose raw values are images."""
        return tuple(name for name, featurizer in self.featurizers_.items() if featurizer.takes == "images")

    def mean_code(self, modality: str) -> npt.NDArray[np.float32]:
        """Return the mean code of the training items: what a projection less this says is special to its item.

        Parameters
        ----------
        modality : str

        Returns
        -------
        ndarray of float32, shape (n_bits,)
        """
        return unpack(self.codes_[modality], self.n_bits).mean(axis=0, dtype=np.float32)

    def vectors(self, modality: str, values: Any) -> Features:
        """Return the vectors of raw values of one modality, as its featuriser makes them."""
        return self.featurizer(modality).transform(values)

    def featurizer(self, modality: str) -> Featurizer:
        """Return the fitted featuriser of a modality."""
        self._fitted_model()
        if not isinstance(modality, str):
            raise InputError(f"the modality's name comes first, then its values; got {type(modality).__name__}")
        if modality not in self.featurizers_:
            known = ", ".join(map(repr, self.featurizers_))
            raise InputError(f"unknown modality {modality!r}: this model knows {known}")
        return self.featurizers_[modality]

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save featurisers and model as one folder of safetensors and JSON, atomically.

        A model that is there is replaced, or, without ``overwrite``, a reason to raise ModelError.
        """
        config, arrays = self._fitted_model()._to_parts()
        config["features"] = {}
        for name, featurizer in self.featurizers_.items():
            config["features"][name], own = featurizer.to_parts()
            arrays |= {f"features/{name}/{key}": array for key, array in own.items()}
        config["calibration"] = None if self.calibration_ is None else self.calibration_.to_plain()
        write_model(folder, config, arrays, overwrite=overwrite)


def _unfitted(estimator: Any) -> Any:
    """Return an estimator with the same parameters that has learned nothing."""
    return type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))


def _check_modalities(featurizers: Mapping[str, Any], items: Items, *, fit: bool) -> None:
    """Say so if items have a modality that is unknown or, where all are needed, lack one."""
    unknown = sorted({*items.modalities} - {*featurizers})
    if unknown:
        raise InputError(f"unknown modality {unknown[0]!r}: this model knows {', '.join(map(repr, featurizers))}")
    if fit and set(items.modalities) != set(featurizers):
        missing = sorted({*featurizers} - {*items.modalities})[0]
        raise InputError(f"the items do not have the modality {missing!r}")


def _describe(featurizers: Mapping[str, Featurizer], items: Items, *, fit: bool = False) -> ItemVectors:
    """Return the vectors of what can be read of the items, from featurisers that are fitted to them or were before."""
    _check_modalities(featurizers, items, fit=fit)
    # Before anything is read: what changes in between has another hash the next time, and is described again.
    contents = content_hashes(featurizers, items)
    matrices, positions, problems = {}, {}, []
    for name, values in items.modalities.items():
        rows = np.flatnonzero(items.present(name))
        given = [values[row] for row in rows] if isinstance(values, list) else values
        if fit and not len(rows):
            example = f": {items.problems[0]}" if items.problems else ""
            raise InputError(f"no item has the modality {name!r}{example}")
        featurizer = featurizers[name]
        readable = featurizer.fit_transform_readable(given) if fit else featurizer.transform_readable(given)
        matrices[name], positions[name] = readable.features, rows[readable.rows]
        problems += [Problem(items.places[rows[row]], name, why) for row, why in sorted(readable.problems.items())]
    return ItemVectors(len(items), matrices, positions, problems, contents)


def load(folder: str | os.PathLike[str]) -> Any:
    """Load a model that was saved by ``model.save(folder)``.

    Parameters
    ----------
    folder : path
        Nothing in it is trusted: no code runs, and its checksum must match.

    Returns
    -------
    CrossModalHasher or Encoder
        What was saved; it encodes bit for bit the same.
    """
    if is_collection(folder):
        raise ModelError(
            f"{folder} is a collection, not a model: open it with Collection.open, or load its model from "
            f"{os.path.join(folder, 'model')}"
        )
    return from_parts(folder, *read_model(folder))


def from_parts(folder: str | os.PathLike[str], config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Any:
    """Return the model or encoder that was read from a folder."""
    try:
        model = hasher_from_parts(config, arrays)
        if "features" not in config:
            return model
        featurizers = {}
        for name in model.modalities_:
            prefix = f"features/{name}/"
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            featurizers[name] = Featurizer.from_parts(config["features"][name], own)
            if featurizers[name].n_features_ != model.n_features_[name]:
                raise ValueError(f"the features of {name!r} do not fit its hash function")
        encoder = Encoder.of_fitted(featurizers, model)
        if config["calibration"] is not None:
            encoder.calibration_ = Calibration.from_plain(config["calibration"], model.modalities_)
        return encoder
    except ModelError as error:
        raise ModelError(f"model {folder} cannot be loaded: {error}") from None
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelError(f"model {folder} is damaged: {error}") from None
