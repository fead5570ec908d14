"""The doctor's museum: small broken programs of the kind people reported, and healthy ones beside them."""

from tests.broken.museum import (
    attention,
    data,
    decoding,
    gradients,
    healthy_catalogue,
    healthy_designs,
    healthy_huggingface,
    healthy_later,
    healthy_losses,
    healthy_public,
    healthy_torch,
    healthy_unusual,
    initialisation,
    later,
    losses,
    modes,
    numbers,
    optimizers,
    recurrent,
    saving,
    shapes,
)
from tests.broken.museum.exhibit import Exhibit, Healthy

ROOMS = {
    "attention": attention.EXHIBITS,
    "losses": losses.EXHIBITS,
    "modes": modes.EXHIBITS,
    "gradients": gradients.EXHIBITS,
    "optimizers": optimizers.EXHIBITS,
    "initialisation": initialisation.EXHIBITS,
    "data": data.EXHIBITS,
    "shapes": shapes.EXHIBITS,
    "numbers": numbers.EXHIBITS,
    "recurrent": recurrent.EXHIBITS,
    "decoding": decoding.EXHIBITS,
    "saving": saving.EXHIBITS,
    "later": later.EXHIBITS,
}
BROKEN: list[Exhibit] = [exhibit for exhibits in ROOMS.values() for exhibit in exhibits]
HEALTHY: list[Healthy] = [
    *healthy_catalogue.HEALTHY,
    *healthy_torch.HEALTHY,
    *healthy_unusual.HEALTHY,
    *healthy_designs.HEALTHY,
    *healthy_losses.HEALTHY,
    *healthy_later.HEALTHY,
    *healthy_huggingface.HEALTHY,
    *healthy_public.HEALTHY,
]
