"""Backpropagation through one attention head, in numbers that a pencil can follow (docs/derivations.md, §4)."""

import math

import numpy as np

import tinygrad_attn as ta

np.set_printoptions(precision=4, suppress=True)

# One query and two keys, chosen so that the scores are 0 and ln 3.
query = ta.Tensor([[1.0, 0.0]], dtype=np.float64, requires_grad=True, name="query")
key = ta.Tensor([[0.0, 0.0], [math.log(3.0), 0.0]], dtype=np.float64, requires_grad=True, name="key")
value = ta.Tensor([[4.0, 0.0], [0.0, 4.0]], dtype=np.float64, requires_grad=True, name="value")

with ta.keep_grads():  # keep every gradient on the way, not only those of the leaves
    scores = query @ key.T  # (1, 2)
    weights = ta.softmax(scores)  # (1, 2)
    output = weights @ value  # (1, 2)
    output.backward([[1.0, 0.0]])

print("forward:  scores", scores.numpy()[0], " weights", weights.numpy()[0], " output", output.numpy()[0])
print("backward: d weights", weights.grad[0], " d scores", scores.grad[0])
print("d query\n", query.grad, "\nd key\n", key.grad, "\nd value\n", value.grad)

# The rules by hand, and the checker's opinion.
p, d_p = weights.numpy(), np.array([[1.0, 0.0]]) @ value.numpy().T
d_s = p * (d_p - np.sum(p * d_p, axis=-1, keepdims=True))
print("by hand:  d scores", d_s[0], " sum", d_s.sum())
print(ta.gradcheck(lambda q, k, v: ta.softmax(q @ k.T) @ v, query, key, value))
