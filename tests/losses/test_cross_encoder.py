"""The adapter for sentence-transformers, tried on a tiny model that is built from a
configuration.
"""

from __future__ import annotations

import pytest

from tautrank.errors import DataError, OptionError

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install 'tautrank[torch]'"
)

from tautrank.losses.cross_encoder import CrossEncoderLoss  # noqa: E402

WORDS = ["red", "blue", "green", "shoes", "coat", "hat"]


class Overlap(torch.nn.Module):
    num_labels, device = 1, "cpu"

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.seen: list[int] = []

    def preprocess(self, pairs, **prompts):
        self.seen.append(len(pairs))
        return {
            "words": torch.tensor([float(len({*a.split()} & {*b.split()})) for a, b in pairs]),
            "prompts": prompts,
        }

    def forward(self, features):
        return {"scores": self.weight * features["words"]}


BATCH = [
    ["red shoes", "blue coat"],
    [["red shoes", "blue hat", "red hat"], ["green hat", "blue coat"]],
]
LABELS = [torch.tensor([2, 0, 1]), torch.tensor([0.0, 1.0])]


@pytest.mark.parametrize("size", [None, 1, 2])
def test_the_loss_is_that_of_the_lists_of_scores(size: int | None) -> None:
    import tautrank as tr

    model = Overlap()
    loss = CrossEncoderLoss(model, "lambdarank", mini_batch_size=size, k=5)
    value = loss(BATCH, LABELS)
    value.backward()
    scores, labels = torch.tensor([2.0, 0, 1, 0, 2]), torch.tensor([2.0, 0, 1, 0, 1])
    expected = tr.torch_loss("lambdarank", k=5)(scores, labels, lengths=torch.tensor([3, 2]))
    assert value.item() == expected.item()
    assert float(model.weight.grad) < 0
    assert max(model.seen) == (size or 5)
    assert loss.get_config_dict()["loss"] == "lambdarank(k=5)"


def test_bad_input_is_one_sentence() -> None:
    loss = CrossEncoderLoss(Overlap(), "listnet")
    with pytest.raises(
        DataError, match="expected a query, a list of documents and a list of labels"
    ):
        loss([["a"], ["b"], ["c"]], LABELS)
    with pytest.raises(DataError, match=r"labels: found \[3\] per query; expected \[3, 2\]"):
        loss(BATCH, LABELS[:1])
    two = Overlap()
    two.num_labels = 2
    with pytest.raises(OptionError, match="model: found 2 outputs; expected one"):
        CrossEncoderLoss(two, "listnet")


def test_a_tiny_cross_encoder_learns_by_its_trainer(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # accelerate would set it for all tests that follow
    reason = "sentence-transformers is not installed: pip install sentence-transformers datasets accelerate"
    pytest.importorskip("sentence_transformers", reason=reason)
    datasets = pytest.importorskip("datasets", reason=reason)
    pytest.importorskip("accelerate", reason=reason)
    from sentence_transformers.cross_encoder import (
        CrossEncoder,
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
    )
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    )
    tokens = BertTokenizerFast(str(tmp_path / "vocab.txt"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5 + len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        num_labels=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        initializer_range=0.3,  # with the default so small a network stays on a plateau of equal scores
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokens.save_pretrained(tmp_path / "model")
    model = CrossEncoder(str(tmp_path / "model"), device="cpu")
    rows = {"query": ["red", "blue", "green"] * 8, "docs": [["red hat", "blue coat", "green shoes"]] * 24,
            "labels": [[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 8}  # fmt: skip
    loss = CrossEncoderLoss(model, "ndcg-loss2++", mini_batch_size=32)
    pairs = [("red", "red hat"), ("red", "blue coat"), ("blue", "blue coat"), ("blue", "red hat")]
    arguments = CrossEncoderTrainingArguments(
        output_dir=str(tmp_path / "out"), num_train_epochs=25, per_device_train_batch_size=12, learning_rate=0.003,
        report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    train = datasets.Dataset.from_dict(rows)
    CrossEncoderTrainer(model=model, args=arguments, train_dataset=train, loss=loss).train()
    scores = model.predict(pairs)
    assert scores[0] > scores[1]
    assert scores[2] > scores[3]
