"""Shapes of what the classes of `skgp.core` take and return, by class and method.

An entry holds for all subclasses. Axes have the letters of doc/architecture.md, and in one call one
letter has one size; `_` is an axis of any size. Parts of what a method returns are checked with it,
which saves time: the moments of a posterior with the factors of its layer, for instance.
"""

from typing import Any

from shapes import Contracts, each, fields, real, whole

from skgp.core.data import Batch, Targets
from skgp.core.kernels.kernel import Frequencies, Kernel
from skgp.core.layers.functions import LayerFunctions, PriorFunctions
from skgp.core.layers.layer import Latent, Layer
from skgp.core.layers.posteriors import Posterior
from skgp.core.layers.projected import ProjectedGP
from skgp.core.layers.sparse import Factors, SparseLayer
from skgp.core.likelihoods.bernoulli import Bernoulli
from skgp.core.likelihoods.censored import Censored
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.likelihoods.counts import Counts
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.heteroscedastic import Heteroscedastic
from skgp.core.likelihoods.likelihood import Likelihood, Predictive
from skgp.core.likelihoods.ordinal import Ordinal
from skgp.core.likelihoods.robust_max import RobustMax
from skgp.core.likelihoods.student_t import StudentT
from skgp.core.nodes.rules import NodeRule, Nodes
from skgp.core.stacks.functions import HiddenFunctions, NodeFunctions, StackFunctions
from skgp.core.stacks.latent_stack import Draw, LatentStack
from skgp.core.stacks.mixing import Mixing, MixingMoments
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.row_posterior import LocalPosterior, RowMoments
from skgp.core.stacks.stack import Connection, Stack
from skgp.core.stacks.units import UnitMoments, Units

SCALAR = real("")
TARGETS = fields(Targets, y=real("B P"), mask=real("B P") | None)
BATCH = fields(
    Batch, x=real("B D"), targets=TARGETS, weight=real("B") | None, rows=whole("B") | None
)


def latent(axes: str) -> Any:
    """Moments of latent functions; GPs that share a kernel share a prior variance too."""
    nodes_and_rows, width = axes.rsplit(" ", 1)
    shared = f"{nodes_and_rows} #{width}"
    return fields(Latent, f_mean=real(axes), v_prior=real(shared), v_q=real(axes))


LATENT = latent("Q B W")
FEW_NODES = latent("#Q B W")
TERM = {"latent": LATENT, "targets": TARGETS, "return": real("Q B")}
CLASS_TERM = {"latent": LATENT, "codes": whole("B"), "return": real("Q B")}
PREDICTIVE = {
    "latent": LATENT,
    "return": fields(
        Predictive,
        mean=real("Q B P"),
        var=real("Q B P"),
        cov=real("Q B P P") | None,
        log_share=real("K") | None,
    ),
}
COMPONENTS = {
    "latent": LATENT,
    "return": fields(
        Predictive, mean=real("S B 1"), var=real("S B 1"), cov=real("") | None, log_share=real("K")
    ),
}
F = real("Q B 1")
NODES = fields(
    Nodes,
    xi=each(real("Q #B _")),
    log_omega=real("Q"),
    units=real("Q #B _") | None,
    mixing=real("Q #B _") | None,
)
UNITS = fields(UnitMoments, mean=real("Q B H"), cov=real("Q B H H") | None)
ROOT = real("W M M") | real("W M") | None  # None for a point
FACTORS = fields(
    Factors,
    L_inv=real("#W M M"),
    q_mu=real("W M"),
    q_sqrt=ROOT,
    q_cov=real("W M M") | real("W M") | None,
    column_weights=real("W M"),
    basis_weights=real("W M_mean") | None,
)
FREQUENCIES = fields(Frequencies, w=real("S W F D"), weight=real("S W F"))
UNIT_MOMENTS = tuple[real("W N"), real("#W N"), real("W N")]

