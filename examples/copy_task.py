"""The whole framework in use: a Transformer learns to say again what it has read, letter by letter."""

import time

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.optim import Adam, clip_grad_norm
from transformer import Transformer, TransformerConfig, generate
from transformer.tasks.copy import CopyTask

task = CopyTask()
source, target = task.source_tokenizer, task.target_tokenizer
config = TransformerConfig(
    source_vocab=len(source),
    target_vocab=len(target),
    d_model=32,
    num_heads=4,
    d_ff=64,
    encoder_layers=1,
    decoder_layers=1,
    norm_first=True,
)
model = Transformer(config, rng=np.random.default_rng(0))
optimizer = Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
rng, start = np.random.default_rng(1), time.perf_counter()

for step in range(1, 601):
    batch = task.sample(rng, batch_size=64)
    logits = model(batch.src, batch.tgt_in, src_lengths=batch.src_lengths)  # (batch, target_len, vocabulary)
    loss = ta.cross_entropy(logits, batch.tgt_out, ignore_index=target.pad_id)
    loss.backward(retain_graph=False)
    clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.4f}, {time.perf_counter() - start:.0f} s")

examples = task.held_out(200, seed=2)
ids, lengths = source.encode_batch([example.source for example in examples])
result = generate(
    model, ids, src_lengths=lengths, max_new_tokens=12,
    start_id=target.start_id, end_id=target.end_id, pad_id=target.pad_id,
)  # fmt: skip
answers = [target.decode(row) for row in result.ids]
right = sum(answer == example.target for answer, example in zip(answers, examples, strict=True))
print(f"{right} of {len(examples)} held-out words copied without a mistake; {examples[0].source!r} -> {answers[0]!r}")
