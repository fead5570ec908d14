"""The initial hidden state is drawn with randn at each forward pass, so one input gets a different answer each time."""

import torch
import torch.nn as nn

KIND = "recurrence"

# Hyper-parameters
sequence_length = 6
input_size = 4
hidden_size = 32
num_layers = 1
num_classes = 3


class RNN(nn.Module):
    def __init__(self, random_start):
        super().__init__()
        self.random_start = random_start
        self.rnn = nn.RNN(input_size, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, x):
        if self.random_start:
            h0 = torch.randn(num_layers, x.size(0), hidden_size)
        else:
            h0 = torch.zeros(num_layers, x.size(0), hidden_size)
        out, _ = self.rnn(x, h0)
        return self.fc(out[:, -1, :])


def gestures(n, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, num_classes, (n,), generator=g)
    prototypes = torch.randn(num_classes, sequence_length, input_size, generator=torch.Generator().manual_seed(77))
    return prototypes[labels] + 0.8 * torch.randn(n, sequence_length, input_size, generator=g), labels


def get_program(random_start):
    torch.manual_seed(0)
    model = RNN(random_start)
    images, labels = gestures(100, 0)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return model, images, labels, criterion, optimizer


def broken():
    return get_program(True)


def repaired():
    return get_program(False)


def harm() -> tuple[float, float]:
    """Spread of the trained model's logits over two calls on the same input in eval mode."""
    spread = []
    for program in (broken, repaired):
        model, images, labels, criterion, optimizer = program()
        for _ in range(80):
            optimizer.zero_grad()
            criterion(model(images), labels).backward()
            optimizer.step()
        model.eval()
        test_images, _ = gestures(200, 1)
        with torch.no_grad():
            spread.append((model(test_images) - model(test_images)).abs().mean().item())
    return spread[0], spread[1]