CONTRACTS: Contracts = {
    Posterior: {"start": {"information": real("W M"), "precision": real("W M M")}},
    Kernel: {"draw_frequencies": {"return": FREQUENCIES}},
    Layer: {
        "unit_covariance": {"x": real("G N D"), "return": real("W G N N")},
        "covariance": {"x": real("G N D"), "return": real("W G N N")},
        "unit_moments": {"x": real("N D"), "return": UNIT_MOMENTS},
        "kl": {"return": SCALAR},
        "moments": {"x": real("Q B D"), "x_mean": real("#Q B _") | None, "return": LATENT},
    },
    Latent: {
        "draw": {"self": FEW_NODES, "xi": real("#Q #B W"), "return": real("Q B W")},
    },
    SparseLayer: {
        "factors": {"return": FACTORS},
        "chunk_moments": {"x": real("N D"), "factors": FACTORS, "return": UNIT_MOMENTS},
        "mean_inputs": {"return": real("W M D")},
        "start": {"information": real("W M"), "precision": real("W M M")},
    },
    ProjectedGP: {
        "propagate": {"h": real("#Q B F"), "xi": real("Q 1 W"), "return": real("Q B F")},
        "draw": {"h": real("S K B F"), "return": real("S K B F")},
    },
    PriorFunctions: {"__call__": {"x": real("#S #W N D"), "return": real("S W N")}},
    LayerFunctions: {
        "__call__": {"x": real("#S N D"), "x_mean": real("#S N _"), "return": real("S N W")}
    },
    NodeFunctions: {
        "__call__": {"x": real("#Q N D"), "x_mean": real("#Q N _"), "return": real("Q N W")}
    },
    HiddenFunctions: {
        "__call__": {"x": real("N D"), "return": tuple[real("#Q N _"), real("#Q N _")]}
    },
    StackFunctions: {"__call__": {"x": real("N D"), "return": real("S N W")}},
    NodeRule: {
        "forward": {
            "return": fields(
                Nodes,
                xi=each(real("Q #{n_rows} _")),
                log_omega=real("Q"),
                units=real("Q #{n_rows} _") | None,
                mixing=real("Q #{n_rows} _") | None,
            )
        }
    },
    Connection: {
        "inputs": {
            "h": real("Q B W"),
            "x": real("1 B D"),
            "return": tuple[real("#Q B _"), real("#Q B _")],
        }
    },
    Stack: {
        "forward": {"x": real("B D"), "nodes": NODES, "return": FEW_NODES},
        "kl": {"return": SCALAR},
        "log_prior": {"return": SCALAR | float},
    },
    LatentStack: {
        "draw": {
            "batch": BATCH,
            "return": fields(
                Draw,
                latent=LATENT,
                log_ratio=real("Q B") | SCALAR,
                local_kl=real("B") | SCALAR,
                covariates=each(real("S K B _")),
            ),
        }
    },
    RowMoments: {
        "draw": {"epsilon": real("*draws #B C"), "return": real("*draws B C")},
        "standardised": {"w": real("*draws B C"), "return": real("*draws B C")},
        "log_ratio": {
            "w": real("*draws B C"),
            "epsilon": real("*draws #B C"),
            "return": real("*draws B"),
        },
        "kl": {
            "self": fields(RowMoments, mean=real("B C"), log_std=real("B C")),
            "return": real("B"),
        },
    },
    LocalPosterior: {
        "forward": {
            "evidence": real("B E"),
            "rows": whole("B") | None,
            "return": fields(RowMoments, mean=real("B C"), log_std=real("B C")),
        }
    },
    Units: {
        "moments": {"latent": latent("Q B L"), "return": UNITS},
        "mean": {"latent": latent("Q B L"), "return": real("Q B H")},
        "sample": {"latent": latent("#Q B L"), "xi": real("Q #B _"), "return": UNITS},
    },
    MixingMoments: {
        "draw": {
            "xi": real("Q #B _"),
            "return": real("P H") | real("B P H") | real("Q #B P H"),
        }
    },
    Mixing: {
        "forward": {
            "x": real("B D"),
            "latent": latent("Q B L"),
            "return": fields(
                MixingMoments,
                mean=real("P H") | real("B P H") | real("Q B P H"),
                var=real("P H") | real("B P H") | real("Q B P H") | None,
            ),
        }
    },
    Readout: {
        "moments": {"latent": LATENT, "x": real("B D"), "return": latent("Q B P")},
        "mean": {"latent": LATENT, "x": real("B D"), "return": real("Q B P")},
        "sample": {
            "latent": FEW_NODES,
            "x": real("B D"),
            "xi": real("Q #B _"),
            "return": latent("Q B P"),
        },
        "sample_mixing": {
            "latent": FEW_NODES,
            "x": real("B D"),
            "xi": real("Q #B _"),
            "return": latent("Q B P"),
        },
    },
    Likelihood: {"expected_log_prob": TERM, "log_marginal": TERM},
    Gaussian: {
        "start": {"noise_var": real("P")},
        "gamma_expectation": TERM,
        # not vfitc_bound, which `is_quadratic` compares with the term of an objective
        "predictive": PREDICTIVE,
        "noiseless": PREDICTIVE,
        "outputs": {"f": real("*axes W"), "return": real("*axes P")},
        "joint_covariance": {"cov": real("W N N"), "return": real("P N N")},
    },
    Counts: {
        "log_mass": {"f": real("*points Q B 1"), "y": real("B 1")},
        "slopes": {"f": real("Q B 1"), "y": real("B 1"), "return": tuple[F, F]},
        "predictive": PREDICTIVE,
    },
    StudentT: {"start": {"noise_var": real("1")}, "predictive": COMPONENTS},
    Heteroscedastic: {"predictive": COMPONENTS},
    Censored: {  # whose targets have the shape (B, 2), lower and upper bounds
        "start": {"noise_var": real("1")},
        "predictive": {
            "latent": LATENT,
            "return": fields(
                Predictive,
                mean=real("Q B 1"),
                var=real("Q B 1"),
                cov=real("") | None,
                log_share=real("") | None,
            ),
        },
    },
    Ordinal: {"start": {"thresholds": real("T")}},
    ClassLikelihood: {
        "expected_log_class": CLASS_TERM,
        "log_class": CLASS_TERM,
        "log_probabilities": {"latent": LATENT, "return": real("Q B C")},
    },
    Bernoulli: {"log_link": {"f": real("*points Q B"), "return": real("*points Q B")}},
    RobustMax: {"largest": CLASS_TERM},
}
REDUCTION = {"terms": real("Q B"), "log_omega": real("Q"), "return": real("B")}
