"""Registered classes and JSON values survive saving, or are refused before anything is written."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import dlfh.features
import dlfh.hashing
import dlfh.methods
from dlfh import DLFH, Encoder, InputError, ModelError, load
from dlfh._parameters import Parameterized
from dlfh._persistence.registry import Registered, Registry, parameters_from_json, parameters_to_json
from dlfh.datasets import Paired
from dlfh.features import BagOfWords, Featurizer
from dlfh.hashing import Deep, HashFunction, HashLearner, KernelLogistic, KernelRidge, LinearRidge
from dlfh.hashing.kernel import KernelHash, LatentBinaryHash
from dlfh.hashing.linear import LinearHash, UnitLinearHash
from dlfh.methods import KDLFH, MLBE, SMFH, CrossModalHasher
from dlfh.methods.catalogue import METHODS

Split = tuple[Paired, Paired]


class CustomHash(LinearHash):
    """A user-defined hash function."""

    kind = "custom-linear"


class CustomRidge(LinearRidge):
    """A user-defined learner with an additional parameter."""

    kind = "custom-ridge"

    def __init__(self, ridge: float = 1.0, *, fit_intercept: bool = True, names: Any = ()) -> None:
        super().__init__(ridge, fit_intercept=fit_intercept)
        self.names = names

    def fit_blocks(self, *arguments: Any) -> Any:
        found: Any = super().fit_blocks(*arguments)
        return CustomHash.from_arrays(found.to_arrays())


class NamelessRidge(LinearRidge):
    """A learner that inherits its kind."""


class NamelessHash(LinearHash):
    """A hash function that inherits its kind."""


def fitted(paired: Split, **parameters: Any) -> DLFH:
    train, _ = paired
    return DLFH(8, max_iter=2, random_state=0, **{"hash_function": "linear"} | parameters).fit(
        train.modalities, train.labels
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("package", [dlfh.features, dlfh.hashing, dlfh.methods], ids=lambda package: package.__name__)
def test_every_kind_is_declared_with_its_module(package: Any) -> None:
    bases: dict[Any, dict[str, type]] = {base: {} for base in (CrossModalHasher, Featurizer, HashFunction, HashLearner)}
    for module in pkgutil.iter_modules(package.__path__):
        for value in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
            if inspect.isclass(value) and issubclass(value, Registered) and "kind" in vars(value):
                base = next(base for base in bases if issubclass(value, base))
                if value.__module__.startswith(package.__name__):
                    bases[base][value.kind] = value
    assert any(bases.values())
    for base, classes in bases.items():
        expected = {
            kind: module for kind, module in base._registry._modules.items() if module.startswith(package.__name__)
        }
        assert {kind: cls.__module__ for kind, cls in classes.items()} == expected
        for kind, cls in classes.items():
            assert base._registry.find(kind) is cls
            assert base._registry.kind_of(cls) == kind


def test_methods_are_named_like_their_classes() -> None:
    assert {name: method.__name__ for name, method in METHODS.items()} == {name: name for name in METHODS}
    assert "Nothing" not in METHODS


def test_a_subclass_without_a_kind_does_not_replace_its_parent(paired: Split, tmp_path: Path) -> None:
    model = fitted(paired, hash_function=LinearRidge())
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded.hash_function) is LinearRidge
    assert type(loaded.hash_functions_["image"]) is LinearHash


def test_a_second_class_of_one_kind_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"OtherHash has the kind 'custom-linear', already used by .*\.CustomHash: choose"
    ):

        class OtherHash(LinearHash):
            kind = "custom-linear"

    assert HashFunction._registry.find("custom-linear") is CustomHash


def test_a_declared_kind_is_reserved_before_its_module_is_imported() -> None:
    class Shape(Registered):
        _registry: ClassVar[Any] = Registry("shape")

    Shape._registry.declare("dlfh", {"circle": "no_such_module"})
    with pytest.raises(InputError, match=r"Other has the kind 'circle', already used by dlfh\.no_such_module"):

        class Other(Shape):
            kind = "circle"


def test_a_redefined_class_replaces_itself() -> None:
    class Shape(Registered):
        _registry: ClassVar[Any] = Registry("shape")

    def define() -> type[Shape]:
        class Circle(Shape):
            kind = "circle"

        return Circle

    old, new = define(), define()
    assert Shape._registry.find("circle") is new
    assert Shape._registry.kind_of(old) == "circle"


def test_user_defined_learners_are_saved(paired: Split, tmp_path: Path) -> None:
    _, test = paired
    learner = CustomRidge(2.0, names={"a": 1, ("b", "c"): 2})
    model = fitted(paired, hash_function={"image": learner, "text": "linear"})
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    assert type(loaded.hash_function["image"]) is CustomRidge
    assert type(loaded.hash_functions_["image"]) is CustomHash
    features = test.modalities["image"]
    np.testing.assert_array_equal(loaded.project("image", features), model.project("image", features))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"hash_function": NamelessRidge()},
            "cannot save parameter 'hash_function' of DLFH: the hash learner NamelessRidge cannot be saved: define",
        ),
        (
            {"hash_function": {"image": CustomRidge(names=object()), "text": "linear"}},
            "cannot save parameter 'hash_function' of DLFH: cannot save parameter 'names' of CustomRidge: "
            "it contains a object",
        ),
    ],
)
def test_unsaveable_parameters_are_refused_before_anything_is_written(
    parameters: dict[str, Any], message: str, paired: Split, tmp_path: Path
) -> None:
    model = fitted(paired, **parameters)
    with pytest.raises(InputError, match=message):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_hash_functions_and_methods_without_a_kind_are_refused(paired: Split, tmp_path: Path) -> None:
    class Nameless(DLFH):
        pass

    model = fitted(paired)
    model.hash_functions_["text"] = NamelessHash.from_arrays(model.hash_functions_["text"].to_arrays())
    with pytest.raises(
        InputError, match="the hash function NamelessHash cannot be saved: define a class attribute kind"
    ):
        model.save(tmp_path / "model")
    with pytest.raises(InputError, match="the method Nameless cannot be saved: define a class attribute kind"):
        Nameless(8, max_iter=2).fit(paired[0].modalities, paired[0].labels).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_featuriser_without_a_kind_is_refused() -> None:
    class Nameless(BagOfWords):
        pass

    with pytest.raises(InputError, match="the featuriser Nameless cannot be saved"):
        Nameless().fit(["a"]).to_parts()
    with pytest.raises(InputError, match="BagOfWords is not a hash learner"):
        HashLearner._registry.kind_of(BagOfWords)  # type: ignore[arg-type]


class Values(Parameterized):
    """An object with one parameter."""

    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, None),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        ([1, (2, [3])], (1, (2, (3,)))),
        ({"b", "a"}, ("a", "b")),
        (Path("a") / "b", str(Path("a") / "b")),
        ({"items": 1, "kind": "x", "parameters": {}}, {"items": 1, "kind": "x", "parameters": {}}),
        ({("a", "b"): {"c": 1}}, {("a", "b"): {"c": 1}}),
        ({1: [2]}, {1: (2,)}),
        (LinearRidge(2.0), LinearRidge(2.0)),
        ({"image": Deep((3, 4))}, {"image": Deep((3, 4))}),
    ],
)
def test_values_survive_json(value: Any, back: Any) -> None:
    text = json.dumps(parameters_to_json(Values(value), HashLearner._registry))
    assert repr(parameters_from_json(json.loads(text), HashLearner._registry)) == repr({"value": back})


@pytest.mark.parametrize("value", [object(), np.zeros(2), 1j, print, np.random.default_rng(0), b"x", [LinearRidge]])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="cannot save parameter 'value' of Values: it contains a "):
        parameters_to_json(Values(value), HashLearner._registry)


def test_a_network_is_not_saved_with_its_learner() -> None:
    assert parameters_to_json(Deep(module=object()), HashLearner._registry)["module"] is None


@pytest.mark.parametrize("saved", [{"what": 1}, {"kind": "linear-ridge"}, {"items": 3}, {"items": [[1]]}])
def test_unknown_json_forms_are_refused(saved: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        parameters_from_json({"value": saved}, HashLearner._registry)


def test_an_unknown_kind_is_reported() -> None:
    saved = {"value": {"kind": "alien", "parameters": {}}}
    with pytest.raises(ModelError, match="unknown hash learner 'alien': import the module"):
        parameters_from_json(saved, HashLearner._registry)


KINDS: dict[str, tuple[Any, type[HashFunction]]] = {
    "linear": (DLFH(8, max_iter=2, random_state=0, hash_function="linear"), LinearHash),
    "kernel": (KDLFH(8, max_iter=2, n_bases=20, random_state=0), KernelHash),
    "kernel-ridge": (DLFH(8, max_iter=2, hash_function=KernelRidge(20), random_state=0), KernelHash),
    "learners": (DLFH(8, max_iter=2, hash_function={"image": KernelLogistic(20), "text": "linear"}), KernelHash),
    "unit-linear": (SMFH(8, max_iter=2, random_state=0), UnitLinearHash),
    "latent-binary": (MLBE(8, encoding="sweep", random_state=0), LatentBinaryHash),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_same_seed_and_data_write_the_same_bytes(name: str, paired: Split, tmp_path: Path) -> None:
    model, kind = KINDS[name]
    train, _ = paired
    modalities = {key: matrix[:80] for key, matrix in train.modalities.items()}
    for folder in ("one", "two"):
        model.set_params(random_state=3).fit(modalities, train.labels[:80]).save(tmp_path / folder)
    assert isinstance(model.hash_functions_["image"], kind)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_an_encoder_writes_the_same_bytes_and_no_timings(tmp_path: Path) -> None:
    texts = ["a red car", "a blue car", "a small dog", "a big dog"] * 5
    for folder in ("one", "two"):
        features = {"left": BagOfWords(stop_words={"a", "the", "of"}), "right": BagOfWords("count")}
        encoder = Encoder(features, DLFH(8, max_iter=2, random_state=0, hash_function="linear"))
        encoder.fit({"left": texts, "right": texts}, ["car", "car", "dog", "dog"] * 5).save(tmp_path / folder)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert "seconds" not in (tmp_path / "one" / "config.json").read_text()
    assert not hasattr(load(tmp_path / "one").model, "fit_seconds_")


def test_the_arrays_of_a_hash_function_recreate_it(paired: Split) -> None:
    function = fitted(paired).hash_functions_["image"]
    arrays: dict[str, npt.NDArray[Any]] = function.to_arrays()
    again = HashFunction._registry.find(function.kind).from_arrays(arrays)
    assert {name: array.tobytes() for name, array in again.to_arrays().items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }
