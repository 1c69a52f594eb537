"""What others do with the same events: predict one, then learn it. Runs in the peers' own environment, one program per process.

    .venv-bench/bin/python -m benchmarks.peer_programs NAME DATA.npz EVENTS

prints a JSON object: events, seconds (of predicting and learning; the data are in the form that the library likes best), mistakes.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
Labels = NDArray[np.int64]
WIDTH = 4.0  # of the Gaussian kernel, for features of standard deviation 1
GAMMA = 1 / (2 * WIDTH**2)
COMPONENTS = 400


class Result(NamedTuple):
    """One run."""

    events: int
    seconds: float
    mistakes: int


def river_linear(X: Features, y: Labels) -> Result:
    """River: StandardScaler | LogisticRegression."""
    from river import linear_model, preprocessing

    return _river(preprocessing.StandardScaler() | linear_model.LogisticRegression(), X, y)


def river_rbf(X: Features, y: Labels) -> Result:
    """River: StandardScaler | RBFSampler(400) | LogisticRegression."""
    from river import feature_extraction, linear_model, optim, preprocessing

    sampler = feature_extraction.RBFSampler(gamma=GAMMA, n_components=COMPONENTS, seed=1)
    return _river(preprocessing.StandardScaler() | sampler | linear_model.LogisticRegression(optim.SGD(1.0)), X, y)


def _river(model: Any, X: Features, y: Labels) -> Result:
    names = [f"f{number}" for number in range(X.shape[1])]
    events = [(dict(zip(names, row, strict=True)), label > 0) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    mistakes, began = 0, time.perf_counter()
    for features, label in events:
        mistakes += model.predict_one(features) != label
        model.learn_one(features, label)
    return Result(len(events), time.perf_counter() - began, mistakes)


def sgd(X: Features, y: Labels) -> Result:
    """scikit-learn: SGDClassifier.partial_fit, one event at a time."""
    from sklearn.linear_model import SGDClassifier

    return _sklearn(SGDClassifier(random_state=1), X, y)


def rbf_sgd(X: Features, y: Labels) -> Result:
    """scikit-learn: RBFSampler(400), then SGDClassifier.partial_fit, one event at a time."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    sampler = RBFSampler(gamma=GAMMA, n_components=COMPONENTS, random_state=1).fit(X[:1])
    return _sklearn(SGDClassifier(random_state=1), X, y, sampler.transform)


def _sklearn(model: Any, X: Features, y: Labels, transform: Callable[[Features], Features] = np.asarray) -> Result:
    """Scaled by the statistics of the whole stream beforehand, an advantage: StandardScaler alone would cost as much as learning."""
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    mistakes, began = 0, time.perf_counter()
    model.partial_fit(transform(X[:1]), y[:1], classes=[-1, 1])
    for row in range(1, len(X)):
        features = transform(X[row : row + 1])
        mistakes += int(model.predict(features)[0] != y[row])
        model.partial_fit(features, y[row : row + 1])
    return Result(len(X), time.perf_counter() - began, mistakes)


def vw_linear(X: Features, y: Labels) -> Result:
    """Vowpal Wabbit, linear, logistic loss.

    Its own driver over a text file: parsing is included, on a second thread.
    """
    from vowpalwabbit import Workspace

    with tempfile.TemporaryDirectory() as folder:
        text, predictions = Path(folder) / "events.txt", Path(folder) / "predictions.txt"
        text.write_text("\n".join(_vw_lines(X, y)) + "\n")
        began = time.perf_counter()
        Workspace(f"-d {text} -p {predictions} --loss_function logistic --no_stdin --quiet").finish()
        seconds = time.perf_counter() - began
        scores = np.array([float(line.split()[0]) for line in predictions.read_text().splitlines()])
    return Result(len(X), seconds, int(np.count_nonzero((scores >= 0) != (y > 0))))


def vw_ksvm(X: Features, y: Labels) -> Result:
    """Vowpal Wabbit --ksvm, Gaussian kernel.

    Through its Python interface, parsing not counted: its driver does not end on a file with --ksvm.
    """
    from vowpalwabbit import Workspace

    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = Workspace(f"--ksvm --kernel rbf --bandwidth {GAMMA} --l2 0.001 --quiet")
    examples = [model.parse(line) for line in _vw_lines(X, y)]
    mistakes, began = 0, time.perf_counter()
    for example, label in zip(examples, y.tolist(), strict=True):
        model.learn(example)  # predicts first
        mistakes += (example.get_simplelabel_prediction() >= 0) != (label > 0)
    seconds = time.perf_counter() - began
    for example in examples:
        model.finish_example(example)
    return Result(len(X), seconds, mistakes)


def _vw_lines(X: Features, y: Labels) -> Iterator[str]:
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        yield f"{label} | " + " ".join(f"{number}:{value:.6g}" for number, value in enumerate(row))


def svc(X: Features, y: Labels) -> Result:
    """LIBSVM (scikit-learn's SVC)."""
    from sklearn.svm import SVC

    return _batch(SVC(gamma=GAMMA), X, y)


def nystrom(X: Features, y: Labels) -> Result:
    """LLSVM (Nystroem(400), LinearSVC)."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    return _batch(make_pipeline(Nystroem(gamma=GAMMA, n_components=COMPONENTS, random_state=1), LinearSVC(random_state=1)), X, y)


def _batch(model: Any, X: Features, y: Labels) -> Result:
    """A reference of accuracy: trained on the first half in one batch, judged on the second."""
    X, half = (X - X.mean(axis=0)) / X.std(axis=0), len(X) // 2
    began = time.perf_counter()
    model.fit(X[:half], y[:half])
    mistakes = int(np.count_nonzero(model.predict(X[half:]) != y[half:]))
    return Result(len(X) - half, time.perf_counter() - began, mistakes)


PROGRAMS: dict[str, Callable[[Features, Labels], Result]] = {
    program.__name__: program for program in (river_rbf, river_linear, vw_linear, vw_ksvm, sgd, rbf_sgd, svc, nystrom)
}


def main() -> None:
    name, path, count = sys.argv[1:]
    with np.load(path, allow_pickle=False) as data:
        X, y = data["X"][: int(count)], data["y"][: int(count)]
    result = PROGRAMS[name](X, y)
    print(json.dumps(result._asdict()))


if __name__ == "__main__":
    main()
