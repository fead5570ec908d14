"""Broken programs that strangers wrote, each beside its repaired twin, as the doctor is shown them.

A bug is found where a rule calls the broken program broken or suspicious, and the same rule does not so call its twin.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pellucid.inspection.doctor import specimen_from
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen

STRANGERS = Path(__file__).parent / "strangers"
SETS = ("first", "second", "third")
# Programs of the second set whose bug a program of the first has too, as far as reading both tells: rules were mended
# with the first at hand, so that these are new programs and no new bugs.
SHARED_BUGS = frozenset(
    [
        "attention_softmax_over_queries",
        "key_padding_mask_polarity",
        "positional_encoding_batch_axis",
        "dqn_bootstraps_past_the_end",
        "simsiam_without_stop_gradient",
        "augmentation_writes_into_dataset",
        "keypoints_not_flipped",
        "window_holds_its_target",
        "ddpm_noise_drawn_twice",
        "wgan_gp_without_create_graph",
        "custom_swish_backward",
        "truncated_bptt_detach_each_step",
        "cox_risk_set_reversed",
        "distill_kl_without_log",
        "pinball_loss_swapped",
        "heteroscedastic_variance_squared",
        "frozen_backbone_statistics_drift",
        "layernorm_over_batch",
        "pairwise_distance_sqrt_zero",
        "unix_time_in_float32",
        "variance_by_difference",
        "loss_scale_clipped_before_unscale",
        "step_scheduler_every_batch",
        "gru_state_leaks_between_batches",
        "lstm_reads_padding_step",
        "heads_split_without_transpose",
        "value_loss_broadcast",
    ]
)


@dataclass(frozen=True)
class Stranger:
    """A program that someone wrote without having seen a rule; `harm` is the proof that it is broken."""

    name: str
    kind: str
    says: str  # what the bug is, in one sentence
    make_broken: Callable[[], object]
    make_repaired: Callable[[], object]
    harm: Callable[[], tuple[float, float]]  # what is measured of both after training; the larger, the worse
    text: str  # of its file

    def broken(self) -> Specimen:
        """The same at every call."""
        return _shown(self.make_broken, self.name)

    def repaired(self) -> Specimen:
        """The same at every call."""
        return _shown(self.make_repaired, f"{self.name} repaired")


def names_of_strangers(which: str) -> list[str]:
    """The programs of a set, none of them opened."""
    return sorted(one.stem for one in (STRANGERS / which).glob("*.py") if not one.stem.startswith("_"))


def load_stranger(which: str, name: str) -> Stranger:
    file = importlib.import_module(f"tests.broken.strangers.{which}.{name}")
    says = " ".join((file.__doc__ or name).split()).rstrip(".")
    text = (STRANGERS / which / f"{name}.py").read_text(encoding="utf-8")
    return Stranger(name, file.KIND, says, file.broken, file.repaired, file.harm, text)


def _shown(make: Callable[[], object], name: str) -> Specimen:
    with fixed_rng(0):
        return specimen_from(make, name)
