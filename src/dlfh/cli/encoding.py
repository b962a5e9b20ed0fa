"""`dlfh encode`: codes of items, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dlfh.cli.options import AsJson, ItemOptions, Overwrite, ProblemFile, Quiet, shows_progress, with_options
from dlfh.cli.printing import report

__all__ = ["encode"]

_SUFFIXES = (".npz", ".npy", ".mat")


@with_options(items=ItemOptions)
def encode(
    model: Annotated[Path, typer.Argument(help="Folder of a model, or of a collection.", show_default=False)],
    items: ItemOptions,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .npz, .mat, or .npy for one modality; or a folder, .parquet, block by block.",
            show_default=False,
        ),
    ],
    real: Annotated[bool, typer.Option("--real", help="Write the real values whose signs are the codes.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Encode blocks on a Dask cluster, by its scheduler's address, or on one of processes here: local.",
            show_default=False,
        ),
    ] = None,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Encode items by the hash functions of a model, in each modality that they have.

    The file gets an array of packed codes (uint8) for each modality under its name, and the ids of its rows under
    NAME_ids; a .npy file has the codes alone.

    Vectors that do not fit in memory (.parquet files or folders, .npy, .h5, .zarr) are encoded block by block into a
    folder of Parquet files, whose rows are in the order of the data. Run again what was stopped, and it goes on.

    [b]Examples[/b]

    $ dlfh encode model/ new.csv --text caption -o codes.npz

    $ dlfh encode model/ --vectors image=features.npy -o codes.npy

    $ dlfh encode model/ data.parquet/ -o codes.parquet          [dim](columns that are named as modalities)[/dim]

    $ dlfh encode model/ data.parquet/ --vectors image=clip -o codes.parquet --cluster tcp://10.0.0.1:8786
    """
    import numpy as np

    from dlfh._persistence.outputs import check_outputs
    from dlfh.cli.models import load_encoder
    from dlfh.datasets import write_arrays
    from dlfh.errors import InputError

    suffix = output.suffix.lower()
    if suffix == ".parquet":
        _encode_blocks(model, items, output, real, cluster, overwrite, as_json=as_json, quiet=quiet)
        return
    if cluster is not None:
        raise InputError(f"a cluster writes a folder of Parquet files, such as codes.parquet, and not {output}")
    if suffix not in _SUFFIXES:
        raise InputError(f"cannot write codes to {output}: its name should end in {', '.join(_SUFFIXES)} or .parquet")
    outputs = [output, problem_file]
    check_outputs(outputs, [model, *items.inputs()], overwrite=overwrite)
    encoder = load_encoder(model, shows_progress(quiet, as_json))
    read = items.read(encoder.modalities_, outputs=outputs)
    if suffix == ".npy" and len(read.modalities) != 1:
        raise InputError(
            f"a .npy file holds one modality and the items have {len(read.modalities)}: write an .npz file"
        )
    vectors = encoder.describe(read)
    problems = [*read.problems, *vectors.problems]
    arrays: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, matrix in vectors.matrices.items():
        if not matrix.shape[0]:
            continue
        arrays[name] = encoder.model_.project(name, matrix) if real else encoder.model_.encode(name, matrix)
        counts[name] = matrix.shape[0]
        if suffix != ".npy":
            arrays[f"{name}_ids"] = np.array([read.ids[row] for row in vectors.positions[name]])
    if not arrays:
        raise InputError(f"nothing could be encoded: {problems[0]}")
    write_arrays(output, arrays, overwrite=overwrite)
    report(
        f"{output}: " + ", ".join(f"{number:,} codes of {name}" for name, number in counts.items()),
        {"file": str(output), "codes": counts},
        problems,
        as_json=as_json,
        problem_file=problem_file,
        overwrite=overwrite,
    )


def _encode_blocks(
    model: Path,
    items: ItemOptions,
    output: Path,
    real: bool,
    cluster: str | None,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Encode vectors that are read by blocks into a folder."""
    from dlfh._persistence.outputs import check_not_read
    from dlfh.blocks import open_blocks
    from dlfh.cli.models import load_encoder
    from dlfh.collection.block_codes import encode_blocks
    from dlfh.errors import InputError

    if output.exists() and not output.is_dir():
        raise InputError(f"cannot write {output}: codes of blocks go to a folder, and it is a file")
    if not output.absolute().parent.is_dir():
        raise InputError(f"cannot write {output}: there is no folder {output.absolute().parent}")
    for option in ("table", "id", "image", "text", "labels"):
        if getattr(items, option) is not None:
            raise InputError(f"codes in a folder are of vectors, which have their order alone: leave --{option} out")
    encoder = load_encoder(model)
    places = _places(items, encoder.modalities_)
    check_not_read(output, [model, *(path for path, _ in places.values())])
    for name in places:
        if name not in encoder.modalities_:
            raise InputError(f"unknown modality {name!r}: the model has {', '.join(encoder.modalities_)}")
        if encoder.featurizers_[name].takes != "vectors":
            raise InputError(f"modality {name!r} is not one of vectors, and by blocks only vectors are encoded")
    features = {name: open_blocks(path, part) for name, (path, part) in places.items()}
    leader, *_ = features.values()
    features = {name: own.cut_like(leader) for name, own in features.items()}
    done = encode_blocks(
        encoder.model_,
        features,
        output,
        sources={name: path for name, (path, _) in places.items()},
        real=real,
        cluster=cluster,
        overwrite=overwrite,
        show_progress=shows_progress(quiet, as_json),
    )
    before = f", {done.n_before} of which were there" if done.n_before else ""
    blocks = "1 block" if done.n_blocks == 1 else f"{done.n_blocks:,} blocks"
    report(
        f"{output}: {done.n_rows:,} codes of {', '.join(features)} in {blocks}{before}",
        {"folder": str(output), "codes": dict.fromkeys(features, done.n_rows), "blocks": done.n_blocks},
        [],
        as_json=as_json,
        problem_file=None,
    )


def _places(items: ItemOptions, modalities: tuple[str, ...]) -> dict[str, tuple[Path, str | None]]:
    """Return the file or folder of each modality's vectors, and which part of it they are."""
    from dlfh.blocks import matrix_names
    from dlfh.cli.options import parse_pairs, place_of
    from dlfh.errors import InputError

    pairs, source = parse_pairs(items.vectors, "--vectors"), items.source
    own = [] if source is None else matrix_names(source)
    if not pairs and source is not None:
        found = {name: (source, name) for name in modalities if name in own}
        if not found:
            raise InputError(
                f"{source} has no vectors named as a modality of the model ({', '.join(modalities)}): name some with "
                "--vectors NAME=COLUMN"
            )
        return dict(found)
    if not pairs:
        raise InputError("nothing to encode: name a file, or vectors with --vectors NAME=FILE")
    return {
        name: (source, value) if source is not None and value in own else place_of(value)
        for name, value in pairs.items()
    }
