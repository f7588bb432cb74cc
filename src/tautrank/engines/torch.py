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
_RATE = 50.0
# Documents scored at a time, or lists with self-attention.
_CHUNK, _LISTS = 65_536, 64
# Epochs of a network beside trees, whose number means nothing to it.
_EPOCHS = 30
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
        object.__setattr__(self, "hidden", hidden)
        check_fields(self)
        divides_last_layer = hidden and hidden[-1] % max(1, self.attention) == 0
        if self.attention and not divides_last_layer:
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
        self.by_list = attention > 0
        self.n_features = int(weights["mean"].size)
        self.n_trees = 0

    @functools.cached_property
    def network(self) -> Any:
        """The network as a PyTorch module, in evaluation mode."""
        tensor = package("torch").from_numpy
        made = network(self.n_features, NetworkShape(self.hidden, attention=self.attention))
        made.load_state_dict({name: tensor(array) for name, array in self.weights.items()})
        return made.eval()

    def _scores(self, X: Any, threads: int, offsets: Array | None = None) -> Any:
        return _scores(self.network, X, "cpu", offsets)

    def importances(self) -> F64:
        """Return the length of each feature's weights in the first layer, as shares that sum to
        1.
        """
        first_layer = self.weights["layers.0.weight"].astype(np.float64)
        return shares(np.sqrt((first_layer**2).sum(axis=0)))

    def to_bytes(self) -> bytes:
        """Return the weights as safetensors, with the shape of the network in the header."""
        # One entry: safetensors writes several in any order, and a model has the same bytes each
        # time it is saved.
        about = {"shape": json.dumps([self.hidden, self.attention])}
        return bytes(_safetensors().save(dict(sorted(self.weights.items())), metadata=about))

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> TorchModel:
        """Read safetensors.

        Args:
            content: what `to_bytes` returned.
            n_features: number of features that the model must have.
        """
        try:
            tensors = _safetensors().load(content)
            weights = {name: np.array(array) for name, array in tensors.items()}
            size_of_header = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + size_of_header])
            hidden, attention = json.loads(header["__metadata__"]["shape"])
            model = cls(weights, tuple(hidden), attention)
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
        training = _training(task, settings)
        _check_use(task, settings)
        torch = package(self.name)
        with _ONE_AT_A_TIME:
            threads_before = torch.get_num_threads()
            torch.set_num_threads(settings.threads)
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(settings.seed)
                    return _train(task, settings, training, monitor)
            finally:
                torch.set_num_threads(threads_before)

    @classmethod
    def find_objective(cls, text: str) -> str | None:
        """Return a loss of this library with the parameters of the network, as they are typed.

        Args:
            text: what was typed after ``torch:``.

        >>> Torch.find_objective("lambdarank(k=5,hidden=[64,32])")
        'lambdarank(k=5,hidden=64/32)'
        """
        loss, network_options = _network_loss(text)
        shape = NetworkShape(**network_options)
        return write_name(loss.name, {**changed_options(loss), **changed_options(shape)})


class _Training(NamedTuple):
    """What a network is trained for, and what it looks like."""

    loss: Loss
    shape: NetworkShape


def _training(task: Task, settings: Settings) -> _Training:
    """Return what to train, from the loss and the parameters of the engine."""
    options = dict(settings.extra)
    for name in options:
        if name not in _PARAMETERS:
            raise unknown("parameter of torch", name, _PARAMETERS)
    if isinstance(task.loss, NativeLoss):
        loss, network_options = _network_loss(task.loss.objective)
        options = {"epochs": _EPOCHS, **options, **network_options}
    else:
        assert isinstance(task.loss, Loss)
        loss = task.loss
    return _Training(loss, NetworkShape(**options))


def _check_use(task: Task, settings: Settings) -> None:
    """Refuse what a network has no use for."""
    useless = {
        "categorical_feature": task.categorical or None,
        "cross_validate_trees": settings.cross_validate_trees or None,
        "langevin": settings.langevin,
        "init_model": task.start,
        "propensities": task.propensities,
    }
    for name, value in useless.items():
        if value is not None:
            raise OptionError(
                f"{name}: a network has no use for it; expected none, or the engine lightgbm"
            )


