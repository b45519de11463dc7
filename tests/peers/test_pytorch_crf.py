"""Chains against pytorch-crf: likelihoods, gradients of everything, and Viterbi paths."""

from __future__ import annotations

import pytest
import torch

from equifactor import ChainCRF

torchcrf = pytest.importorskip("torchcrf")
pytestmark = pytest.mark.peers


def test_it_gives_the_same_as_pytorch_crf() -> None:
    torch.manual_seed(0)
    theirs = torchcrf.CRF(7, batch_first=True).double()
    ours = ChainCRF(7).double()
    names = {"transitions": "transitions", "start": "start_transitions", "end": "end_transitions"}
    ours.load_state_dict({name: getattr(theirs, other).detach() for name, other in names.items()})
    emissions = torch.randn(16, 20, 7, dtype=torch.float64, requires_grad=True)
    tags = torch.randint(0, 7, (16, 20))
    mask = torch.arange(20) < torch.randint(1, 21, (16, 1))
    want = theirs(emissions, tags, mask=mask, reduction="none")
    got = ours(emissions, tags, mask)
    torch.testing.assert_close(got, want)
    weights = torch.randn(16, dtype=torch.float64)
    of_theirs = torch.autograd.grad((weights * want).sum(), [emissions, *(getattr(theirs, n) for n in names.values())])
    of_ours = torch.autograd.grad((weights * got).sum(), [emissions, *(getattr(ours, n) for n in names)])
    for x, y in zip(of_ours, of_theirs, strict=True):
        torch.testing.assert_close(x, y)
    paths = [[state for state in row if state >= 0] for row in ours.map(emissions, mask).tolist()]
    assert paths == theirs.decode(emissions, mask)
