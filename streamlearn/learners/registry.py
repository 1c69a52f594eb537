"""All learners by name. A new learner is one new class here and its row in the documentation; the tests find it through this table."""

from collections.abc import Mapping

from streamlearn.learners.auc_linear import Opauc, Solam, SpamNet
from streamlearn.learners.avm import Avm
from streamlearn.learners.budget_perceptrons import BudgetPerceptron, Forgetron, Rbp
from streamlearn.learners.budgeted_gradient import Bogd
from streamlearn.learners.dual_sgd import DualSgd
from streamlearn.learners.dual_svrg import DualSvrg
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.koil import Koil
from streamlearn.learners.linear_models import LinearOgd, LinearPassiveAggressive, LinearPerceptron
from streamlearn.learners.norma import Norma
from streamlearn.learners.nystrom import Nogd
from streamlearn.learners.pairwise import Fpogd, Kar, Oam, OgdPair
from streamlearn.learners.passive_aggressive import BpaNn, BpaP, BpaS, PassiveAggressive
from streamlearn.learners.pegasos import Bsgd, Pegasos
from streamlearn.learners.projectron import Projectron, ProjectronPlusPlus
from streamlearn.learners.protocol import Learner
from streamlearn.learners.rrf import Rrf
from streamlearn.learners.unbudgeted import Ogd, Perceptron

LEARNERS: Mapping[str, type[Learner]] = {
    learner.name: learner
    for learner in (
        Perceptron,
        Ogd,
        PassiveAggressive,
        Pegasos,
        Norma,
        Rbp,
        Forgetron,
        BudgetPerceptron,
        Projectron,
        ProjectronPlusPlus,
        BpaS,
        BpaNn,
        BpaP,
        Bogd,
        Bsgd,
        Fogd,
        Nogd,
        DualSgd,
        DualSvrg,
        Avm,
        Rrf,
        LinearPerceptron,
        LinearPassiveAggressive,
        LinearOgd,
        Fpogd,
        OgdPair,
        Kar,
        Oam,
        Opauc,
        Solam,
        SpamNet,
        Koil,
    )
}
