"""Items, as an index returns them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Item(NamedTuple):
    """An item of an index.

    ``codes`` has the packed code of each modality that the item has. ``states`` has ``"learned"``, ``"hashed"`` or
    ``"absent"`` for every modality of the index.
    """

    id: str
    metadata: dict[str, Any] | None
    codes: dict[str, npt.NDArray[np.uint8]]
    states: dict[str, str]