def _network_loss(text: str) -> tuple[Loss, dict[str, Any]]:
    """Return a loss and the parameters of the network that stand among its own; ``noise`` is the
    loss's.
    """
    loss_class, options = REGISTRY.read(text)
    loss_options: dict[str, Any] = {}
    network_options: dict[str, Any] = {}
    for name, value in options:
        is_of_network = name in _PARAMETERS and name != "noise"
        (network_options if is_of_network else loss_options)[name] = value
    return REGISTRY.make(loss_class.name, **loss_options), network_options


def network(n_features: int, shape: NetworkShape) -> Any:
    """Return an untrained network: features to one score per row; with attention it takes the sizes
    of lists too.

    Args:
        n_features: number of features.
        shape: its layers, dropout and noise.
    """
    torch = package("torch")
    nn = torch.nn
    widths = (n_features, *shape.hidden)

    class Network(nn.Module):  # type: ignore[name-defined, misc]
        """Hidden layers, perhaps self-attention over the list, and one score per document."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(n_features))
            self.register_buffer("spread", torch.ones(n_features))
            layers: list[Any] = []
            for width_before, width in pairwise(widths):
                layers.append(nn.Linear(width_before, width))
                layers.append(nn.LayerNorm(width))
                layers.append(nn.ReLU())
                layers.append(nn.Dropout(shape.dropout))
            last = widths[-1]
            self.layers = nn.Sequential(*layers, nn.Linear(last, 1))
            if shape.attention:
                self.mixed = nn.Linear(last, 3 * last)
                self.joined = nn.Linear(last, last)
                self.norm = nn.LayerNorm(last)

        def forward(self, x: Any, sizes: Any = None) -> Any:
            x = (transformed(x) - self.mean) / self.spread
            x = torch.nan_to_num(x, nan=0.0)  # missing: the mean
            if self.training and shape.noise > 0:
                x = x + shape.noise * torch.randn_like(x)
            x = self.layers[:-1](x)
            if shape.attention:
                context = attended(self.mixed(x), sizes, shape.attention)
                x = self.norm(x + self.joined(context))
            return self.layers[-1](x).squeeze(-1)

    return Network()


def attended(mixed: Any, sizes: Any, heads: int) -> Any:
    """Self-attention within each list: ``softmax(q k / sqrt(units of a head)) v``.

    Args:
        mixed: queries, keys and values side by side, one row per document.
        sizes: documents of each list.
        heads: number of heads.
    """
    torch = package("torch")
    places = torch.arange(int(sizes.max()), device=mixed.device)
    is_document = places < sizes.to(mixed.device)[:, None]
    padded = mixed.new_zeros((*is_document.shape, mixed.shape[1]))
    padded[is_document] = mixed
    q, k, v = padded.view(*is_document.shape, 3, heads, -1).permute(2, 0, 3, 1, 4)
    context = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=is_document[:, None, None, :]
    )
    return context.transpose(1, 2).reshape(*is_document.shape, -1)[is_document]


def transformed(x: Any) -> Any:
    """``sign(x) log(1 + |x|)``, which brings counts and scores of any size to one scale.

    Args:
        x: features.
    """
    return x.sign() * x.abs().log1p()


def _train(
    task: Task, settings: Settings, training: _Training, monitor: TrainingMonitor
) -> TorchModel:
    """Train a network epoch by epoch, and return that of the best epoch."""
    torch = package("torch")
    shape = training.shape
    device = _device(shape)
    net = network(task.train.n_features, shape)
    net.mean, net.spread = _standards(task.train)
    net.to(device)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=settings.learning_rate / _RATE, weight_decay=shape.weight_decay
    )
    rng = np.random.default_rng(settings.seed)
    loss = _listwise_loss(training.loss, settings)

    def scores(part: Part) -> Array:
        data = task.parts[part]
        return _scores(net, data.X, device, data.offsets)

    best_weights: dict[str, F32] = {}
    best_rounds = -1
    for epoch in range(shape.epochs or settings.n_estimators):
        net.train()
        order = rng.permutation(task.train.n_queries)
        for first in range(0, order.size, shape.batch_queries):
            optimiser.zero_grad()
            queries = order[first : first + shape.batch_queries]
            _batch_loss(net, loss, task, queries, device).backward()
            optimiser.step()
        net.eval()
        stop = monitor.after_round(epoch + 1, scores)
        if monitor.rounds_to_keep != best_rounds:
            best_weights = _weights(net)
            best_rounds = monitor.rounds_to_keep
        if stop:
            break
    return TorchModel(best_weights, shape.hidden, shape.attention)


def _device(shape: NetworkShape) -> str:
    """Return where to train."""
    has_cuda = bool(package("torch").cuda.is_available())
    if shape.device == "cuda" and not has_cuda:
        raise OptionError(
            "device: found cuda, but PyTorch sees no CUDA device; expected cpu, or None"
        )
    return shape.device or ("cuda" if has_cuda else "cpu")


def _listwise_loss(loss: Loss, settings: Settings) -> Any:
    """Return the loss as a module of PyTorch."""
    from tautrank.losses.torch_loss import torch_loss

    if isinstance(loss, SoftmaxLoss) and not loss.gradient_is_derivative:
        # The numerator of a Newton step is for boosters.
        loss = dataclasses.replace(loss, hessian="diagonal")
    return torch_loss(loss, seed=settings.seed)


def _batch_loss(net: Any, loss: Any, task: Task, queries: Array, device: str) -> Any:
    """Return the loss of some queries, from which PyTorch finds the gradient."""
    torch = package("torch")
    batch = task.train.subset(queries)
    x = torch.from_numpy(_single(batch.X)).to(device)
    labels = torch.from_numpy(_single(batch.labels)).to(device)
    sizes = torch.from_numpy(batch.sizes)
    weights = None if task.weights is None else torch.from_numpy(task.weights[queries])
    return loss(net(x, sizes), labels, lengths=sizes, weights=weights)


def _weights(net: Any) -> dict[str, F32]:
    """Return a copy of the network's tensors as arrays, by name."""
    weights = {}
    for name, tensor in net.state_dict().items():
        weights[name] = tensor.detach().cpu().numpy().copy()
    return weights


