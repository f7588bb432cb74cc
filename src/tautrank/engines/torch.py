"""PyTorch: a network instead of trees, for any loss of this library.

The input transform that made networks competitive with trees (Qin et al., *Are Neural Rankers still
Outperformed by Gradient Boosted Decision Trees?*, ICLR 2021): ``sign(x) log(1 + |x|)``,
standardised, with normal noise in training. Then layers of ``Linear``, ``LayerNorm``, ``ReLU`` and
dropout, and one score per document. A batch holds whole queries. With self-attention the last layer
also sees the other documents of the list, so that a score depends on all of them (Pobrotyn et al.,
*Context-Aware Learning to Rank with Self-Attention*, 2020).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tautrank.arguments import check_fields, checked_by, choice, one_or_more, real, whole
from tautrank.arrays import F32, F64, Array, dense
from tautrank.data import RankingData
from tautrank.engines.base import SelfTrainingEngine
from tautrank.engines.model import FittedModel, shares
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import package
from tautrank.engines.task import NativeLoss, Part, Settings, Task
from tautrank.errors import DataError, OptionError, require, unknown
from tautrank.losses import REGISTRY, SoftmaxLoss
from tautrank.losses.base import Loss
from tautrank.names import changed_options, write_name

# The learning rate of trees, divided by this, is Adam's: 0.05 becomes 0.001.
_TREE_RATE_PER_ADAM_RATE = 50.0
# How much is scored at a time: documents, or whole lists with self-attention.
_DOCUMENTS_PER_CHUNK = 65_536
_LISTS_PER_CHUNK = 64
# Epochs of a network beside trees, whose number means nothing to it.
_EPOCHS_BESIDE_TREES = 30
# A feature that varies less is a constant but for rounding: it is not divided by its deviation.
_SMALLEST_DEVIATION = 1e-9
# PyTorch has one generator of random numbers for all threads: the networks of a committee are
# trained one by one.
_ONE_AT_A_TIME = threading.Lock()


@dataclasses.dataclass(frozen=True)
class NetworkShape:
    """What a network looks like and how it is trained: the parameters of the engine.

    Args:
        hidden: units of each hidden layer.
        dropout: share of units that are left out at a time in training.
        noise: standard deviation of the noise on the standardised features in training.
        batch_queries: queries per step.
        weight_decay: AdamW's decay of the weights.
        attention: heads of self-attention over the list, behind the hidden layers; 0 for none.
        epochs: the largest number of epochs; None for ``n_estimators``, or 30 for
            ``loss="torch:..."``.
        device: ``"cpu"``, ``"cuda"``, or None for CUDA where there is a device.
    """

    hidden: tuple[int, ...] = (256, 128)
    dropout: float = dataclasses.field(default=0.1, metadata=checked_by(real, most=0.95))
    noise: float = dataclasses.field(default=0.1, metadata=checked_by(real, least=0.0))
    batch_queries: int = dataclasses.field(default=64, metadata=checked_by(whole, least=1))
    weight_decay: float = dataclasses.field(default=0.01, metadata=checked_by(real, least=0.0))
    attention: int = dataclasses.field(default=0, metadata=checked_by(whole, least=0))
    epochs: int | None = dataclasses.field(default=None, metadata=checked_by(whole, least=1))
    device: str | None = dataclasses.field(
        default=None, metadata=checked_by(choice, known=("cpu", "cuda"))
    )

    def __post_init__(self) -> None:
        hidden = tuple(whole("hidden", size, least=1) for size in one_or_more(self.hidden))
        # The dataclass is frozen: the checked tuple is set in spite of that.
        object.__setattr__(self, "hidden", hidden)
        check_fields(self)
        if self.attention == 0:  # number of attention heads
            return
        # The units of the last hidden layer are divided among the heads.
        is_divisor = bool(hidden) and hidden[-1] % self.attention == 0
        if not is_divisor:
            raise OptionError(
                f"attention: found {self.attention} heads with the hidden layers {hidden}; "
                "expected a divisor of the units of the last layer"
            )


_PARAMETERS = {field.name for field in dataclasses.fields(NetworkShape)}


class TorchModel(FittedModel):
    """A network; kept in a file as safetensors, which is data only.

    Args:
        weights: the network's tensors as arrays, by name.
        hidden: units of each hidden layer.
        attention: heads of self-attention; 0 for none.
    """

    tool: ClassVar[str] = "torch"
    member: ClassVar[str] = "model.safetensors"

    def __init__(
        self, weights: dict[str, F32], hidden: tuple[int, ...], attention: int = 0
    ) -> None:
        self.weights = weights
        self.hidden = hidden
        self.attention = attention
        # With attention, a score depends on the other documents of the list.
        self.by_list = attention > 0
        # One mean per feature, by which features are standardised.
        self.n_features = int(weights["mean"].size)
        self.n_trees = 0  # as every model has the number: a network has none

    @functools.cached_property
    def network(self) -> Any:
        """The network as a PyTorch module, in evaluation mode."""
        torch = package("torch")
        shape = NetworkShape(self.hidden, attention=self.attention)
        module = network(self.n_features, shape)
        tensors = {name: torch.from_numpy(array) for name, array in self.weights.items()}
        module.load_state_dict(tensors)
        return module.eval()  # without the dropout and noise of training

    def _scores(self, X: Any, threads: int, offsets: Array | None = None) -> Any:
        return _network_scores(self.network, X, "cpu", offsets)

    def importances(self) -> F64:
        """Return how strongly the first layer weights each feature, as shares that sum to 1.

        The strength is the Euclidean norm of the weights between the feature and all units.
        """
        # One row per unit, one column per feature.
        first_layer = self.weights["layers.0.weight"].astype(np.float64)
        sums_of_squares = (first_layer**2).sum(axis=0)
        return shares(np.sqrt(sums_of_squares))

    def to_bytes(self) -> bytes:
        """Return the weights as safetensors, with the shape of the network in the header."""
        # One entry: safetensors writes several in any order, and a model has the same bytes each
        # time it is saved.
        metadata = {"shape": json.dumps([self.hidden, self.attention])}
        sorted_weights = dict(sorted(self.weights.items()))
        return bytes(_safetensors().save(sorted_weights, metadata=metadata))

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> TorchModel:
        """Return the network whose weights and shape `to_bytes` wrote as safetensors.

        Args:
            content: what `to_bytes` returned.
            n_features: number of features that the model must have.
        """
        try:
            arrays = _safetensors().load(content)
            weights = {name: np.array(array) for name, array in arrays.items()}
            # A file of safetensors begins with the size of its header, in 8 bytes, and the header.
            header_size = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + header_size])
            hidden, attention = json.loads(header["__metadata__"]["shape"])
            model = cls(weights, tuple(hidden), attention)
            # A property that builds the network, now, so that wrong shapes are found here.
            _ = model.network
        except Exception as problem:  # whatever PyTorch and safetensors say about a damaged file
            raise DataError("found something else than the weights of a network") from problem
        return model


class Torch(SelfTrainingEngine):
    """A network trained by PyTorch.

    ``n_estimators`` is the largest number of epochs, ``early_stopping_rounds`` epochs without a
    better validation value end the training, and the weights of the best epoch are kept. Adam's
    rate is ``learning_rate`` over 50, so that the default of 0.05, made for trees, becomes 0.001.
    ``num_leaves`` has no meaning. The parameters are those of `NetworkShape`. On the CPU a training
    is repeatable for the same number of threads.

    A network is trained beside trees, in a committee or a comparison, by ``"torch:LOSS"``, with
    parameters of the network among those of the loss:
    ``loss=["lambdarank", "torch:xendcg(hidden=64/32)"]``. Its epochs are then 30.
    """

    name: ClassVar[str] = "torch"
    model_class: ClassVar[type[FittedModel]] = TorchModel
    one_at_a_time: ClassVar[bool] = True

    def train(self, task: Task, settings: Settings, monitor: TrainingMonitor) -> FittedModel:
        """Train until `monitor` says stop, and return the network of the best epoch.

        Args:
            task: what to learn from what.
            settings: how to train; `extra` holds the parameters of `NetworkShape`.
            monitor: judges each epoch.
        """
        goal = _training_goal(task, settings)
        _refuse_useless_options(task, settings)
        torch = package(self.name)
        # A lock lets one training run at a time.
        # Threads and random numbers are PyTorch's for the whole process: both are set for this
        # training, and put back after it.
        with _ONE_AT_A_TIME:
            threads_before = torch.get_num_threads()
            torch.set_num_threads(settings.threads)
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(settings.seed)
                    return _train(task, settings, goal, monitor)
            finally:
                torch.set_num_threads(threads_before)

    @classmethod
    def find_objective(cls, text: str) -> str | None:
        """Return a loss with the parameters of its network, as typed by a user, in the shortest
        spelling.

        Parameters that have their default values are left out.

        Args:
            text: what was typed after ``torch:``.

        >>> Torch.find_objective("lambdarank(k=5,hidden=[64,32])")
        'lambdarank(k=5,hidden=64/32)'
        """
        loss, network_options = _parse_network_loss(text)
        shape = NetworkShape(**network_options)
        options = {**changed_options(loss), **changed_options(shape)}
        return write_name(loss.name, options)


class _TrainingGoal(NamedTuple):
    """The loss that a network is trained for, and what the network looks like."""

    loss: Loss
    shape: NetworkShape


def _training_goal(task: Task, settings: Settings) -> _TrainingGoal:
    """Return the loss and the shape of the network that a task and its settings ask for.

    The parameters of the network are the engine's own (`Settings.extra`). Where the loss is typed
    as ``torch:LOSS(...)``, the parameters in its brackets take precedence.
    """
    options = dict(settings.extra)
    for name in options:
        if name not in _PARAMETERS:
            raise unknown("parameter of torch", name, _PARAMETERS)
    if isinstance(task.loss, NativeLoss):
        # Typed as torch:LOSS(...), perhaps as a member of a committee beside trees.
        loss, network_options = _parse_network_loss(task.loss.objective)
        options = {"epochs": _EPOCHS_BESIDE_TREES, **options, **network_options}
    else:
        assert isinstance(task.loss, Loss)
        loss = task.loss
    return _TrainingGoal(loss, NetworkShape(**options))


def _refuse_useless_options(task: Task, settings: Settings) -> None:
    """Raise an error if the user has set an option that has no meaning for a network."""
    # None for an option that is not set, or set to its default (False or empty).
    useless_options = {
        "categorical_feature": task.categorical or None,
        "cross_validate_trees": settings.cross_validate_trees or None,
        "langevin": settings.langevin,
        "init_model": task.start,
        "propensities": task.propensities,
    }
    for name, value in useless_options.items():
        if value is not None:
            raise OptionError(
                f"{name}: a network has no use for it; expected none, or the engine lightgbm"
            )


def _parse_network_loss(text: str) -> tuple[Loss, dict[str, Any]]:
    """Parse a loss such as ``xendcg(gamma=0.5,hidden=64/32)``, in whose brackets parameters of the
    network may stand.

    Losses and networks both have a parameter ``noise``: here it is the loss's.

    Returns:
        The loss, and the parameters of the network by name.
    """
    # Name and value of each option in the brackets.
    loss_class, options = REGISTRY.read(text)
    loss_options: dict[str, Any] = {}
    network_options: dict[str, Any] = {}
    for name, value in options:
        if name in _PARAMETERS and name != "noise":
            network_options[name] = value
        else:
            loss_options[name] = value
    loss = REGISTRY.make(loss_class.name, **loss_options)
    return loss, network_options


def network(n_features: int, shape: NetworkShape) -> Any:
    """Return an untrained network, a PyTorch module that scores documents.

    It takes the features, one row per document, and returns one score per row; with self-attention
    it takes the number of documents of each list too.

    Args:
        n_features: number of features.
        shape: its layers, dropout and noise.
    """
    torch = package("torch")
    nn = torch.nn
    widths = (n_features, *shape.hidden)
    last_width = widths[-1]

    class Network(nn.Module):  # type: ignore[name-defined, misc]
        """Hidden layers, perhaps self-attention over the list, and one score per document."""

        def __init__(self) -> None:
            super().__init__()
            # Mean and standard deviation of each feature, set before training.
            self.register_buffer("mean", torch.zeros(n_features))
            self.register_buffer("spread", torch.ones(n_features))
            # `widths` are the units of the input and of each hidden layer.
            layers: list[Any] = []
            for width_before, width in pairwise(widths):
                layers.append(nn.Linear(width_before, width))
                layers.append(nn.LayerNorm(width))
                layers.append(nn.ReLU())
                layers.append(nn.Dropout(shape.dropout))
            self.layers = nn.Sequential(*layers, nn.Linear(last_width, 1))
            if shape.attention:
                # The names of these layers are stored in model files.
                # To queries, keys and values (hence 3) of the attention, and back.
                self.mixed = nn.Linear(last_width, 3 * last_width)
                self.joined = nn.Linear(last_width, last_width)
                self.norm = nn.LayerNorm(last_width)

        def forward(self, features: Any, sizes: Any = None) -> Any:
            # From features to one score per document; `sizes` are the lengths of the lists.
            # Features are put on a logarithmic scale, then to mean 0 and deviation 1.
            standardised = (log_transformed(features) - self.mean) / self.spread
            x = torch.nan_to_num(standardised, nan=0.0)  # a missing value counts as the mean
            if self.training and shape.noise > 0:
                x = x + shape.noise * torch.randn_like(x)
            x = self.layers[:-1](x)  # all but the last layer, which turns units into a score
            if shape.attention:
                context = self_attention(self.mixed(x), sizes, shape.attention)
                x = self.norm(x + self.joined(context))
            scores = self.layers[-1](x)
            return scores.squeeze(-1)  # without the axis of the one output

    return Network()


def self_attention(projections: Any, sizes: Any, heads: int) -> Any:
    """Return what each document learns from the others of its list: multi-head scaled dot-product
    attention, ``softmax(q k / sqrt(units of a head)) v`` for queries q, keys k and values v.

    Args:
        projections: q, k and v side by side, one row per document.
        sizes: number of documents of each list; the lists follow each other in the rows.
        heads: number of heads, among which the units of q, k and v are divided.

    Returns:
        One row per document.
    """
    torch = package("torch")

    # Lists are padded to the longest one: a tensor of lists, places in the list, and units.
    places = torch.arange(int(sizes.max()), device=projections.device)
    is_document = places < sizes.to(projections.device)[:, None]
    n_lists, n_places = is_document.shape
    # A truth value per list and place picks the documents, in the order of the rows.
    padded = projections.new_zeros((n_lists, n_places, projections.shape[1]))
    padded[is_document] = projections

    # The units are q, k and v (hence 3), each divided among the heads; -1 is the units of a head.
    # PyTorch wants lists, heads, places and the units of a head, in this order.
    by_kind_and_head = padded.view(n_lists, n_places, 3, heads, -1)
    queries, keys, values = by_kind_and_head.unbind(dim=2)
    context = torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=is_document[:, None, None, :],  # nobody learns from padding
    )

    # The heads are put side by side again, and the padding is left out.
    heads_by_place = context.transpose(1, 2)
    padded_context = heads_by_place.reshape(n_lists, n_places, -1)
    return padded_context[is_document]


def log_transformed(features: Any) -> Any:
    """Return ``sign(x) log(1 + |x|)`` of each feature x, which brings counts and scores of any size
    to one scale.

    Args:
        features: a tensor.
    """
    return features.sign() * features.abs().log1p()


def _train(
    task: Task, settings: Settings, goal: _TrainingGoal, monitor: TrainingMonitor
) -> TorchModel:
    """Train a network for a loss, epoch by epoch, and return the network of the best epoch.

    The monitor judges the network after each epoch, and says which epoch is the best so far.
    """
    shape = goal.shape
    device = _training_device(shape)
    network_to_train = network(task.train.n_features, shape)
    # Features are standardised by the training data.
    network_to_train.mean, network_to_train.spread = _means_and_deviations(task.train)
    network_to_train.to(device)
    optimiser = package("torch").optim.AdamW(
        network_to_train.parameters(),
        lr=settings.learning_rate / _TREE_RATE_PER_ADAM_RATE,
        weight_decay=shape.weight_decay,
    )
    rng = np.random.default_rng(settings.seed)
    loss = _listwise_loss(goal.loss, settings)

    def current_scores(part: Part) -> Array:
        data = task.parts[part]
        return _network_scores(network_to_train, data.X, device, data.offsets)

    best_weights: dict[str, F32] = {}
    best_epoch = -1
    for epoch in range(shape.epochs or settings.n_estimators):
        network_to_train.train()
        query_order = rng.permutation(task.train.n_queries)
        for first in range(0, query_order.size, shape.batch_queries):
            batch_queries = query_order[first : first + shape.batch_queries]
            optimiser.zero_grad()
            batch_loss = _batch_loss(network_to_train, loss, task, batch_queries, device)
            batch_loss.backward()
            optimiser.step()

        network_to_train.eval()
        should_stop = monitor.after_round(epoch + 1, current_scores)
        if monitor.rounds_to_keep != best_epoch:
            # This epoch is the best so far.
            best_epoch = monitor.rounds_to_keep
            best_weights = _copy_of_weights(network_to_train)
        if should_stop:
            break
    return TorchModel(best_weights, shape.hidden, shape.attention)


def _training_device(shape: NetworkShape) -> str:
    """Return the device that the user asks for, or else CUDA where there is a device of it."""
    has_cuda = bool(package("torch").cuda.is_available())
    if shape.device == "cuda" and not has_cuda:
        raise OptionError(
            "device: found cuda, but PyTorch sees no CUDA device; expected cpu, or None"
        )
    if shape.device is not None:
        return shape.device
    return "cuda" if has_cuda else "cpu"


def _listwise_loss(loss: Loss, settings: Settings) -> Any:
    """Return the loss as a PyTorch module, from the scores and labels of lists to a number."""
    from tautrank.losses.torch_loss import torch_loss

    if isinstance(loss, SoftmaxLoss) and not loss.gradient_is_derivative:
        # Such a loss gives boosters the numerator of a Newton step. A network needs the derivative.
        loss = dataclasses.replace(loss, hessian="diagonal")
    return torch_loss(loss, seed=settings.seed)


def _batch_loss(module: Any, loss: Any, task: Task, queries: Array, device: str) -> Any:
    """Return the loss of a network on some training queries, as a PyTorch number from which PyTorch
    finds the gradient.

    Args:
        module: the network.
        loss: the loss as a function of scores and labels of the documents of several queries.
        task: the training data and perhaps weights, one per query.
        queries: the numbers of the queries.
        device: where to compute, such as ``cuda``.
    """
    torch = package("torch")
    batch = task.train.subset(queries)
    features = torch.from_numpy(_dense_float32(batch.X)).to(device)
    labels = torch.from_numpy(_dense_float32(batch.labels)).to(device)
    sizes = torch.from_numpy(batch.sizes)
    weights = None
    if task.weights is not None:
        weights = torch.from_numpy(task.weights[queries])
    scores = module(features, sizes)
    return loss(scores, labels, lengths=sizes, weights=weights)


def _copy_of_weights(module: Any) -> dict[str, F32]:
    """Return a copy of the network's tensors as arrays, by name."""
    weights = {}
    for name, tensor in module.state_dict().items():
        array = tensor.detach().cpu().numpy()
        # A copy, since `numpy` shares the memory of the tensor, in which training goes on.
        weights[name] = array.copy()
    return weights


