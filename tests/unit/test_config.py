"""The configuration: what a ten-line file means, and what people are told when a file is wrong."""

from pathlib import Path

import pytest

from streamlearn.bundled import FLIGHTS_CONFIG, TEMPLATE
from streamlearn.config import Config, ConfigError, load, make_learner
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.registry import LEARNERS

TEN_LINES = """
[kafka]
bootstrap = "broker:9092"

[[streams]]
name = "payments"
key = "merchant"
label = "fraud"
numeric = ["amount", "hour"]

[streams.learner]
name = "fogd"
"""


def load_text(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "streamlearn.toml"
    path.write_text(text)
    return load(path)


def test_ten_lines_are_enough(tmp_path: Path) -> None:
    config = load_text(tmp_path, TEN_LINES)
    stream = config.streams[0]
    assert config.kafka.bootstrap == "broker:9092"
    assert (stream.input_topic, stream.output_topic) == ("payments.events", "payments.predictions")
    assert isinstance(stream.model_spec(2, "float32").pipeline.learner, Fogd)
    assert config.topic_kinds() == {
        "streamlearn.control": "control",
        "payments.events": "events",
        "payments.predictions": "predictions",
        "payments.models": "models",
        "payments.dead-letters": "dead-letters",
    }


@pytest.mark.parametrize("path", [TEMPLATE, FLIGHTS_CONFIG], ids=["template", "flights"])
def test_bundled_files_are_valid(path: Path) -> None:
    assert load(path).streams


def test_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLEARN_KAFKA__BOOTSTRAP", "elsewhere:1")
    monkeypatch.setenv("STREAMLEARN_WORKER__BATCH_SIZE", "7")
    config = load_text(tmp_path, TEN_LINES)
    assert config.kafka.bootstrap == "elsewhere:1"
    assert config.worker.batch_size == 7


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("numeric =", "numerc =", "streams.0.numerc is not a setting; did you mean 'numeric'?"),
        ("bootstrap =", "bootstrp =", "kafka.bootstrp is not a setting; did you mean 'bootstrap'?"),
        ("[kafka]", "[kafak]", "kafak is not a setting; did you mean 'kafka'?"),
        ('"fogd"', '"fgod"', "there is no learner 'fgod'; did you mean 'fogd'?"),
        ('"fogd"', '"fogd"\nfrequncies = 3', "no hyper-parameter 'frequncies'; did you mean 'frequencies'?"),
        ('"fogd"', '"fogd"\neta = -1', "eta = -1"),
        ('"fogd"', '"fogd"\nsigma = 1\ngamma = 1', "set one of them"),
        ('"fogd"', '"fogd"\ngamma = "wide"', "gamma = 'wide' must be a number"),
        ('name = "payments"', 'name = "pay ments"', "streams.0.name = 'pay ments'"),
        ('numeric = ["amount", "hour"]', 'array = "x"', "`array` and `dim`"),
        ('numeric = ["amount", "hour"]', "", "name either the feature fields"),
        ('label = "fraud"', 'label = "fraud"\nlabels = [1, 2, 3]', "a pair [negative, positive]"),
        ('label = "fraud"', 'label = "fraud"\nlabels = [1, "1"]', "must differ as text"),
        ('label = "fraud"', 'label = "fraud"\ntask = "ranking"', "learner fogd is not for task = 'ranking'"),
        ("[kafka]", "[worker]\ncommit_interval = 0\n[kafka]", "worker.commit_interval = 0"),
        ("[kafka]", "[kafka", "is not TOML"),
        ('key = "merchant"', 'key = "amount"', "amount"),
    ],
)
def test_errors_name_field_value_and_remedy(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in TEN_LINES
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path, TEN_LINES.replace(old, new))
    assert told in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="streamlearn init"):
        load(tmp_path / "nothing.toml")


def test_streams_must_differ(tmp_path: Path) -> None:
    stream = TEN_LINES[TEN_LINES.index("[[streams]]") :]
    with pytest.raises(ConfigError, match="two streams share 'payments'"):
        load_text(tmp_path, TEN_LINES + stream)


def test_secrets_come_from_a_file(tmp_path: Path) -> None:
    secrets = tmp_path / "kafka.properties"
    secrets.write_text("# comment\nsasl.password = a=b\n")
    config = load_text(tmp_path, TEN_LINES.replace("[kafka]", f'[kafka]\nsecrets_file = "{secrets}"'))
    assert config.kafka.client_properties()["sasl.password"] == "a=b"
    assert "a=b" not in repr(config)
    secrets.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        config.kafka.client_properties()


def test_gamma_is_sigma() -> None:
    assert make_learner({"name": "fogd", "gamma": 0.5}) == make_learner({"name": "fogd", "sigma": 1.0})


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_has_defaults(name: str) -> None:
    assert make_learner({"name": name}) == LEARNERS[name]()
