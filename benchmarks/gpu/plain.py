"""One side's clamped and free sweep with its gradient in plain PyTorch: gather and index_add.

What one would write without kernels of one's own. Answers are taken in blocks, since the gathered
weights of all would not fit.
"""

from __future__ import annotations

import torch
from torch.special import ndtr, ndtri

BLOCK = 20_000_000
ROOT = 0.3989422804014327


class Plain:
    def __init__(self, row, column, level, offset, weights, bias, thresholds, factor_bias) -> None:
        self.row, self.column, self.level, self.offset = row, column, level, offset
        self.weights, self.bias, self.thresholds = weights, bias, thresholds
        self.factor_bias = factor_bias

    def blocks(self):
        for start in range(0, self.row.numel(), BLOCK):
            some = slice(start, start + BLOCK)
            yield self.row[some], self.column[some], self.level[some].long(), self.offset[some]

    def mean(self, h, row, column, offset):
        w = self.weights[column]
        return w, (w * h[row]).sum(1) + self.bias[column] + offset

    def step(self, h, clamped):
        activation = self.factor_bias.expand(h.shape[0], -1).clone()
        for row, column, level, offset in self.blocks():
            w, mean = self.mean(h, row, column, offset)
            uniform = torch.rand_like(mean)
            if clamped:
                low = ndtr(self.thresholds[column, level] - mean)
                high = ndtr(self.thresholds[column, level + 1] - mean)
                uniform = low + uniform * (high - low)
            utility = mean + ndtri(uniform.clamp(1e-7, 1 - 1e-7))
            activation.index_add_(0, row, utility[:, None] * w)
        return torch.bernoulli(torch.sigmoid(activation))

    def statistics(self, h, clamped):
        weights, bounds = torch.zeros_like(self.weights), torch.zeros_like(self.thresholds)
        bias = torch.zeros_like(self.bias)
        for row, column, level, offset in self.blocks():
            _, mean = self.mean(h, row, column, offset)
            if clamped:
                low = self.thresholds[column, level] - mean
                high = self.thresholds[column, level + 1] - mean
                mass = (ndtr(high) - ndtr(low)).clamp(min=1e-7)
                at_low = ROOT * torch.exp(-0.5 * low**2) / mass
                at_high = ROOT * torch.exp(-0.5 * high**2) / mass
                mean = mean + at_low - at_high
                flat = column.long() * bounds.shape[1] + level
                bounds.view(-1).index_add_(0, flat, -at_low)
                bounds.view(-1).index_add_(0, flat + 1, at_high)
            weights.index_add_(0, column, mean[:, None] * h[row])
            bias.index_add_(0, column, mean)
        return weights, bias, bounds, h.sum(0)

    def both(self, h):
        h = self.step(h, True)
        clamped = self.statistics(h, True)
        free = self.step(h, False)
        return h, clamped, self.statistics(free, False)