def _network_scores(module: Any, X: Any, device: str, offsets: Array | None) -> Array:
    """Return a network's score of each document, found chunk by chunk to save memory.

    A network with self-attention scores whole lists, any other one any rows. The documents of a
    list begin where `offsets` says; without offsets all rows are one list.
    """
    torch = package("torch")
    n_documents = X.shape[0]
    has_attention = hasattr(module, "mixed")
    if has_attention:
        boundaries = np.array([0, n_documents]) if offsets is None else offsets
        lists_per_chunk = _LISTS_PER_CHUNK
    else:
        # Documents are scored independently: any rows may count as a list.
        boundaries = np.append(np.arange(0, n_documents, _DOCUMENTS_PER_CHUNK), n_documents)
        lists_per_chunk = 1

    chunks_of_scores = []
    with torch.no_grad():
        for first_list in range(0, boundaries.size - 1, lists_per_chunk):
            chunk_boundaries = boundaries[first_list : first_list + lists_per_chunk + 1]
            rows = _dense_float32(X[chunk_boundaries[0] : chunk_boundaries[-1]])
            features = torch.from_numpy(rows).to(device)
            sizes = torch.from_numpy(np.diff(chunk_boundaries))
            scores = module(features, sizes)
            chunks_of_scores.append(scores.cpu().numpy())
    return np.concatenate(chunks_of_scores)


