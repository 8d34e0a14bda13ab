"""Blocks of models that torch_compile.py compiles: each a module with example(), an input of float32 on the CPU.

Buffers of float32 (tables of angles) keep their type when the block becomes bfloat16: exact_buffers names them.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    exact_buffers = ()

    def to_bfloat16(self):
        kept = {name: getattr(self, name) for name in self.exact_buffers}
        self.bfloat16()
        for name, buffer in kept.items():
            setattr(self, name, buffer)
        return self


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Llama(Block):
    """RMSNorm, rotary embedding, causal attention, SwiGLU."""

    exact_buffers = ("cos", "sin")

    def __init__(self, width=2048, heads=16, hidden=5632):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(4096.0), 10000.0**(-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotated(self, x):
        a, b = x.float().chunk(2, -1)
        cos, sin = self.cos[:x.shape[-2]], self.sin[:x.shape[-2]]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).to(x.dtype)

    def forward(self, x):
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    @staticmethod
    def example():
        return torch.randn(4, 2048, 2048)


class Conv(Block):
    """Convolutions with batch_norm and group_norm, and pooling."""

    def __init__(self, channels=128):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.GroupNorm(8, channels)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.silu(self.norm2(self.conv2(y)) + x)
        return F.max_pool2d(y, 2)

    @staticmethod
    def example():
        return torch.randn(32, 128, 56, 56)


class Gpt(Block):
    """LayerNorm with bias, attention whose softmax is written out, GELU, a residual scaled by a learned vector."""

    def __init__(self, width=1024, heads=16):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / q.shape[-1]**0.5
        later = torch.ones(scores.shape[-2:], device=x.device, dtype=torch.bool).triu(1)
        a = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.out(a.transpose(1, 2).flatten(2)) * self.scale
        return x + self.down(F.gelu(self.up(self.norm2(x)))) * self.scale

    @staticmethod
    def example():
        return torch.randn(8, 1024, 1024)


class Diffusion(Block):
    """A diffusion transformer's: LayerNorm without weights, modulated by a condition; norms of queries and keys; gates."""

    def __init__(self, width=1152, heads=16):
        super().__init__()
        self.heads = heads
        self.condition = nn.Linear(width, 6 * width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_norm, self.k_norm = nn.RMSNorm(width // heads), nn.RMSNorm(width // heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.condition(F.silu(x.mean(1, keepdim=True))).chunk(6, -1)
        y = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale1) + shift1
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(y).chunk(3, -1))
        a = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        x = x + gate1 * self.out(a.transpose(1, 2).flatten(2))
        y = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale2) + shift2
        return x + gate2 * self.down(F.gelu(self.up(y), approximate="tanh"))

    @staticmethod
    def example():
        return torch.randn(16, 1024, 1152)


class Unet(Block):
    """A decoder's step: nearest upsampling, channels of two sources side by side, GroupNorm and SiLU before convolutions."""

    def __init__(self, channels=160):
        super().__init__()
        self.channels = channels
        self.norm1, self.norm2 = nn.GroupNorm(32, 2 * channels), nn.GroupNorm(32, channels)
        self.conv1 = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x):
        small, side = F.avg_pool2d(x, 2), x.roll(1, -1)
        x = torch.cat((F.interpolate(small, scale_factor=2.0, mode="nearest"), side), 1)
        y = self.conv1(F.silu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))

    @staticmethod
    def example():
        return torch.randn(8, 160, 64, 64)


class Convnext(Block):
    """A depthwise convolution, LayerNorm over channels, GELU, a response norm over the image."""

    def __init__(self, channels=192):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.gamma, self.beta = (nn.Parameter(torch.zeros(4 * channels)) for _ in range(2))

    def forward(self, x):
        y = F.gelu(self.up(self.norm(self.depthwise(x).permute(0, 2, 3, 1))))
        response = y.float().norm(dim=(1, 2), keepdim=True)
        response = (response / (response.mean(-1, keepdim=True) + 1e-6)).to(y.dtype)
        y = self.gamma * (y * response) + self.beta + y
        return x + self.down(y).permute(0, 3, 1, 2)

    @staticmethod
    def example():
        return torch.randn(32, 192, 28, 28)


class Windows(Block):
    """Attention in shifted windows with a bias by relative place; pixels that the shift brings together are told apart."""

    def __init__(self, channels=128, heads=4, side=8):
        super().__init__()
        self.heads, self.side = heads, side
        self.norm = nn.LayerNorm(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.bias = nn.Parameter(torch.randn(heads, (2 * side - 1)**2) / 8)
        at = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + side - 1
        self.register_buffer("place", apart[0] * (2 * side - 1) + apart[1], persistent=False)

    def forward(self, x):
        b, h, w, c = x.shape
        s = self.side
        y = torch.roll(self.norm(x), (-s // 2, -s // 2), (1, 2))
        y = y.view(b, h // s, s, w // s, s, c).transpose(2, 3).reshape(-1, s * s, c)
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(y).chunk(3, -1))
        scores = (q * (c // self.heads)**-0.5) @ k.transpose(-1, -2) + self.bias[:, self.place]
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = y.view(b, h // s, w // s, s, s, c).transpose(2, 3).reshape(b, h, w, c)
        return x + torch.roll(y, (s // 2, s // 2), (1, 2))

    @staticmethod
    def example():
        return torch.randn(16, 64, 64, 128)


class Loss(Block):
    """The end of a language model: RMSNorm, logits with a soft cap, cross entropy with label smoothing, z-loss, by token."""

    def __init__(self, width=1024, vocabulary=32000):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.logits = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("labels", torch.arange(4096) * 7919 % vocabulary, persistent=False)

    def forward(self, x):
        logits = 30 * torch.tanh(self.logits(self.norm(x)).float() / 30)
        total = torch.logsumexp(logits, -1)
        return F.cross_entropy(logits, self.labels, reduction="none", label_smoothing=0.1) + 1e-4 * total * total

    @staticmethod
    def example():
        return torch.randn(4096, 1024)


class Experts(Block):
    """Routing to experts: softmax, the best two, their weights normed, rows gathered, a gated product each, rows added up.
    Each row prefers two experts by so much that rounding changes no choice, and all experts get the same share."""

    exact_buffers = ("preference", )

    def __init__(self, width=1024, hidden=1024, experts=8):
        super().__init__()
        self.register_buffer("preference", 3.0 * torch.arange(experts), persistent=False)
        self.experts, self.width = experts, width
        self.norm, self.router = nn.RMSNorm(width), nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)

    def forward(self, x):
        y = self.norm(x)
        row = torch.arange(x.shape[0], device=x.device)[:, None]
        expert = torch.arange(self.experts, device=x.device)
        logits = self.router(y).float() + self.preference[(row + expert) % self.experts]
        weights, chosen = logits.softmax(-1).topk(2, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        each = 2 * x.shape[0] // self.experts
        order = chosen.flatten().argsort(stable=True).view(self.experts, each)
        rows = y[order // 2]
        gate, up = (rows @ self.up).chunk(2, -1)
        z = (F.silu(gate) * up) @ self.down * weights.flatten()[order][..., None]
        return x.index_add(0, (order // 2).flatten(), z.flatten(0, 1))

    @staticmethod
    def example():
        return torch.randn(8192, 1024)


BLOCKS = {"llama": Llama, "conv": Conv, "gpt": Gpt, "diffusion": Diffusion, "unet": Unet, "convnext": Convnext,
          "windows": Windows, "loss": Loss, "experts": Experts}
