"""One training step of an encoder–decoder, ours against PyTorch eager, on the same weights and the same data.

    python benchmarks/train_step.py

Both run in one process, one thread each, float32, no dropout; steps are interleaved, so that whatever else the machine
does meets both. The losses of every step must agree to 1e-4, or nothing is reported. PyTorch is the CPU build named in
the extra `bench`.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy is imported

import argparse
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch.nn import functional as F

import tinygrad_attn as ta
from benchmarks.torch_model import TorchTransformer
from tinygrad_attn.memory import keep_freed_memory
from tinygrad_attn.optim import Adam
from transformer import Transformer, TransformerConfig

BATCH, LENGTH, VOCABULARY = 16, 64, 256
D_MODEL, HEADS, D_FF, LAYERS = 128, 4, 512, 2
RATE = 1e-4  # small, since Adam turns the rounding of a gradient near zero into a whole step of either sign


def build() -> tuple[Transformer, TorchTransformer]:
    """Our model, and PyTorch's with the same weights under the same names."""
    config = TransformerConfig(
        source_vocab=VOCABULARY,
        target_vocab=VOCABULARY,
        d_model=D_MODEL,
        num_heads=HEADS,
        d_ff=D_FF,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        dropout=0.0,
        max_length=LENGTH,
    )
    ours = Transformer(config, rng=np.random.default_rng(0))
    theirs = TorchTransformer(VOCABULARY, D_MODEL, HEADS, D_FF, LAYERS, LENGTH)
    known = theirs.state_dict()
    weights = {name: torch.from_numpy(array.copy()) for name, array in ours.state_dict().items() if name in known}
    theirs.load_state_dict(weights)  # strict: a parameter without a counterpart is an error
    return ours, theirs


def make_steps(ours: Transformer, theirs: TorchTransformer) -> tuple[Callable[[], float], Callable[[], float]]:
    """One step of each as a function that returns the loss; both draw the same batches."""
    draws = [np.random.default_rng(1), np.random.default_rng(1)]
    our_adam = Adam(ours.parameters(), lr=RATE)
    their_adam = torch.optim.Adam(theirs.parameters(), lr=RATE)

    def our_step() -> float:
        src, tgt, wanted = draws[0].integers(0, VOCABULARY, (3, BATCH, LENGTH))
        loss = ta.cross_entropy(ours(src, tgt), wanted)
        loss.backward(retain_graph=False)
        our_adam.step()
        our_adam.zero_grad()
        return loss.item()

    def their_step() -> float:
        src, tgt, wanted = torch.from_numpy(draws[1].integers(0, VOCABULARY, (3, BATCH, LENGTH)))
        loss = F.cross_entropy(theirs(src, tgt).flatten(0, 1), wanted.flatten())
        loss.backward()
        their_adam.step()
        their_adam.zero_grad()
        return loss.item()

    return our_step, their_step


def timed(step: Callable[[], float]) -> tuple[float, float]:
    """Milliseconds of one call, and what it returned."""
    start = time.perf_counter()
    loss = step()
    return (time.perf_counter() - start) * 1e3, loss


def main() -> int:
    """Run the comparison and print one table; 1 if the losses disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="steps of each (default 60, after 5 unmeasured)")
    parser.add_argument("--default-memory", action="store_true", help="leave the C library's thresholds alone")
    args = parser.parse_args()
    torch.set_num_threads(1)
    kept = not args.default_memory and keep_freed_memory()
    our_step, their_step = make_steps(*build())
    ours: list[float] = []
    theirs: list[float] = []
    faults = [0, 0]
    worst = 0.0
    for number in range(args.rounds + 5):
        counted = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
        our_time, our_loss = timed(our_step)
        counted.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        their_time, their_loss = timed(their_step)
        counted.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        worst = max(worst, abs(our_loss - their_loss))
        if number >= 5:
            ours.append(our_time)
            theirs.append(their_time)
            faults[0] += counted[1] - counted[0]
            faults[1] += counted[2] - counted[1]
    if worst > 1e-4:
        print(f"the losses differ by {worst:.2e}: not the same computation, nothing to compare", file=sys.stderr)
        return 1
    rounds = max(1, args.rounds)
    sizes = f"d {D_MODEL}, {HEADS} heads, ff {D_FF}, {LAYERS}+{LAYERS} layers"
    print(f"one training step: batch {BATCH}, lengths {LENGTH}, {sizes}")
    print(f"NumPy {np.__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}, 1 thread each")
    print(f"freed memory kept: {'yes' if kept else 'no'}; losses agree to {worst:.1e} over {rounds + 5} steps\n")
    print(f"{'':16}{'median ms':>10}{'fastest':>10}{'slowest':>10}{'page faults':>13}")
    for name, times, count in (("tinygrad-attn", ours, faults[0]), ("PyTorch eager", theirs, faults[1])):
        middle = statistics.median(times)
        print(f"{name:16}{middle:10.1f}{min(times):10.1f}{max(times):10.1f}{count // rounds:13,d}")
    print(f"\nratio of medians: {statistics.median(ours) / statistics.median(theirs):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