def _means_and_deviations(data: RankingData) -> tuple[Any, Any]:
    """Return mean and standard deviation of each log-transformed feature, missing values left out,
    as tensors.

    The deviation of a constant feature is given as 1.
    """
    torch = package("torch")
    sums = np.zeros(data.n_features)
    sums_of_squares = np.zeros(data.n_features)
    counts = np.zeros(data.n_features)
    for first in range(0, data.n_documents, _DOCUMENTS_PER_CHUNK):
        rows = _dense_float32(data.X[first : first + _DOCUMENTS_PER_CHUNK])
        values = log_transformed(torch.from_numpy(rows).double()).numpy()
        sums += np.nansum(values, axis=0)
        sums_of_squares += np.nansum(values * values, axis=0)
        counts += np.count_nonzero(~np.isnan(values), axis=0)

    counts = np.maximum(counts, 1)
    means = sums / counts
    # Rounding may make the variance of a constant feature negative.
    variances = np.maximum(sums_of_squares / counts - means**2, 0.0)
    deviations = np.sqrt(variances)
    deviations = np.where(deviations > _SMALLEST_DEVIATION, deviations, 1.0)
    return torch.from_numpy(means).float(), torch.from_numpy(deviations).float()


def _dense_float32(X: Any) -> F32:
    """Return features or labels as a dense float32 array in C order."""
    return np.ascontiguousarray(dense(X), dtype=np.float32)


def _safetensors() -> Any:
    return require("safetensors.numpy", "a network's model file needs safetensors", "torch")
