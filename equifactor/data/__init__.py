"""Public collections of models with known answers, for evaluation and training.

The models are not part of the package but in a folder: one made by `download`, one like it (`index.json` beside the
models), or any folder of model files, whose answers are then unknown.

collections.py  the instances of a folder
public.py       `download`: the public collections, checked against recorded hashes
fetch.py        files of public repositories, over https or from a local copy
uai.jsonl       the list of public models: sources, hashes, known answers
"""

from equifactor.data.collections import Instance, collection, collection_names
from equifactor.data.public import download

__all__ = ["Instance", "collection", "collection_names", "download"]
