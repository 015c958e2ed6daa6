"""Hierarchical clusters of items by their similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    import numpy.typing as npt


def average_linkage(similarities: npt.NDArray[np.float64], least: float) -> list[int]:
    """Return the number of the cluster of each item: clusters are joined while their mean similarity is at least `least`.

    Args:
        similarities: of each pair of items, symmetric, in [0, 1].
        least: in [0, 1].

    >>> average_linkage(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]]), 0.5)
    [1, 1, 2]

    Ref: R. Sokal and C. Michener, A statistical method for evaluating systematic relationships, 1958 (UPGMA).
    """
    if len(similarities) <= 1:
        return [1] * len(similarities)
    distances = 1.0 - similarities
    np.fill_diagonal(distances, 0.0)
    hierarchy = scipy.cluster.hierarchy
    tree = hierarchy.linkage(scipy.spatial.distance.squareform(distances, checks=False), method="average")
    return [int(number) for number in hierarchy.fcluster(tree, 1.0 - least, criterion="distance")]
