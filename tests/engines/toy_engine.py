"""A whole engine in one file: one scikit-learn tree per round, fitted to the Newton steps
``-gradient / hessian``.
"""

import pickle

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from tautrank.engines import Engine, FittedModel
from tautrank.engines.base import RefillableLearner


class ToyModel(FittedModel):
    tool, member = "toy", "model.pickle"

    def __init__(self, rounds, n_features):
        self.rounds, self.n_features, self.n_trees = rounds, n_features, len(rounds)

    def _scores(self, X, threads):
        return sum((rate * tree.predict(X) for tree, rate in self.rounds), np.zeros(X.shape[0]))

    def importances(self):
        return sum(tree.feature_importances_ for tree, _ in self.rounds) / self.n_trees

    def to_bytes(self):
        return pickle.dumps(self.rounds)

    @classmethod
    def from_bytes(cls, content, n_features):
        return cls(pickle.loads(content), n_features)


class Learner(RefillableLearner):
    def __init__(self, task, settings):
        self.task, self.most_leaves, self.l2 = task, settings.num_leaves, 0.0
        self.grown = list(task.start.rounds) if task.start else []

    def grow(self, gradients, rate):
        gradient, hessian = gradients(self.scores("train"))
        tree = DecisionTreeRegressor(max_leaf_nodes=self.most_leaves, random_state=0)
        tree.fit(
            self.task.train.X,
            -gradient / np.maximum(hessian, 1e-6),
            sample_weight=np.maximum(hessian, 1e-6),
        )
        self.grown.append((tree, rate))

    @property
    def rounds(self):
        return len(self.grown)

    def scores(self, part):
        return ToyModel(self.grown, 0)._scores(self.task.parts[part].X, 1)

    def model(self, rounds):
        return ToyModel(self.grown[:rounds], self.task.train.n_features)

    def leaves(self, part):  # this one, the next and `l2` are for Langevin boosting
        return self.grown[-1][0].apply(self.task.parts[part].X)

    def fill(self, leaves, values):
        tree, rate = self.grown[-1]
        tree.tree_.value[leaves, 0, 0] = values / rate
        return values / rate * rate


class Toy(Engine):
    name, model_class = "toy", ToyModel
    start = Learner
