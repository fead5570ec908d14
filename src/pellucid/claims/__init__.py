"""Claims: what courses, papers and answer keys say about networks, as experiments with a verdict.

One file for each family of claims. `claim.py` has the card, `judging.py` runs and judges, `ledger/` beside them
keeps what came out.
"""

from pellucid.claims.claim import Claim, ClaimFamily, all_claims, find_claim
from pellucid.claims.running import ClaimRun, run

__all__ = ["Claim", "ClaimFamily", "ClaimRun", "all_claims", "find_claim", "run"]
