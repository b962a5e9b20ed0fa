"""`dlfh encode`: encode items into a file of codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlfh.cli.options import ItemOptions, OutputOptions, argument, load_encoder, option, parse_pairs
from dlfh.errors import InputError

_SUFFIXES = (".npz", ".npy", ".mat")


def encode(
    *,
    model: Path = argument("Folder of a model or a collection.", "MODEL"),
    items: ItemOptions,
    output: Path = option(
        "Output file: .npz, .mat, or .npy for a single modality. A name ending in .parquet is a folder, written block "
        "by block.",
        "--output",
        "-o",
        default=...,
    ),
    options: OutputOptions,
    real: bool = option("Write real-valued projections, whose signs are the codes.", default=False),
    cluster: str | None = option(
        "Encode blocks on a Dask cluster: the scheduler's address, or local for processes on this machine."
    ),
) -> None:
    """Encode items with the hash functions of a model, in each modality that they have.

    The file holds an array of packed codes (uint8) for each modality, and the item ids of its rows under NAME_ids. A
    .npy file holds the codes alone.

    Vectors that do not fit in memory (.parquet files or folders, .npy, .h5, .zarr) are encoded block by block into a
    folder of Parquet files, in row order. An interrupted run continues when it is started again.

    [b]Examples[/b]
    $ dlfh encode model/ new.csv --text caption -o codes.npz
    $ dlfh encode model/ --vectors image=features.npy -o codes.npy
    $ dlfh encode model/ data.parquet/ -o codes.parquet          [dim](columns named after the modalities)[/dim]
    $ dlfh encode model/ data.parquet/ --vectors image=clip -o codes.parquet --cluster tcp://10.0.0.1:8786
    """
    import numpy as np

    from dlfh.datasets import write_arrays

    suffix = output.suffix.lower()
    if suffix == ".parquet":
        _encode_blocks(model, items, output, real, cluster, options)
        return
    if cluster is not None:
        raise InputError(f"--cluster requires an output folder such as codes.parquet, got {output}")
    if suffix not in _SUFFIXES:
        raise InputError(f"cannot write codes to {output}: the name must end in {', '.join(_SUFFIXES)} or .parquet")
    options.check([model, *items.inputs()], output)
    encoder = load_encoder(model, options.verbose)
    read = items.read(encoder.modalities_, outputs=[output, options.problem_file])
    if suffix == ".npy" and len(read.modalities) != 1:
        raise InputError(f"a .npy file holds one modality but the items have {len(read.modalities)}: write a .npz file")
    vectors = encoder.featurize_items(read)
    problems = [*read.problems, *vectors.problems]
    counts = {name: matrix.shape[0] for name, matrix in vectors.matrices.items() if matrix.shape[0]}
    arrays: dict[str, Any] = {}
    for name in counts:
        compute = encoder.model_.project if real else encoder.model_.encode
        arrays[name] = compute(name, vectors.matrices[name])
        if suffix != ".npy":
            arrays[f"{name}_ids"] = np.array([read.ids[row] for row in vectors.positions[name]])
    if not arrays:
        raise InputError(f"no item could be encoded: {problems[0]}")
    write_arrays(output, arrays, overwrite=options.overwrite)
    message = f"{output}: " + ", ".join(f"{number:,} {name} codes" for name, number in counts.items())
    options.report(message, {"file": str(output), "codes": counts}, problems)


def _encode_blocks(
    model: Path, items: ItemOptions, output: Path, real: bool, cluster: str | None, options: OutputOptions
) -> None:
    from dlfh._persistence.outputs import check_not_input
    from dlfh._validation import check_features
    from dlfh.blocks.base import Blocks
    from dlfh.blocks.opening import in_one_block
    from dlfh.collection.block_codes import encode_blocks
    from dlfh.datasets.arrays import open_matrix

    if output.exists() and not output.is_dir():
        raise InputError(f"cannot write {output}: block-wise codes need a folder, but this is a file")
    if not output.absolute().parent.is_dir():
        raise InputError(f"cannot write {output}: the folder {output.absolute().parent} does not exist")
    for name in ("table", "id", "image", "text", "labels"):
        if getattr(items, name) is not None:
            raise InputError(f"--{name} does not apply to block-wise encoding, which takes vectors in row order")
    encoder = load_encoder(model)
    places = _vector_places(items, encoder.modalities_)
    check_not_input(output, [model, *(path for path, _ in places.values())])
    for name in places:
        if encoder.featurizer(name).takes != "vectors":
            raise InputError(f"modality {name!r} does not take vectors, and block-wise encoding takes only vectors")
    opened = {name: open_matrix(path, part) for name, (path, part) in places.items()}
    features = {
        name: matrix if isinstance(matrix, Blocks) else in_one_block(check_features(matrix, name), name)
        for name, matrix in opened.items()
    }
    leader, *_ = features.values()
    features = {name: blocks.split_like(leader) for name, blocks in features.items()}
    sources = {name: path for name, (path, _) in places.items()}
    chosen: dict[str, Any] = {"overwrite": options.overwrite, "show_progress": options.verbose}
    done = encode_blocks(encoder.model_, features, output, sources=sources, real=real, cluster=cluster, **chosen)
    resumed = f", {done.n_before} of them from an earlier run" if done.n_before else ""
    blocks = "1 block" if done.n_blocks == 1 else f"{done.n_blocks:,} blocks"
    message = f"{output}: {done.n_rows:,} codes for {', '.join(features)} in {blocks}{resumed}"
    codes = dict.fromkeys(features, done.n_rows)
    options.report(message, {"folder": str(output), "codes": codes, "blocks": done.n_blocks})


def place_of(value: str) -> tuple[Path, str | None]:
    """Split FILE:NAME into the file or folder and the variable or column; NAME is optional."""
    file, _, part = value.rpartition(":")
    return (Path(file), part) if file and not Path(value).exists() else (Path(value), None)


def _vector_places(items: ItemOptions, modalities: tuple[str, ...]) -> dict[str, tuple[Path, str | None]]:
    from dlfh.datasets.arrays import matrix_names

    pairs, source = parse_pairs(items.vectors, "--vectors"), items.source
    columns = [] if source is None else matrix_names(source)
    if not pairs and source is not None:
        named: dict[str, tuple[Path, str | None]] = {name: (source, name) for name in modalities if name in columns}
        if not named:
            expected = f"named after a modality of the model ({', '.join(modalities)})"
            raise InputError(f"{source} has no vectors {expected}: use --vectors NAME=COLUMN")
        return named
    if not pairs:
        raise InputError("no input: name a file, or vectors with --vectors NAME=FILE")
    return {
        name: (source, value) if source is not None and value in columns else place_of(value)
        for name, value in pairs.items()
    }
