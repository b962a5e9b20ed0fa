"""CLIP embeddings of images and texts (Radford and others, 2021).

Needs PyTorch and transformers (``pip install "dlfh[clip]"``). A saved model contains the name of the CLIP model and a
hash of its weights, not the weights.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from dlfh._arrays import Singles
from dlfh._optional import require
from dlfh._validation import check_choice
from dlfh.errors import InputError
from dlfh.features.images import open_item
from dlfh.features.network import Network, NetworkFeaturizer, fingerprint_of, on_device
from dlfh.features.text import check_text


class Clip(NetworkFeaturizer):
    """Embeddings of images or texts by one tower of a CLIP model, normalised to length 1.

    Parameters
    ----------
    name_or_folder : str or path
        A folder with the model (``config.json``, weights, tokenizer, preprocessor), or its name on the Hugging Face
        hub, such as ``"openai/clip-vit-base-patch32"``, which is downloaded once.
    tower : {"image", "text"}, default "image"
        Type of the items: images (paths, bytes, PIL images or arrays) or strings.
    batch_size : int, default 32
        Items per forward pass.
    device : str, default "cpu"
        PyTorch device, such as "cuda".
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    fingerprint_ : str
        Hash of the tower's weights. A model loaded later under the same name must have the same one.

    Examples
    --------
    >>> images = Clip("openai/clip-vit-base-patch32")
    >>> texts = Clip("openai/clip-vit-base-patch32", tower="text")
    >>> texts.kind, texts.tower
    ('clip', 'text')
    """

    kind = "clip"

    @property
    def takes(self) -> Literal["texts", "images"]:  # type: ignore[override]
        return "images" if self.tower == "image" else "texts"

    def __init__(
        self,
        name_or_folder: str | os.PathLike[str],
        tower: Literal["image", "text"] = "image",
        *,
        batch_size: int = 32,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.name_or_folder = name_or_folder
        self.tower = tower
        self.batch_size = batch_size
        self.device = device
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.name_or_folder, (str, os.PathLike)) or not str(self.name_or_folder):
            raise InputError(f"name_or_folder must name a CLIP model, got {self.name_or_folder!r}")
        check_choice(self.tower, "tower", ("image", "text"))

    def _load(self) -> Network:
        torch = require("torch", "CLIP", "clip")
        transformers = require("transformers", "CLIP", "clip")
        name = str(self.name_or_folder)
        if name.startswith((".", "~", os.sep)) or Path(name).exists():
            # Otherwise a mistyped folder would be searched on the hub.
            name = str(Path(name).expanduser())
            if not Path(name).is_dir():
                raise InputError(f"no CLIP model at {name}: no such folder")
        try:
            config = transformers.AutoConfig.from_pretrained(name)
            if config.model_type != "clip":
                raise InputError(f"{name} is a model of type {config.model_type!r}, not CLIP")
            model = transformers.CLIPModel.from_pretrained(name).float().eval()
            if self.tower == "text":
                kind = transformers.AutoTokenizer
            else:  # always with Pillow: torchvision resizes slightly differently
                kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
            preprocessor = kind.from_pretrained(name)
        except InputError:
            raise
        except Exception as error:  # errors of the hub, the disk and several parsers
            reason = " ".join(str(error).split())
            raise InputError(f"cannot load the CLIP model {name}: {reason[:300]}") from None
        model = on_device(torch, model, self.device)
        weights = model.state_dict().items()
        parts = ("text_model.", "text_projection.") if self.tower == "text" else ("vision_model.", "visual_projection.")
        # Position ids are counters, which only some versions save.
        fingerprint = fingerprint_of(
            (key, tensor) for key, tensor in weights if key.startswith(parts) and not key.endswith("position_ids")
        )
        called = f"the CLIP model {str(self.name_or_folder)!r}"
        return Network(called, model, preprocessor, int(config.projection_dim), fingerprint)

    def _read(self, item: Any, position: int, contents: dict[int, str]) -> Any:
        return open_item(item, position, contents) if self.tower == "image" else check_text(item, position)

    def _vectors(self, network: Network, values: list[Any]) -> Singles:
        torch = require("torch", "CLIP", "clip")
        if self.tower == "text":
            longest = network.model.config.text_config.max_position_embeddings
            inputs = network.preprocessor(
                values, padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
            compute = network.model.get_text_features
        else:
            inputs = network.preprocessor(images=values, return_tensors="pt")
            compute = network.model.get_image_features
        with torch.inference_mode():
            output = compute(**{name: tensor.to(self.device) for name, tensor in inputs.items()})
            # Newer versions return an object that also contains hidden states.
            return getattr(output, "pooler_output", output).float().cpu().numpy()
