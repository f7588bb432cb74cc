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
from typing import Any, ClassVar

import numpy as np

from tautrank.arguments import check_fields, checked_by, choice, one_or_more, real, whole
from tautrank.arrays import F32, F64, Array, dense
from tautrank.data import RankingData
from tautrank.engines.base import SelfTrainingEngine
from tautrank.engines.model import FittedModel, shares
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import package
from tautrank.engines.task import NativeLoss, Settings, Task
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
        object.__setattr__(
            self,
            "hidden",
            tuple(whole("hidden", size, least=1) for size in one_or_more(self.hidden)),
        )
        check_fields(self)
        if self.attention and (not self.hidden or self.hidden[-1] % self.attention):
            found = f"{self.attention} heads with the hidden layers {self.hidden}"
            raise OptionError(
                f"attention: found {found}; expected a divisor of the units of the last layer"
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
        self.weights, self.hidden, self.attention = weights, hidden, attention
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
        return shares(
            np.sqrt((self.weights["layers.0.weight"].astype(np.float64) ** 2).sum(axis=0))
        )

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
            weights = _safetensors().load(content)
            size = int.from_bytes(content[:8], "little")
            hidden, attention = json.loads(
                json.loads(content[8 : 8 + size])["__metadata__"]["shape"]
            )
            model = cls(
                {name: np.array(array) for name, array in weights.items()}, tuple(hidden), attention
            )
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
            settings: how; `extra` holds the parameters of `NetworkShape`.
            monitor: judges each epoch.
        """
        torch, kind, chosen = package(self.name), task.loss, dict(settings.extra)
        for name in chosen:
            if name not in _PARAMETERS:
                raise unknown("parameter of torch", name, _PARAMETERS)
        if isinstance(kind, NativeLoss):
            kind, own = _network_loss(kind.objective)
            chosen = {"epochs": _EPOCHS, **chosen, **own}
        assert isinstance(kind, Loss)
        shape = NetworkShape(**chosen)
        given: dict[str, Any] = {
            "categorical_feature": task.categorical or None,
            "cross_validate_trees": settings.cross_validate_trees or None,
        }
        given |= {
            "langevin": settings.langevin,
            "init_model": task.start,
            "propensities": task.propensities,
        }
        for what, value in given.items():
            if value is not None:
                raise OptionError(
                    f"{what}: a network has no use for it; expected none, or the engine lightgbm"
                )
        with _ONE_AT_A_TIME:
            threads = torch.get_num_threads()
            torch.set_num_threads(settings.threads)
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(settings.seed)
                    return _train(task, kind, settings, shape, monitor)
            finally:
                torch.set_num_threads(threads)

    @classmethod
    def find_objective(cls, text: str) -> str | None:
        """Return a loss of this library with the parameters of the network, as they are typed.

        Args:
            text: what was typed after ``torch:``.

        >>> Torch.find_objective("lambdarank(k=5,hidden=[64,32])")
        'lambdarank(k=5,hidden=64/32)'
        """
        loss, own = _network_loss(text)
        return write_name(
            loss.name, {**changed_options(loss), **changed_options(NetworkShape(**own))}
        )


def _network_loss(text: str) -> tuple[Loss, dict[str, Any]]:
    """Return a loss and the parameters of the network that stand among its own; ``noise`` is the
    loss's.
    """
    kind, typed = REGISTRY.read(text)
    of_network = _PARAMETERS - {"noise"}
    loss = REGISTRY.make(
        kind.name, **{name: value for name, value in typed if name not in of_network}
    )
    return loss, {name: value for name, value in typed if name in of_network}


def network(n_features: int, shape: NetworkShape) -> Any:
    """Return an untrained network: features to one score per row; with attention it takes the sizes
    of lists too.

    Args:
        n_features: number of features.
        shape: its layers, dropout and noise.
    """
    torch, hidden, attention = package("torch"), shape.hidden, shape.attention
    nn = torch.nn

    class Network(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(n_features))
            self.register_buffer("spread", torch.ones(n_features))
            layers: list[Any] = []
            for before, units in zip((n_features, *hidden), hidden, strict=False):
                layers += [
                    nn.Linear(before, units),
                    nn.LayerNorm(units),
                    nn.ReLU(),
                    nn.Dropout(shape.dropout),
                ]
            last = (n_features, *hidden)[-1]
            self.layers = nn.Sequential(*layers, nn.Linear(last, 1))
            if attention:
                self.mixed = nn.Linear(last, 3 * last)
                self.joined = nn.Linear(last, last)
                self.norm = nn.LayerNorm(last)

        def forward(self, x: Any, sizes: Any = None) -> Any:
            x = (transformed(x) - self.mean) / self.spread
            x = torch.nan_to_num(x, nan=0.0)  # missing: the mean
            if self.training and shape.noise > 0:
                x = x + shape.noise * torch.randn_like(x)
            x = self.layers[:-1](x)
            if attention:
                x = self.norm(x + self.joined(attended(self.mixed(x), sizes, attention)))
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
    inside = torch.arange(int(sizes.max()), device=mixed.device) < sizes.to(mixed.device)[:, None]
    wide = mixed.new_zeros((*inside.shape, mixed.shape[1]))
    wide[inside] = mixed
    q, k, v = wide.view(*inside.shape, 3, heads, -1).permute(2, 0, 3, 1, 4)
    found = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=inside[:, None, None, :]
    )
    return found.transpose(1, 2).reshape(*inside.shape, -1)[inside]


def transformed(x: Any) -> Any:
    """``sign(x) log(1 + |x|)``, which brings counts and scores of any size to one scale.

    Args:
        x: features.
    """
    return x.sign() * x.abs().log1p()


def _train(
    task: Task, kind: Loss, settings: Settings, shape: NetworkShape, monitor: TrainingMonitor
) -> TorchModel:
    from tautrank.losses.torch_loss import torch_loss

    torch = package("torch")
    has_cuda = bool(torch.cuda.is_available())
    if shape.device == "cuda" and not has_cuda:
        raise OptionError(
            "device: found cuda, but PyTorch sees no CUDA device; expected cpu, or None"
        )
    place = shape.device or ("cuda" if has_cuda else "cpu")
    if isinstance(kind, SoftmaxLoss) and not kind.gradient_is_derivative:
        kind = dataclasses.replace(
            kind, hessian="diagonal"
        )  # the numerator of a Newton step is for boosters
    listwise = torch_loss(kind, seed=settings.seed)
    net = network(task.train.n_features, shape)
    net.mean, net.spread = _standards(task.train)
    net.to(place)
    parameters = {"lr": settings.learning_rate / _RATE, "weight_decay": shape.weight_decay}
    optimiser = torch.optim.AdamW(net.parameters(), **parameters)
    rng = np.random.default_rng(settings.seed)
    best: dict[str, F32] = {}
    best_rounds = -1
    for epoch in range(shape.epochs or settings.n_estimators):
        net.train()
        order = rng.permutation(task.train.n_queries)
        for first in range(0, order.size, shape.batch_queries):
            queries = order[first : first + shape.batch_queries]
            batch = task.train.subset(queries)
            x, labels = (
                torch.from_numpy(_single(each)).to(place) for each in (batch.X, batch.labels)
            )
            sizes = torch.from_numpy(batch.sizes)
            weights = None if task.weights is None else torch.from_numpy(task.weights[queries])
            optimiser.zero_grad()
            listwise(net(x, sizes), labels, lengths=sizes, weights=weights).backward()
            optimiser.step()
        net.eval()
        stop = monitor.after_round(
            epoch + 1,
            lambda part: _scores(net, task.parts[part].X, place, task.parts[part].offsets),
        )
        if monitor.rounds_to_keep != best_rounds:
            best = {
                name: tensor.detach().cpu().numpy().copy()
                for name, tensor in net.state_dict().items()
            }
            best_rounds = monitor.rounds_to_keep
        if stop:
            break
    return TorchModel(best, shape.hidden, shape.attention)


def _scores(net: Any, X: Any, place: str, offsets: Array | None) -> Array:
    """Score documents, or whole lists with self-attention, a part at a time; without offsets all
    rows are one list.
    """
    torch, n = package("torch"), X.shape[0]
    ends, step = np.append(np.arange(0, n, _CHUNK), n), 1
    if hasattr(net, "mixed"):
        ends, step = np.array([0, n]) if offsets is None else offsets, _LISTS
    found = []
    with torch.no_grad():
        for first in range(0, ends.size - 1, step):
            some = ends[first : first + step + 1]
            rows = torch.from_numpy(_single(X[some[0] : some[-1]])).to(place)
            found.append(net(rows, torch.from_numpy(np.diff(some))).cpu().numpy())
    return np.concatenate(found)


def _standards(data: RankingData) -> tuple[Any, Any]:
    """Mean and standard deviation of each transformed feature, missing values left out."""
    torch = package("torch")
    total, squares, count = (np.zeros(data.n_features) for _ in range(3))
    for first in range(0, data.n_documents, _CHUNK):
        x = transformed(torch.from_numpy(_single(data.X[first : first + _CHUNK])).double()).numpy()
        total += np.nansum(x, axis=0)
        squares += np.nansum(x * x, axis=0)
        count += np.count_nonzero(~np.isnan(x), axis=0)
    mean = total / np.maximum(count, 1)
    spread = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0.0))
    return torch.from_numpy(mean).float(), torch.from_numpy(
        np.where(spread > 1e-9, spread, 1.0)
    ).float()


def _single(X: Any) -> F32:
    return np.ascontiguousarray(dense(X), dtype=np.float32)


def _safetensors() -> Any:
    return require("safetensors.numpy", "a network's model file needs safetensors", "torch")
