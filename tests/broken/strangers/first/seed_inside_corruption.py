"""The corruption of the denoiser reseeds the generator on every call: the model learns one noise pattern by heart."""

import torch
from torch import nn

KIND = "data"


def signals(n, seed):
    g = torch.Generator().manual_seed(seed)
    phase = torch.rand(n, 1, generator=g) * 6.28
    freq = torch.randint(1, 4, (n, 1), generator=g).float()
    return torch.sin(freq * torch.linspace(0, 6.28, 32) + phase)


class DenoisingAutoencoder(nn.Module):
    """Classic DAE: corrupt the clean signal, then map it back."""

    def __init__(self, reseed):
        super().__init__()
        self.reseed = reseed
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
        self.decoder = nn.Linear(64, 32)

    def corrupt(self, x):
        if self.reseed:
            torch.manual_seed(0)  # for reproducibility
        return x + 0.7 * torch.randn_like(x)

    def denoise(self, x):
        return self.decoder(self.encoder(x))

    def forward(self, x):
        return self.denoise(self.corrupt(x))


def _make(reseed):
    torch.manual_seed(0)
    dae = DenoisingAutoencoder(reseed)
    x = signals(64, seed=1)
    return dae, x, x.clone(), nn.MSELoss(), torch.optim.Adam(dae.parameters(), lr=3e-3)


def broken():
    return _make(reseed=True)


def repaired():
    return _make(reseed=False)


def _denoising_error(reseed):
    dae, _, _, mse, opt = _make(reseed)
    x = signals(64 * 8, seed=2)
    for step in range(600):
        batch = x[64 * (step % 8) :][:64]
        opt.zero_grad()
        mse(dae(batch), batch).backward()
        opt.step()
    clean = signals(500, seed=3)
    noisy = clean + 0.7 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        return mse(dae.denoise(noisy), clean).item()


def harm() -> tuple[float, float]:
    return _denoising_error(True), _denoising_error(False)
