"""The buffers of texts in Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def text_buffers(
    texts: pa.Array,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """The offsets and bytes of a text array. The offsets point into the bytes."""
    wide = pa.types.is_large_string(texts.type)
    _, places, content = texts.buffers()
    if places is None or not len(texts):
        return np.zeros(1, np.int64 if wide else np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(places, np.int64 if wide else np.int32)
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    part = offsets[texts.offset : texts.offset + len(texts) + 1]
    return part, data[: int(part[-1])]
