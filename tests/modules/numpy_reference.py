"""The parts of the models written once more in NumPy: one sequence at a time, step by step."""

import numpy as np


def array(tensor):
    return tensor.detach().double().numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def softmax(x):
    """Over the last dimension."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def linear(module, x):
    return x @ array(module.weight).T + array(module.bias)


def lstm(module, steps):
    """`(tokens, input)` to `(tokens, hidden)`, of a `torch.nn.LSTM` of one layer."""
    weights = {name: array(value) for name, value in module.named_parameters()}
    hidden = memory = np.zeros(module.hidden_size)
    outputs = []
    for step in steps:
        gates = weights["weight_ih_l0"] @ step + weights["bias_ih_l0"]
        gates = gates + weights["weight_hh_l0"] @ hidden + weights["bias_hh_l0"]
        into, forget, new, out = np.split(gates, 4)
        memory = sigmoid(forget) * memory + sigmoid(into) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(memory)
        outputs.append(hidden)
    return np.stack(outputs)


def bilstm(module, steps):
    """`(tokens, input)` to `(tokens, 2 * hidden)`, of a `BiLstm` of one layer."""
    back = lstm(module.backward_layers[0], steps[::-1])[::-1]
    return np.concatenate([lstm(module.forward_layers[0], steps), back], axis=1)
