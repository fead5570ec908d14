"""F.kl_div gets the student's probabilities where it wants log-probabilities, so the student follows nonsense."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "loss"

TEMPERATURE = 3.0


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, x):
        return self.net(x)


def teacher_logits(x):
    w = torch.randn(16, 5, generator=torch.Generator().manual_seed(5))
    return torch.tanh(x) @ w * 2


def kd_loss_probs(student, teacher):
    s = F.softmax(student / TEMPERATURE, dim=1)
    t = F.softmax(teacher / TEMPERATURE, dim=1)
    return F.kl_div(s, t, reduction="batchmean") * TEMPERATURE**2


def kd_loss(student, teacher):
    s = F.log_softmax(student / TEMPERATURE, dim=1)
    t = F.softmax(teacher / TEMPERATURE, dim=1)
    return F.kl_div(s, t, reduction="batchmean") * TEMPERATURE**2


def loader(n, seed):
    x = torch.randn(n, 16, generator=torch.Generator().manual_seed(seed))
    return x, teacher_logits(x)


def main(loss):
    torch.manual_seed(10)
    student = Student()
    x, t = loader(64, 0)
    return student, x, t, loss, torch.optim.Adam(student.parameters(), lr=3e-3)


def broken():
    return main(kd_loss_probs)


def repaired():
    return main(kd_loss)


def harm() -> tuple[float, float]:
    """True KL divergence from the teacher on new data."""
    values = []
    for setup in (broken, repaired):
        student, _, _, loss, opt = setup()
        for i in range(400):
            x, t = loader(64, 1 + i)
            opt.zero_grad()
            loss(student(x), t).backward()
            opt.step()
        x, t = loader(1000, 4000)
        with torch.no_grad():
            kl = F.kl_div(F.log_softmax(student(x), 1), F.log_softmax(t, 1), log_target=True, reduction="batchmean")
        values.append(kl.item())
    return values[0], values[1]
