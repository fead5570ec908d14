"""The seq2seq decoder is fed the unshifted target: it copies in training and fails when it must write by itself."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "recurrence"
SOS, SYMBOLS, LEN = 0, 12, 4


def translate(n, seed):
    """'Translation': reverse the sentence and map the words."""
    g = torch.Generator().manual_seed(seed)
    src = torch.randint(1, SYMBOLS, (n, LEN), generator=g)
    return src, src.flip(1) % (SYMBOLS - 1) + 1


class Seq2Seq(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.src_emb = nn.Embedding(SYMBOLS, 32)
        self.trg_emb = nn.Embedding(SYMBOLS, 32)
        self.encoder = nn.GRU(32, hidden, batch_first=True)
        self.decoder = nn.GRU(32, hidden, batch_first=True)
        self.out = nn.Linear(hidden, SYMBOLS)

    def forward(self, src, decoder_input):
        _, h = self.encoder(self.src_emb(src))
        out, _ = self.decoder(self.trg_emb(decoder_input), h)
        return self.out(out)

    @torch.no_grad()
    def greedy(self, src):
        _, h = self.encoder(self.src_emb(src))
        token = torch.full((len(src), 1), SOS)
        result = []
        for _ in range(LEN):
            out, h = self.decoder(self.trg_emb(token), h)
            token = self.out(out).argmax(-1)
            result.append(token)
        return torch.cat(result, 1)


def decoder_input(trg, shift):
    if not shift:
        return trg
    return torch.cat([torch.full((len(trg), 1), SOS), trg[:, :-1]], dim=1)


def token_loss(logits, trg):
    return F.cross_entropy(logits.flatten(0, 1), trg.flatten())


def _build(shift):
    torch.manual_seed(0)
    model = Seq2Seq()
    src, trg = translate(64, seed=0)
    return model, (src, decoder_input(trg, shift)), trg, token_loss, torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _build(shift=False)


def repaired():
    return _build(shift=True)


def inference_error(shift):
    model, _, _, loss, opt = _build(shift)
    for step in range(250):
        src, trg = translate(64, seed=step + 1)
        opt.zero_grad()
        loss(model(src, decoder_input(trg, shift)), trg).backward()
        opt.step()
    src, trg = translate(300, seed=54321)
    return (model.greedy(src) != trg).float().mean().item()


def harm() -> tuple[float, float]:
    return inference_error(False), inference_error(True)
