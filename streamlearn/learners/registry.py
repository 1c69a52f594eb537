"""All learners by name. A new learner is one new class here and its row in the documentation; the tests find it through this table."""

from collections.abc import Mapping

from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Learner
from streamlearn.learners.unbudgeted import Ogd, Perceptron

LEARNERS: Mapping[str, type[Learner]] = {learner.name: learner for learner in (Perceptron, Ogd, Fogd)}
