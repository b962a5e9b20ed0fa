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
        typer.Option("--output", "-o", help="File to write: .npz, .mat, or .npy for one modality.", show_default=False),
    ],
    real: Annotated[bool, typer.Option("--real", help="Write the real values whose signs are the codes.")] = False,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Encode items by the hash functions of a model, in each modality that they have.

    The file gets an array of packed codes (uint8) for each modality under its name, and the ids of its rows under
    NAME_ids; a .npy file has the codes alone.

    [b]Examples[/b]

    $ dlfh encode model/ new.csv --text caption -o codes.npz

    $ dlfh encode model/ --vectors image=features.npy -o codes.npy
    """
    import numpy as np

    from dlfh.cli.models import load_encoder
    from dlfh.datasets import write_arrays
    from dlfh.errors import InputError
    from dlfh.persistence._outputs import check_outputs

    suffix = output.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"cannot write codes to {output}: its name should end in {', '.join(_SUFFIXES)}")
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
