"""What may import what in skgp: the tables of the rules in test_architecture.py."""

# Each row may import the rows above it. A unit (one entry) may import itself, so an entry may be a
# package; two entries of one row never import each other.
LEVELS = (
    (
        "skgp.exceptions",
        "skgp._doc_links",
        "skgp._show_versions",
        "skgp._typing",
        "skgp._version",
    ),
    ("skgp._validation",),
    (
        "skgp._r2",
        "skgp.core.bounds",
        "skgp.core.bulk",
        "skgp.core.data",
        "skgp.core.maps",
        "skgp.core.subsample",
        "skgp.distributions",
    ),
    ("skgp.core.folds", "skgp.core.numerics"),
    ("skgp.core.kernels",),
    ("skgp.core.layers",),
    ("skgp.core.nodes",),
    ("skgp.core.networks",),
    ("skgp.core.stacks",),
    ("skgp.core.likelihoods",),
    ("skgp.core.copies", "skgp.core.objectives"),
    ("skgp.core.marginal",),
    ("skgp.core.training",),
    ("skgp.core.baselines", "skgp.fitting.rows", "skgp.fitting.whole_files"),
    (
        "skgp.fitting.affordable",
        "skgp.fitting.arguments",
        "skgp.fitting.cache",
        "skgp.fitting.plans",
        "skgp.fitting.progress_report",
        "skgp.fitting.recording",
        "skgp.fitting.setup",
        "skgp.fitting.table",
    ),
    ("skgp.fitting.model", "skgp.fitting.row_checks", "skgp.fitting.tensor_scales"),
    (
        "skgp.fitting.checkpoint",
        "skgp.fitting.coverage",
        "skgp.fitting.functions",
        "skgp.fitting.joint",
        "skgp.fitting.observed",
        "skgp.fitting.outliers",
        "skgp.fitting.predict",
        "skgp.fitting.recipe",
        "skgp.fitting.splits",
        "skgp.fitting.stream",
    ),
    (
        "skgp.fitting.draws",
        "skgp.fitting.fit",
        "skgp.fitting.posterior",
        "skgp.fitting.search",
        "skgp.fitting.stacking",
    ),
    (
        "skgp.fitting.chunk",
        "skgp.fitting.copies",
        "skgp.fitting.diagnosis",
        "skgp.fitting.folds",
        "skgp.fitting.kinds",
        "skgp.recipes.rough_gps",
    ),
    (
        "skgp.fitting.mean_weights",
        "skgp.fitting.residual_noise",
        "skgp.recipes.chain",
        "skgp.recipes.laplace",
        "skgp.recipes.losses",
        "skgp.recipes.mixing",
        "skgp.recipes.features",
    ),
    ("skgp.fitting.cross_validation", "skgp.fitting.untrained_gp", "skgp.recipes.spec"),
    ("skgp.recipes.stack",),
    (
        "skgp.recipes.classes",
        "skgp.recipes.collapsed",
        "skgp.recipes.hidden",
        "skgp.recipes.latent",
        "skgp.recipes.latent_inputs",
        "skgp.recipes.noise",
        "skgp.recipes.optimizers",
        "skgp.recipes.outputs",
        "skgp.recipes.sizes",
        "skgp.recipes.tops",
    ),
    (
        "skgp.recipes.assemble",
        "skgp.recipes.exact",
        "skgp.recipes.fitc",
        "skgp.recipes.networks",
        "skgp.recipes.optimum",
        "skgp.recipes.readouts",
    ),
    (
        "skgp.recipes.autoencoder",
        "skgp.recipes.dropout",
        "skgp.recipes.readout_recipes",
    ),
    (
        "skgp.estimators._attributes",
        "skgp.estimators._documentation",
        "skgp.estimators._entries",
        "skgp.estimators._joint",
    ),
    (
        "skgp.estimators._fit_groups",
        "skgp.estimators._layer_choices",
        "skgp.estimators._model_groups",
    ),
    ("skgp.estimators._estimator", "skgp.estimators._parameters"),
    (
        "skgp.estimators._classifier",
        "skgp.estimators._embedding",
        "skgp.estimators._regressor",
    ),
    ("skgp.estimators.",),  # every public module: the families
    ("skgp.files",),
)
# Beside the levels: what each of these may import of skgp, itself apart.
SIDE = {
    "skgp.compose": (
        "skgp.exceptions",
        "skgp._doc_links",
        "skgp._r2",
        "skgp._typing",
        "skgp._validation",
        "skgp.distributions",
    ),
    "skgp.datasets": ("skgp.exceptions", "skgp._typing", "skgp._validation", "skgp.distributions"),
    "skgp.scoring": (
        "skgp.exceptions",
        "skgp._typing",
        "skgp._validation",
        "skgp.distributions",
        "skgp.compose",
    ),
    "skgp.streams": ("skgp._typing", "skgp.compose", "skgp.core.maps"),
    "skgp.ray": (),
    "skgp.botorch": (),
    "skgp.plotting": (
        "skgp.exceptions",
        "skgp._typing",
        "skgp._validation",
        "skgp.distributions",
        "skgp.compose",
        "skgp.scoring",
    ),
}
# `__init__` files that collect names: they import from their own package, and nothing imports them.
FACADES = ("skgp", "skgp.core", "skgp.estimators", "skgp.fitting", "skgp.recipes")
# Packages from which users import nothing, but for the families below.
INSIDE = ("core", "fitting", "recipes", "estimators")
# Families whose names `skgp` does not export, because they are not what it is for.
PUBLIC_FAMILIES = ("skgp.estimators.baselines",)

# package: the only modules that may import it
OWNERS = {
    "botorch": ("skgp.botorch",),
    "gpytorch": ("skgp.botorch", "skgp.core.kernels", "skgp.files._reading", "skgp.files._trusted"),
    "pyarrow": ("skgp.streams._source",),
    "safetensors": ("skgp.files._container",),
    "linear_operator": ("skgp.core.numerics.conjugate_gradients",),
}
# part of skgp: packages it never imports, with the exceptions
FORBIDDEN = {"skgp.core": {"sklearn": ("skgp.core.kernels.inducing",)}}
# part of skgp: packages it imports inside functions only
LAZY = {
    "skgp": ("matplotlib", "pandas", "pyarrow", "safetensors"),
    "skgp.distributions": ("torch",),
    "skgp.scoring": ("torch",),
}
GLOBAL_SETTERS = {
    "numpy.random.seed",
    "random.seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.seed",
    "torch.set_default_device",
    "torch.set_default_dtype",
    "torch.set_num_threads",
}
# (module, setter): in a forked process one thread is all that works.
ALLOWED_SETTERS = {("skgp.core.numerics.processes", "torch.set_num_threads")}
