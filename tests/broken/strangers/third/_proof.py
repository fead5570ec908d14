"""How the programs of this set are trained to show their harm: plain torch, fresh batches, nothing of pellucid."""


def train(patient, steps, batch=None):
    """A patient's network after its steps. batch: fresh inputs and targets by number, in place of the patient's own."""
    net, x, y, loss, optimizer = patient
    net.train()
    for i in range(steps):
        if batch is not None:
            x, y = batch(i)
        optimizer.zero_grad()
        inputs = x if isinstance(x, tuple) else (x,)
        loss(net(*inputs), y).backward()
        optimizer.step()
    return net.eval()


def harm_of(setups, steps, measure, batch=None):
    """What is measured of the broken one and of its twin after training; the larger, the worse."""
    worse, better = (measure(train(setup(), steps, batch)) for setup in setups)
    return worse.item(), better.item()
