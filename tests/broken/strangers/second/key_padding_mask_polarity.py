"""src_key_padding_mask is built as True for real tokens, so the encoder attends to padding alone."""

import torch
from torch import nn

KIND = "attention-and-masks"

PAD = 0
config = {"vocab": 30, "d_model": 32, "nhead": 4, "max_len": 18, "lr": 2e-3}


class Encoder(nn.Module):
    def __init__(self, real_is_true, cfg):
        super().__init__()
        self.real_is_true = real_is_true
        self.emb = nn.Embedding(cfg["vocab"], cfg["d_model"], padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(cfg["max_len"], cfg["d_model"]) * 0.1)
        layer = nn.TransformerEncoderLayer(cfg["d_model"], cfg["nhead"], 64, dropout=0.0, batch_first=True)
        self.tf = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.fc = nn.Linear(cfg["d_model"], 2)

    def forward(self, src):
        mask = src != PAD if self.real_is_true else src == PAD
        h = self.tf(self.emb(src) + self.pos[: src.size(1)], src_key_padding_mask=mask)
        return self.fc(h[:, 0])


def toy_pairs(n, seed):
    """Is the first token repeated later in the sentence?"""
    g = torch.Generator().manual_seed(seed)
    src = torch.randint(2, config["vocab"], (n, config["max_len"]), generator=g)
    y = torch.randint(0, 2, (n,), generator=g)
    for i in range(n):
        length = int(torch.randint(6, 16, (1,), generator=g))
        src[i, length:] = PAD
        others = src[i, 1:length]
        others[others == src[i, 0]] = 1
        if y[i]:
            others[int(torch.randint(0, length - 1, (1,), generator=g))] = src[i, 0]
    return src, y


def create(real_is_true):
    torch.manual_seed(0)
    model = Encoder(real_is_true, config)
    src, y = toy_pairs(64, 0)
    optim = torch.optim.Adam(model.parameters(), lr=config["lr"])
    return model, src, y, nn.CrossEntropyLoss(), optim


def broken():
    return create(real_is_true=True)


def repaired():
    return create(real_is_true=False)


def harm() -> tuple[float, float]:
    """Movement of the output when one real token in the middle is replaced: it should not be (almost) nothing."""
    result = []
    for make in (broken, repaired):
        model, src, *_ = make()
        model.eval()
        edited = src.clone()
        edited[:, 3] = (edited[:, 3] % 28) + 1
        with torch.no_grad():
            moved = (model(src) - model(edited)).abs().mean().item()
        result.append(1.0 / (1.0 + 100 * moved))
    return result[0], result[1]
