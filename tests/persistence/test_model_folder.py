"""Models are saved exactly and atomically."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlfh
from dlfh import DLFH, InputError, ModelError, load
from dlfh._persistence.model_folder import config_checksum, read_model, write_model
from dlfh.datasets import Paired

Split = tuple[Paired, Paired]


@pytest.fixture(scope="module")
def fitted(paired: Split) -> DLFH:
    train, _ = paired
    model = DLFH(20, random_state=3, max_iter=10, track_objective=True, hash_function="linear")
    assert model.fit(train.modalities, train.labels).label_model_ is not None  # calibrated once for all tests
    return model


@pytest.fixture
def model(fitted: DLFH) -> DLFH:
    return copy.deepcopy(fitted)


@pytest.fixture
def folder(model: DLFH, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_loaded_model_encodes_bit_for_bit_the_same(model: DLFH, folder: Path, paired: Split) -> None:
    _, test = paired
    loaded = load(folder)
    assert isinstance(loaded, DLFH)
    assert loaded.get_params() == model.get_params()
    assert loaded.modalities_ == model.modalities_
    assert loaded.n_iter_ == model.n_iter_
    np.testing.assert_array_equal(loaded.objective_, model.objective_)
    for name in ("image", "text"):
        np.testing.assert_array_equal(loaded.codes_[name], model.codes_[name])
        features = test.modalities[name]
        np.testing.assert_array_equal(loaded.project(name, features), model.project(name, features))
        np.testing.assert_array_equal(loaded.encode(name, features), model.encode(name, features))


def test_saving_a_loaded_model_writes_the_same_files(folder: Path, tmp_path: Path) -> None:
    load(folder).save(tmp_path / "again")
    again = tmp_path / "again"
    assert visible(folder) == visible(again)
    assert all((folder / name).read_bytes() == (again / name).read_bytes() for name in visible(folder))


def test_a_model_loads_in_another_process(folder: Path, model: DLFH, paired: Split, tmp_path: Path) -> None:
    features = paired[1].modalities["image"]
    np.save(tmp_path / "features.npy", features)
    program = (
        "import sys, numpy as np; from dlfh import load;"
        "codes = load(sys.argv[1]).encode('image', np.load(sys.argv[2])); np.save(sys.argv[3], codes)"
    )
    command = [sys.executable, "-c", program, str(folder), str(tmp_path / "features.npy"), str(tmp_path / "codes.npy")]
    subprocess.run(command, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), model.encode("image", features))


def test_saving_replaces_an_older_model_and_leaves_nothing_else(folder: Path, paired: Split) -> None:
    train, _ = paired
    other = DLFH(8, random_state=0, max_iter=2, hash_function="linear").fit(train.modalities, train.labels)
    other.save(folder)
    assert load(folder).n_bits == 8
    assert len(visible(folder)) == 2


def test_names_with_slashes_and_numpy_parameters_survive(paired: Split, tmp_path: Path) -> None:
    train, test = paired
    renamed = {"an/image é": train.modalities["image"], "hash/text": train.modalities["text"]}
    of_numpy: Any = {"n_bits": np.int64(8), "scale": np.float32(4), "random_state": np.random.default_rng(0)}
    model = DLFH(**of_numpy).fit(renamed, train.labels)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.modalities_ == ("an/image é", "hash/text")
    assert loaded.get_params()["random_state"] is None
    features = test.modalities["image"]
    np.testing.assert_array_equal(loaded.encode("an/image é", features), model.encode("an/image é", features))


@pytest.mark.parametrize("crash_at", range(6))
def test_a_crash_while_saving_leaves_the_old_model_or_the_new_one(
    folder: Path, model: DLFH, paired: Split, crash_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _ = paired
    new = DLFH(8, random_state=0, max_iter=2, hash_function="linear").fit(train.modalities, train.labels)
    calls = 0

    def crashing(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > crash_at:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, crashing(getattr(os, name)))
    with contextlib.suppress(KeyboardInterrupt):
        new.save(folder)
    monkeypatch.undo()
    assert load(folder).n_bits in (8, 20)
    assert load(folder).n_bits == (20 if crash_at < 5 else 8)
    assert {path.name for path in folder.iterdir()} - visible(folder) == {".lock"}
    new.save(folder)
    assert load(folder).n_bits == 8
    assert len(visible(folder)) == 2


KILLED = """
import os, sys
from dlfh import load
model = load(sys.argv[1])
real, calls = os.replace, 0
def replace(*arguments):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
    real(*arguments)
