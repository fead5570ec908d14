"""The distillation loss gives F.kl_div the student's probabilities where it wants log-probabilities."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "loss"
T = 4.0


def teacher_logits(x):
    """A frozen teacher, here a fixed random network that is already good."""
    g = torch.Generator().manual_seed(77)
    w1, w2 = torch.randn(16, 64, generator=g) / 4, torch.randn(64, 10, generator=g)
    return torch.tanh(x @ w1) @ w2


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def kd_loss(student, teacher):
    p = F.log_softmax(student / T, dim=1)
    q = F.softmax(teacher / T, dim=1)
    return F.kl_div(p, q, reduction="batchmean") * T * T


def kd_loss_probs(student, teacher):
    p = F.softmax(student / T, dim=1)
    q = F.softmax(teacher / T, dim=1)
    return F.kl_div(p, q, reduction="batchmean") * T * T


def _make(criterion):
    torch.manual_seed(0)
    student = Student()
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    return student, x, teacher_logits(x), criterion, torch.optim.Adam(student.parameters(), lr=3e-3)


def broken():
    return _make(kd_loss_probs)


def repaired():
    return _make(kd_loss)


def _distance_to_teacher(make):
    student, _, _, criterion, opt = make()
    g = torch.Generator().manual_seed(2)
    for _ in range(800):
        x = torch.randn(64, 16, generator=g)
        opt.zero_grad()
        criterion(student(x), teacher_logits(x)).backward()
        opt.step()
    x = torch.randn(1000, 16, generator=g)
    with torch.no_grad():
        return (student(x).softmax(1) - teacher_logits(x).softmax(1)).abs().sum(1).mean().item()


def harm() -> tuple[float, float]:
    return _distance_to_teacher(broken), _distance_to_teacher(repaired)