def _scores(net: Any, X: Any, device: str, offsets: Array | None) -> Array:
    """Score documents, or whole lists with self-attention, a part at a time; without offsets all
    rows are one list.
    """
    torch = package("torch")
    n = X.shape[0]
    if hasattr(net, "mixed"):
        ends = np.array([0, n]) if offsets is None else offsets
        step = _LISTS
    else:
        ends = np.append(np.arange(0, n, _CHUNK), n)
        step = 1
    scores_of_chunks = []
    with torch.no_grad():
        for first in range(0, ends.size - 1, step):
            ends_of_lists = ends[first : first + step + 1]
            rows = _single(X[ends_of_lists[0] : ends_of_lists[-1]])
            sizes = torch.from_numpy(np.diff(ends_of_lists))
            scores = net(torch.from_numpy(rows).to(device), sizes)
            scores_of_chunks.append(scores.cpu().numpy())
    return np.concatenate(scores_of_chunks)


def _standards(data: RankingData) -> tuple[Any, Any]:
    """Mean and standard deviation of each transformed feature, missing values left out."""
    torch = package("torch")
    total = np.zeros(data.n_features)
    squares = np.zeros(data.n_features)
    counts = np.zeros(data.n_features)
    for first in range(0, data.n_documents, _CHUNK):
        chunk = torch.from_numpy(_single(data.X[first : first + _CHUNK])).double()
        x = transformed(chunk).numpy()
        total += np.nansum(x, axis=0)
        squares += np.nansum(x * x, axis=0)
        counts += np.count_nonzero(~np.isnan(x), axis=0)
    counts = np.maximum(counts, 1)
    mean = total / counts
    spread = np.sqrt(np.maximum(squares / counts - mean**2, 0.0))
    spread = np.where(spread > 1e-9, spread, 1.0)
    return torch.from_numpy(mean).float(), torch.from_numpy(spread).float()


def _single(X: Any) -> F32:
    return np.ascontiguousarray(dense(X), dtype=np.float32)


def _safetensors() -> Any:
    return require("safetensors.numpy", "a network's model file needs safetensors", "torch")