os.replace = replace
model.codes_ = {name: codes[:100] for name, codes in model.codes_.items()}
model.save(sys.argv[1])
"""


@pytest.mark.parametrize("at", [1, 2])
def test_a_killed_save_leaves_the_old_model(folder: Path, model: DLFH, at: int) -> None:
    result = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(at)], check=False)
    assert result.returncode == -9
    assert len(load(folder).codes_["image"]) == 600
    assert list(folder.glob(".saving-*"))
    model.save(folder)
    assert len(load(folder).codes_["image"]) == 600
    assert not list(folder.glob(".saving-*"))
    assert len(visible(folder)) == 2


def test_a_crash_in_the_first_save_does_not_block_the_folder(
    model: DLFH, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.replace, []

    def replace(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / "model")
    monkeypatch.undo()
    assert not (tmp_path / "model").exists()
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").n_bits == 20


SAVER = """
import sys
from dlfh import load
model = load(sys.argv[1])
for turn in range(40):
    model.codes_ = {name: codes[: 100 + turn + int(sys.argv[2])] for name, codes in model.codes_.items()}
    model.save(sys.argv[1])
"""


def test_concurrent_saves_and_loads_always_find_a_complete_model(folder: Path) -> None:
    savers = [subprocess.Popen([sys.executable, "-c", SAVER, str(folder), str(50 * i)]) for i in range(3)]
    loads = 0
    while any(saver.poll() is None for saver in savers):
        load(folder)
        loads += 1
    assert [saver.returncode for saver in savers] == [0, 0, 0]
    assert loads > 0
    load(folder)
    assert len(visible(folder)) == 2


def test_files_follow_the_umask(model: DLFH, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        model.save(tmp_path / "model")
    finally:
        os.umask(before)
    for name in visible(tmp_path / "model"):
        assert (tmp_path / "model" / name).stat().st_mode & 0o777 == 0o644


def test_a_model_whose_bits_were_changed_is_not_saved(model: DLFH, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not have codes of 16 bits: was n_bits changed"):
        model.set_params(n_bits=16).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def rewrite_arrays(folder: Path, changes: dict[str, Any]) -> None:
    config, stored = read_model(folder)
    for name, array in changes.items():
        if array is None:
            del stored[name]
        else:
            stored[name] = array
    write_model(folder, {k: v for k, v in config.items() if k not in ("arrays", "format")}, stored)


@pytest.mark.parametrize(
    "changes",
    [
        {"hash/image/offset": np.zeros(1)},
        {"hash/image/offset": np.zeros(20, np.float32)},
        {"hash/image/weights": np.zeros(20, np.float32)},
        {"hash/image/ridge": np.zeros(0)},
        {"hash/image/mean": None},
        {"codes/image": np.zeros(600, np.uint8)},
        {"codes/image": np.zeros((600, 3), np.int64)},
        {"fitted/flips_": None},
    ],
)
def test_crafted_arrays_are_refused(folder: Path, changes: dict[str, Any]) -> None:
    rewrite_arrays(folder, changes)
    with pytest.raises(ModelError, match="is damaged"):
        load(folder)


def test_arrays_cannot_replace_methods(folder: Path) -> None:
    rewrite_arrays(folder, {"fitted/encode": np.zeros(3)})
    assert callable(load(folder).encode)


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= changes
    (folder / "config.json").write_text(json.dumps(config | {"checksum": config_checksum(config)}))


def arrays(folder: Path) -> Path:
    (path,) = folder.glob("arrays-*.safetensors")
    return path


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no model at .*nowhere: the folder does not exist"):
        load(tmp_path / "nowhere")


def test_a_file_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    with pytest.raises(ModelError, match="a model is a folder, and this is a file"):
        load(tmp_path / "file")


def test_another_folder_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match=r"is not a model: it has no config\.json"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=r"is not a dlfh model: its config\.json was not written by dlfh"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(ModelError, match="is not a dlfh model"):
        load(tmp_path)


def test_truncated_files_are_detected(folder: Path) -> None:
    whole = arrays(folder).read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        arrays(folder).write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"is damaged: arrays-.* does not match its checksum"):
            load(folder)
    arrays(folder).write_bytes(whole)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text[: len(text) // 2])
    with pytest.raises(ModelError, match=r"is damaged: config\.json is not valid JSON"):
        load(folder)


def test_a_flipped_bit_is_found(folder: Path) -> None:
    content = bytearray(arrays(folder).read_bytes())
    content[-5] ^= 1
    arrays(folder).write_bytes(content)
    with pytest.raises(ModelError, match="does not match its checksum"):
        load(folder)


def test_missing_arrays_are_detected(folder: Path) -> None:
    arrays(folder).unlink()
    with pytest.raises(ModelError, match=r"is incomplete: arrays-.* is missing"):
        load(folder)


def test_huge_arrays_are_refused_before_they_are_read(folder: Path) -> None:
    os.truncate(arrays(folder), 200 << 30)  # sparse: it takes no space on the disk
    with pytest.raises(
        InputError, match=r"arrays-.* has 214,748,364,800 bytes, .* set DLFH_MAX_BYTES to raise the limit"
    ):
        load(folder)


def test_a_changed_configuration_is_detected(folder: Path) -> None:
    text = (folder / "config.json").read_text()
    assert '"scale": 8.0' in text
    (folder / "config.json").write_text(text.replace('"scale": 8.0', '"scale": 9.0'))
    with pytest.raises(ModelError, match=r"is damaged: config\.json does not match its checksum"):
        load(folder)


def test_a_newer_format_version_is_refused(folder: Path) -> None:
    edit_config(folder, format_version=99)
    with pytest.raises(ModelError, match="has format version 99, but this version of dlfh reads up to 1: upgrade dlfh"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "Unheard"}, "unknown method 'Unheard': import the module"),
        ({"method": "CrossModalHasher"}, "unknown method 'CrossModalHasher'"),
        ({"parameters": {"n_bits": 16}}, "is damaged: modality 'image' does not have codes of 16 bits"),
        ({"parameters": {"n_bits": -1}}, "is damaged: n_bits must be an integer"),
        ({"parameters": {"colour": "red"}}, "is damaged"),
        ({"parameters": None}, "is damaged"),
        ({"modalities": ["image", "sound"]}, "is damaged"),
        ({"modalities": 3}, "is damaged"),
        ({"arrays": None}, r"is damaged: config\.json does not name an array file"),
        ({"arrays": {"file": "../../etc/passwd", "sha256": ""}}, "names an invalid array file"),
        ({"arrays": {"file": "..", "sha256": ""}}, "names an invalid array file"),
        ({"arrays": {"file": "arrays-\0.safetensors", "sha256": ""}}, "names an invalid array file"),
        ({"format_version": "1"}, "is damaged: its format version is '1'"),
        ({"format_version": 0}, "is damaged: its format version is 0"),
        ({"format_version": -1}, "is damaged: its format version is -1"),
        ({"format_version": True}, "is damaged: its format version is True"),
    ],
)
def test_edited_configurations_are_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ModelError, match=message):
        load(folder)


def test_a_model_is_not_saved_over_other_files(model: DLFH, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    with pytest.raises(ModelError, match="it is a file, not a folder"):
        model.save(tmp_path / "file")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=r"its config\.json was not written by dlfh"):
        model.save(tmp_path / "bert")
    assert "bert" in (tmp_path / "bert" / "config.json").read_text()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(ModelError, match="the folder is not empty and contains no model"):
        model.save(tmp_path / "photos")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


@pytest.mark.parametrize("content", [b"port = 8080", b"\xff\xfe", b"[1, 2]", b'{"port": 8080}', b"", b"[" * 100_000])
def test_a_configuration_of_another_program_is_never_replaced(model: DLFH, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    (tmp_path / "arrays-0123456789abcdef.safetensors").write_bytes(b"not ours either")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ModelError, match=r"cannot save a model in .*: its config\.json was not written by dlfh"):
        model.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_is_replaced_only_with_overwrite(model: DLFH, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ModelError, match=r"the folder contains a model"):
        model.save(folder, overwrite=False)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    model.save(folder)
    model.save(folder.parent / "new", overwrite=False)


def test_only_leftover_files_of_models_are_deleted(model: DLFH, folder: Path) -> None:
    others = ["arrays-embeddings.safetensors", "arrays-0123.safetensors", ".saving-notes", ".saving-0123456789abcdef"]
    own = ["arrays-0123456789abcdef.safetensors", ".saving-0123456789abcdef.dlfh"]
    for name in others + own:
        (folder / name).write_text(name)
    model.save(folder)
    assert all((folder / name).read_text() == name for name in others)
    assert not any((folder / name).exists() for name in own)
    (folder.parent / "new").mkdir()
    (folder.parent / "new" / "arrays-embeddings.safetensors").write_text("mine")
    with pytest.raises(ModelError, match="the folder is not empty and contains no model"):
        model.save(folder.parent / "new")


FULL = """
import resource, signal, sys
from dlfh import load
model = load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    model.save(sys.argv[2])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of file sizes are those of Linux")
def test_a_full_disk_raises_model_error_and_leaves_the_old_model(folder: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for target in (folder, tmp_path / "new"):
        command = [sys.executable, "-c", FULL, str(folder), str(target)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert said == f"ModelError cannot save a model in {target}: File too large\n"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "mkdir"])
def test_a_read_only_disk_raises_model_error(
    model: DLFH, tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ModelError, match=r"cannot save a model in .*new: Read-only file system"):
        model.save(tmp_path / "a" / "new")
    monkeypatch.undo()
    assert not (tmp_path / "a").exists()


def test_a_save_succeeds_if_leftovers_cannot_be_deleted(
    model: DLFH, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "arrays-0123456789abcdef.safetensors").mkdir()  # a folder is not unlinked
    model.save(folder)
    monkeypatch.setattr(os, "listdir", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    model.save(folder)
    monkeypatch.undo()
    assert load(folder).n_bits == 20


def test_the_process_keeps_its_umask(model: DLFH, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask is of the whole process"))
    model.save(tmp_path / "model")


def test_new_folders_and_names_are_flushed_to_disk(
    model: DLFH, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed, real = set(), os.fsync

    def fsync(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    model.save(tmp_path / "a" / "b" / "model")
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "model"):
        assert folder.stat().st_ino in flushed


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the numbers and words of a configuration are."""
    if not isinstance(value, (dict, list)):
        return [place]
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, each in pairs for leaf in leaves(each, (*place, key))]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("poison", [10**400, -(10**90), 1e308, float("nan"), nested(500), None, {}, "x" * 1000])
def test_extreme_values_in_a_configuration_are_refused_or_harmless(folder: Path, poison: Any, paired: Split) -> None:
    text = (folder / "config.json").read_text()
    refused = 0
    for place in leaves(json.loads(text)):
        config = json.loads(text)
        *path, last = place
        inner = config
        for key in path:
            inner = inner[key]
        inner[last] = poison
        (folder / "config.json").write_text(json.dumps(config | {"checksum": config_checksum(config)}))
        try:
            load(folder).encode("text", paired[1].modalities["text"])
        except (ModelError, InputError):
            refused += 1
    assert refused > 5


def test_arrays_of_types_that_numpy_lacks_are_refused(folder: Path) -> None:
    header = json.dumps({"codes/image": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    payload = len(header).to_bytes(8, "little") + header + bytes(4)
    arrays(folder).write_bytes(payload)
    file = {"file": arrays(folder).name, "sha256": hashlib.sha256(payload).hexdigest()}
    edit_config(folder, arrays=file)
    with pytest.raises(ModelError, match="is damaged: it contains arrays of type BF16"):
        load(folder)


def test_pipes_and_devices_are_not_models(folder: Path) -> None:
    for name in ("config.json", arrays(folder).name):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(ModelError, match="cannot be read"):
            load(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(content)


def test_saving_in_a_new_or_empty_folder(model: DLFH, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "new" / "one"):
        model.save(folder)
        assert load(folder).n_bits == 20


def test_files_state_their_format(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["dlfh_version"] == dlfh.__version__
    assert config["method"] == "DLFH"
    assert config["parameters"]["n_bits"] == 20
