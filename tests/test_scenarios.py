"""The scenarios: one head for all classes seen, each method's loss in it by hand, and runs without tasks."""

import copy
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

import samc
from networks import make
from samc.config import RunConfig
from samc.engine import Batch
from samc.errors import ConfigError
from samc.learners import LEARNERS, configure, rules
from samc.learners.ewc import fisher
from samc.learners.icarl import ICaRL, binary_loss
from samc.learners.scenario import BOUNDARIES, SCENARIOS, Scenario
from samc.models import Classifier, Heads, probe
from samc.models.classifier import confined
from samc.report.terms import differing_terms
from samc.saliency.grad_cam import saliency_map
from toys import Replaying, coloured_squares, random_batch

SHAPE = (3, 8, 8)
TASKS = ((0, 1), (2, 3), (4, 5))
SEEN = [0, 1, 2, 3]
# once the second task has begun
PLAIN = {"average": 0.0, "augment": "none", "distil": 0.0, "replay_size": 0, "replay_weight": 0.0, "codec": "raw"}
PLAIN |= {"replay_current": False}
# of SAMC: the others' defaults are plain


def learner(name, scenario="class", **given):
    """With a small network, plain steps and three tasks that are known."""
    kind = LEARNERS[name]
    plain = PLAIN if name == "samc" else {}
    if given.get("boundaries") == "hidden":  # all memory is replayed, whatever this says
        plain = {setting: value for setting, value in plain.items() if setting != "replay_current"}
    known = {"task_classes": TASKS if scenario != "domain" else [(0, 1)] * 3}
    known = {} if given.get("boundaries") == "hidden" else known
    given = {"lr": 0.05, "seed": 1, **plain, **known, "scenario": scenario, **given}
    return kind(6, SHAPE, model=make("biases"), **given)


def parameters(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def batch(task, seed=0, count=6):
    return random_batch(count, SHAPE, TASKS[task], seed=seed)


def with_a_past(name, **given):
    """A learner that has learnt the first task, and has begun the second."""
    subject = learner(name, **given)
    (first, *_) = tasks()
    for x, y in first.batches(4):
        subject.observe(x, y, 0)
    subject.end_task(first)
    subject.begin(1)
    return subject


def tasks():
    """Three tasks of eight images, four of each class."""
    return [samc.Task.from_arrays(*random_batch(8, SHAPE, classes, seed=task), id=task, classes=classes)
            for task, classes in enumerate(TASKS)]  # fmt: skip


def logits_of(model, x):
    """Of all classes, in train mode."""
    return model.heads.linear(model.pooled(model.train().features(x.float() / 255)))


def entropy(logits, y, classes):
    """Cross-entropy of each image among some classes, by the definition."""
    chosen = torch.tensor(list(classes))
    return logits[:, chosen].logsumexp(1) - logits[torch.arange(len(y)), y]


def stepped(subject, loss):
    """The parameters after a step of SGD along the gradient of a loss of the network."""
    model = copy.deepcopy(subject.model)
    grads = torch.autograd.grad(loss(model), list(model.parameters()), allow_unused=True)
    pairs = zip(model.parameters(), grads, strict=True)
    moved = [p.detach() - 0.05 * (torch.zeros_like(p) if grad is None else grad) for p, grad in pairs]
    return torch.cat([part.flatten() for part in moved])


def step_is(subject, loss, x, y, task=1):
    """Whether a step of the learner is that of a loss written by hand."""
    expected = stepped(subject, loss)
    subject.observe(x, y, task)
    torch.testing.assert_close(parameters(subject.model), expected, rtol=1e-4, atol=1e-6)


def drawing(subject, monkeypatch, seed=7, task=0):
    """The images that a learner will replay, which are always these."""
    x, y = batch(task, seed, 4)
    drawn = Batch(x.float() / 255, y, task)
    monkeypatch.setattr(subject.replay, "draw", lambda beside: [drawn])
    return drawn


# -- one head


def head(shared=True):
    """Two features and four classes, whose logits are 0, ln 2, ln 3 and ln 4 whatever the image."""
    heads = Heads(2, 4, shared=shared)
    with torch.no_grad():
        heads.linear.weight.zero_()
        heads.linear.bias.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]).log())
    for task, classes in enumerate(((0, 2), (1, 3))):
        heads.assign(task, classes)
    return heads


def test_a_shared_head_chooses_between_the_classes_seen_whatever_the_task():
    heads = head()
    assert heads.choices == {0: ()}
    heads.see((2, 0))
    assert heads.choices == {0: (0, 2)}
    torch.testing.assert_close(heads(torch.zeros(1, 2), 1).exp(), torch.tensor([[1.0, 3.0]]))
    assert heads.positions(torch.tensor([2, 0]), 1).tolist() == [1, 0]
    version = heads.version
    heads.see((1,))
    assert heads.version > version  # what was recorded is recorded anew
    torch.testing.assert_close(heads(torch.zeros(1, 2), 0).exp(), torch.tensor([[1.0, 2.0, 3.0]]))
    assert heads.masks(torch.tensor([0, 1, 7])).tolist() == [[True, True, True, False]] * 3
    heads.see((1, 2))
    assert heads.version == version + 1
    again = Heads(2, 4, shared=True)
    again.load_state_dict(heads.state_dict())
    assert again.seen == (0, 1, 2)


def test_a_head_per_task_knows_nothing_of_what_was_seen():
    heads = head(shared=False)
    version = heads.version
    heads.see((0, 1, 2))
    assert (heads.version, heads.seen, heads.choices) == (version, (), {0: (0, 2), 1: (1, 3)})
    assert heads.get_extra_state().keys() == {"task_classes"}


@torch.no_grad()
def test_the_loss_of_a_shared_head_by_hand():
    """Among all that were seen ln 10; a batch that is confined to 0 and 1 has ln 3 and ln 3/2."""
    heads, net = head(), make("biases")
    heads.see(range(4))
    model = Classifier(net, heads, probe(net, SHAPE))
    x, y = torch.zeros(2, 2), torch.tensor([0, 1])
    free, own = Batch(x, y, 0), Batch(x, y, 0, torch.tensor([[True, True, False, False]] * 2))
    share = torch.tensor([0.25, 0.25])
    assert float(model.loss_by_task(x, [free], share)) == pytest.approx((np.log(10) + np.log(5)) / 4, rel=1e-6)
    assert float(model.loss_by_task(x, [own], share)) == pytest.approx((np.log(3) + np.log(1.5)) / 4, rel=1e-6)
    both = model.loss_by_task(torch.cat([x, x]), [own, free], torch.cat([share, share]))
    assert float(both) == pytest.approx((np.log(3) + np.log(1.5) + np.log(10) + np.log(5)) / 4, rel=1e-6)
    assert model.joined([free, own])[2].tolist() == [[True] * 4] * 2 + [[True, True, False, False]] * 2
    assert confined([free]) is None


# -- each method's loss


@pytest.mark.parametrize("name", ["finetune", "joint", "gem", "agem", "er", "mer", "der", "samc"])
def test_without_a_past_every_class_seen_is_in_the_loss(name):
    """Those of the first task alone: what has been declared is not seen."""
    subject = learner(name, **({"meta_lr": 1.0} if name == "mer" else {}))
    x, y = batch(0)
    subject.begin(0)
    step_is(subject, lambda model: entropy(logits_of(model, x), y, (0, 1)).mean(), x, y, 0)


PLAIN_STEP = {"mer": {"meta_lr": 1.0}, "eec": {"encoder_steps": 2, "buffer_size": 40}}
# with which these make one plain step on batch and replay


def with_what_is_replayed(name, subject, x, y, monkeypatch):
    """Images and labels of a batch and of what a step will draw beside it, which is fixed here."""
    if name == "eec":
        subject.decay = {0: 0.0}  # what is painted counts as much as what is true
    if name == "finetune":
        return x, y
    if name == "joint":
        drawn = batch(0, 7, 4)
        monkeypatch.setattr(subject, "draw", lambda task, count: Batch(drawn[0].float() / 255, drawn[1], task))
        return torch.cat([x, drawn[0]]), torch.cat([y, drawn[1]])
    drawn = drawing(subject, monkeypatch)
    return torch.cat([x, (drawn.x * 255).to(torch.uint8)]), torch.cat([y, drawn.y])


@pytest.mark.parametrize("name", ["finetune", "joint", "er", "mer", "samc", "eec"])
def test_batch_and_replay_are_learnt_among_all_classes_seen(name, monkeypatch):
    subject = with_a_past(name, **PLAIN_STEP.get(name, {}))
    x, y = batch(1)
    images, labels = with_what_is_replayed(name, subject, x, y, monkeypatch)

    def loss(model):
        return entropy(logits_of(model, images), labels, SEEN).mean()

    step_is(subject, loss, x, y)


@pytest.mark.parametrize("kind", ["batch", "task", "seen"])
@pytest.mark.parametrize("name", ["er", "mer", "samc"])
def test_er_ace_learns_a_batch_among_its_own_classes_and_the_replay_among_all(name, kind, monkeypatch):
    more = {"meta_lr": 1.0} if name == "mer" else {}
    subject = with_a_past(name, batch_classes=kind, replay_weight=1.0, **more)
    x, y = batch(1)
    y = torch.full_like(y, 3)  # of one class alone: among the batch's own its loss is nothing
    drawn = drawing(subject, monkeypatch)
    own = {"batch": [3], "task": TASKS[1], "seen": SEEN}[kind]

    def loss(model):
        logits = logits_of(model, torch.cat([x, (drawn.x * 255).to(torch.uint8)]))
        return entropy(logits[:6], y, own).mean() + entropy(logits[6:], drawn.y, SEEN).mean()

    step_is(subject, loss, x, y)


def test_er_ace_in_the_parts_of_mers_inner_steps():
    """Each image keeps the classes that its loss runs over, whatever part it comes to."""
    subject = with_a_past("mer", batch_classes="task", inner_steps=2)
    new, old = subject.as_batch(*batch(1), 1), subject.replay.draw(6)
    for (part,), _ in subject.parts([new, *old], None):
        masks = subject.model.masks([part])
        for label, row in zip(part.y.tolist(), masks.tolist(), strict=True):
            assert [place for place, inside in enumerate(row) if inside] == ([2, 3] if label in (2, 3) else SEEN)


def test_gem_has_a_constraint_by_memory_each_among_all_classes_seen(monkeypatch):
    subject, found = with_a_past("gem"), []
    monkeypatch.setattr(rules, "project", lambda g, past, margin: found.append((g.clone(), past.clone())) or g)
    (memory,), (x, y) = subject.past, batch(1)

    def gradient(images, labels):
        model = copy.deepcopy(subject.model)
        loss = entropy(model.heads.linear(model.pooled(model.train().features(images))), labels, SEEN).mean()
        return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(model.parameters()))])

    expected = gradient(x.float() / 255, y), gradient(memory.x, memory.y)
    subject.observe(x, y, 1)
    torch.testing.assert_close(found[0][0], expected[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found[0][1][0], expected[1], rtol=1e-4, atol=1e-6)


@torch.no_grad()
def move_away(model):
    """From the teacher that it has just been copied to: there distillation has no gradient."""
    random = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape, generator=random))


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_lwf_distils_the_old_classes_as_one_head(scenario):
    subject = learner("lwf", scenario, regularization=0.7)
    old = TASKS[0] if scenario == "class" else (0, 1)
    x, y = batch(0)
    subject.observe(x, y, 0)
    teacher = copy.deepcopy(subject.model)
    subject.begin(1)
    move_away(subject.model)
    x, y = second_batch(scenario)
    now = classes_by_then(scenario)

    def distilled(model):
        with torch.no_grad():
            wanted = logits_of(copy.deepcopy(teacher), x)
        probs = (wanted[:, list(old)] / 2).softmax(1)
        return -(probs * (logits_of(model, x)[:, list(old)] / 2).log_softmax(1)).sum(1).mean()

    pulled = stepped(subject, distilled) - parameters(subject.model)
    assert float(pulled.abs().max()) > 1e-4
    step_is(subject, lambda model: entropy(logits_of(model, x), y, now).mean() + 0.7 * distilled(model), x, y)


def test_a_sigmoid_per_class_by_hand():
    """−ln σ(0) for each of two classes, of which one counts twice: 3·ln 2."""
    found = binary_loss(torch.zeros(2, 3), torch.tensor([[1.0, 0, 0], [0, 1, 0]]), torch.tensor([1.0, 2.0, 0.0]))
    assert float(found) == pytest.approx(3 * np.log(2))


@pytest.mark.parametrize("replay_weight", [0.0, 0.5])
def test_icarl_learns_new_classes_by_label_and_old_ones_by_the_old_network(replay_weight, monkeypatch):
    """Its paper's loss, over the batch and exemplars alike."""
    subject = with_a_past("icarl", regularization=0.7, replay_weight=replay_weight)
    teacher, drawn = copy.deepcopy(subject.teacher.network), drawing(subject, monkeypatch)
    move_away(subject.model)
    x, y = batch(1)
    images, labels = torch.cat([x, (drawn.x * 255).to(torch.uint8)]), torch.cat([y, drawn.y])

    def loss(model):
        logits = logits_of(model, images)
        with torch.no_grad():
            old = logits_of(copy.deepcopy(teacher), images)[:, :2].sigmoid()
        new = F.one_hot(labels, 6)[:, 2:4].float()
        among_new = F.binary_cross_entropy(logits[:, 2:4].sigmoid(), new, reduction="none").sum(1)
        among_old = F.binary_cross_entropy(logits[:, :2].sigmoid(), old, reduction="none").sum(1)
        replayed = replay_weight * entropy(logits[6:], drawn.y, SEEN).mean()
        return (among_new + 0.7 * among_old).mean() + replayed

    step_is(subject, loss, x, y)


def test_icarl_answers_by_the_nearest_mean_of_all_classes_seen():
    subject = learner("icarl", buffer_size=4)
    for task in tasks()[:2]:
        subject.observe(task.x, task.y, task.id)
        subject.end_task(task)
    x = random_batch(20, SHAPE, seed=9)[0]
    means = []
    for label in SEEN:
        images = [subject.memory.recall(task) for task in (0, 1)]
        mine = np.concatenate([pixels[labels == label] for pixels, _, labels in images])
        means.append(F.normalize(subject.embedded(torch.from_numpy(mine).float() / 255).mean(0), dim=0))
    nearest = torch.cdist(subject.embedded(x.float() / 255), torch.stack(means)).argmin(1)
    assert len(set(nearest.tolist())) > 1
    assert torch.equal(subject.predict(x), nearest)
    before = subject.predict(x)
    subject.observe(*batch(2), 2)  # a third task has begun, whose classes have no exemplar: the head answers
    with torch.no_grad(), samc.models.in_mode(subject.model, "eval"):
        scores = subject.model.heads.linear(subject.model.pooled(subject.model.features(x.float() / 255)))
    assert torch.equal(subject.predict(x), scores.argmax(1))
    assert not torch.equal(subject.predict(x), before)


def test_ewcs_fisher_information_is_of_all_classes_seen():
    subject = with_a_past("ewc", fisher_images=2)
    x = batch(1)[0][:1].float() / 255
    model = subject.model
    expected = torch.zeros_like(parameters(model))
    for label in SEEN:
        with samc.models.in_mode(model, "eval"):
            log_probs = model.heads.linear(model.pooled(model.features(x)))[0, SEEN].log_softmax(0)
        grads = torch.autograd.grad(log_probs[label], list(model.parameters()))
        gradient = torch.cat([grad.flatten() for grad in grads])
        expected += log_probs[label].exp().detach() * gradient.square()
    torch.testing.assert_close(fisher(model, x, 1, at_once=False), expected, rtol=1e-4, atol=1e-8)


def test_der_stores_the_logits_of_the_classes_seen_and_compares_them():
    subject = learner("der", alpha=0.4, beta=0.0, replay_current=False, buffer_size=50)
    x, y = batch(0)
    first = logits_of(copy.deepcopy(subject.model), x)[:, :2]
    subject.observe(x, y, 0)
    notes = [np.frombuffer(image.note, np.float16) for image in subject.memory.by_task[0].images]
    np.testing.assert_allclose(np.stack(notes), first.detach().numpy(), atol=2e-3)
    x2, y2 = batch(1)
    subject.begin(1)
    expected = stepped(subject, lambda model: compared_loss(model, x, x2, y2, np.stack(notes)))
    subject.observe(x2, y2, 1)
    torch.testing.assert_close(parameters(subject.model), expected, rtol=1e-3, atol=1e-5)
    # four classes have been seen by now, so that as many logits are kept; and no more than six will be
    assert {len(image.note) for image in subject.memory.by_task[1].images} == {8}
    assert subject.note_bytes() == 12
    assert subject.order == {0: [0, 1, 2, 3]}


def compared_loss(model, x, x2, y2, stored):
    """Of DER, whose replay is all six images of the first task, in their order, and again of no weight."""
    logits = logits_of(model, torch.cat([x, x2, x]))
    away = (logits[:6, :2] - torch.from_numpy(stored).float()).square()
    return entropy(logits[6:12], y2, SEEN).mean() + 0.4 * away.mean(1).mean()


def test_ebm_has_an_energy_of_every_class_seen_and_pulls_apart_those_of_the_batch(monkeypatch):
    subject = learner("ebm")
    subject.observe(*batch(0), 0)
    subject.begin(1)
    x, y = batch(1)
    wrong = 5 - y
    monkeypatch.setattr("samc.learners.ebm.other_labels", lambda *_: wrong)

    def loss(model):
        energies = -model.heads(model.pooled(model.train().features(x.float() / 255)), 1)
        assert energies.shape == (6, 4)
        rows = torch.arange(6)
        right, other = energies[rows, y], energies[rows, wrong]
        return (right + torch.stack([-right, -other]).logsumexp(0)).mean()

    step_is(subject, loss, x, y)


def test_saliency_explains_a_class_of_the_shared_head():
    subject = with_a_past("samc", codec="coo")
    x, y = batch(1)[0].float() / 255, torch.tensor([0, 1, 2, 3, 0, 3])
    model = subject.model
    with samc.models.in_mode(model, "eval"):
        features = model.features(x).detach().requires_grad_()
        score = model.heads.linear(model.pooled(features))[torch.arange(6), y].sum()
        (grads,) = torch.autograd.grad(score, features)
    expected = F.relu((grads.mean((2, 3), keepdim=True) * features.detach()).sum(1))
    torch.testing.assert_close(saliency_map(model, x, y, 1), expected)


@pytest.mark.parametrize(
    ("scenario", "boundaries", "held"),
    [("task", "told", [0, 1]), ("class", "told", [0, 1]), ("class", "hidden", SEEN), ("domain", "told", [0, 1])],
)
def test_what_an_average_holds(scenario, boundaries, held):
    """Old classes; all of them where no class can be told to be an old task's alone."""
    total = {"memory_bytes": "100KB"} if boundaries == "hidden" else {}
    subject = learner("er", scenario, boundaries=boundaries, average=0.5, distil=0.6, **total)
    for task in (0, 1):
        x, y = batch(task if scenario != "domain" else 0, task)
        subject.observe(x, y, *([task] if boundaries == "told" else []))
    weights = subject.held().weights
    assert weights.tolist() == pytest.approx([0.6 / len(held) if label in held else 0.0 for label in range(6)])


# -- what a caller says, and is told


def test_without_a_task_an_image_is_one_of_all_classes_seen():
    subject = learner("finetune")
    x = random_batch(50, SHAPE, seed=9)[0]
    with pytest.raises(ConfigError, match="no class has been seen yet"):
        subject.predict(x)
    for task in range(2):
        subject.observe(*batch(task), task)
    with torch.no_grad(), samc.models.in_mode(subject.model, "eval"):
        scores = subject.model.heads.linear(subject.model.pooled(subject.model.features(x.float() / 255)))
    assert torch.equal(subject.predict(x), scores[:, :4].argmax(1))
    with torch.no_grad():
        subject.model.heads.linear.bias[5] = 1e6  # has been declared, and not been seen
        subject.model.heads.linear.bias[2] = 1e5
    assert set(subject.predict(x).tolist()) == {2}


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_labels_that_nobody_declared_are_seen_when_they_come(scenario):
    subject = LEARNERS["er"](None, SHAPE, model=make("biases"), scenario=scenario, average=0.5)
    subject.observe(*random_batch(4, SHAPE, (3,)), 0)
    assert subject.model.heads.seen == (3,)
    subject.observe(*random_batch(4, SHAPE, (1, 3), seed=2), 0)
    assert subject.model.heads.seen == subject.average.model.heads.seen == (1, 3)
    subject.observe(*random_batch(4, SHAPE, (0, 7)), 1)
    assert subject.model.heads.seen == (0, 1, 3, 7)
    assert subject.model.heads.num_classes == 8


@pytest.mark.parametrize(
    ("given", "call", "message"),
    [
        ({"scenario": "task"}, lambda it, x, y: it.observe(x, y), "observe needs the task that the images are of"),
        ({"scenario": "task"}, lambda it, x, y: it.predict(x), "predict needs the task that the images are of"),
        ({"scenario": "class"}, lambda it, x, y: it.observe(x, y), "boundaries='hidden'"),
        ({"scenario": "class"}, lambda it, x, y: it.predict(x, 0), "an image comes without its task"),
        ({"boundaries": "hidden"}, lambda it, x, y: it.observe(x, y, 0), "no task"),
        ({"boundaries": "hidden"}, lambda it, x, y: it.begin_task(tasks()[0]), "no task begins or ends"),
        ({"boundaries": "hidden"}, lambda it, x, y: it.end_task(tasks()[0]), "no task begins or ends"),
        ({"scenario": "domain"}, lambda it, x, y: it.declare(1, (0, 2)), "every task has the same classes"),
    ],
)
def test_mistakes_are_one_line(given, call, message):
    subject = learner("finetune", **given)
    if given.get("boundaries") == "hidden":
        subject.observe(*batch(0))
    else:
        subject.observe(*batch(0), 0)
    before = parameters(subject.model)
    with pytest.raises(ConfigError, match=message):
        call(subject, *batch(0))
    assert torch.equal(parameters(subject.model), before)


REFUSED = {
    ("ewc", "hidden"): "Fisher information",
    ("lwf", "hidden"): "old network",
    ("icarl", "hidden"): "old network",
    ("icarl", "domain"): "classes that are new",
    ("gem", "hidden"): "constraint per task",
    ("eec", "hidden"): "encodes a task's images",
}
# what has no meaning, and a word of the reason; every other method runs


@pytest.mark.parametrize(("scenario", "boundaries"), list(itertools.product(SCENARIOS, BOUNDARIES)))
@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_runs_in_every_scenario_or_says_why_not(name, scenario, boundaries):
    """On the stream that comes with the package, two tasks of it, and a small network."""
    given = {"scenario": scenario, "boundaries": boundaries, "backbone": "mlp", "lr": 0.01}
    given |= {"eec": {"encoder_steps": 2, "buffer_size": 40}, "ewc": {"fisher_images": 2}}.get(name, {})
    given |= {"memory_bytes": "62KB"} if name != "eec" and "memory_bytes" in LEARNERS[name].Settings.names() else {}
    given |= {"keeps": "sample"} if (name, boundaries) == ("agem", "hidden") else {}
    reason = REFUSED.get((name, scenario), REFUSED.get((name, boundaries)))
    reason = "no task is known at test" if (scenario, boundaries) == ("task", "hidden") else reason
    if reason:
        with pytest.raises(ConfigError, match=reason):
            LEARNERS[name].Settings(**given)
        return
    stream = samc.streams.open_stream(
        "rotated-split-synthetic" if scenario == "domain" else "split-synthetic", n_tasks=2, samples_per_task=40
    )
    subject = LEARNERS[name](stream.num_classes, stream.image_shape, **given)
    record = samc.run(stream, subject)
    assert record.fingerprint.get("scenario", "task") == scenario
    assert record.fingerprint.get("boundaries", "told") == boundaries
    classes = {label for task in stream for label in task.classes}
    answers = [subject.predict(task.test_x, *([task.id] if scenario == "task" else [])) for task in stream]
    assert set(torch.cat(answers).tolist()) <= classes
    if scenario == "class":
        assert record.accuracy_matrix[0] == [0.0, 0.0]  # nothing has been seen
        assert record.accuracy_matrix[1][1] == 0.0
        assert record.fwt == 0.0


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("samc", {"replay": "gem"}, "constraint per task"),
        ("samc", {"completion": "telea+autoencoder"}, "autoencoder-steps 0"),
        ("er", {"memory_bytes": None}, "memory-bytes 600KB"),
        ("er", {"memory_bytes": "30KB/task"}, "memory-bytes 600KB"),
        ("er", {"batch_classes": "task"}, "batch-classes batch"),
        ("er", {"keeps": "newest"}, "keeps sample"),
        ("agem", {}, "keeps sample"),
        ("gem", {"constraints": "mean"}, "keeps sample"),
    ],
)
def test_settings_that_hidden_boundaries_leave_without_a_meaning(name, given, message):
    with pytest.raises(ConfigError, match=message):
        LEARNERS[name].Settings(**{"scenario": "class", "boundaries": "hidden", "memory_bytes": "600KB", **given})


def test_gems_mean_constraint_and_a_frozen_autoencoder_need_no_boundary():
    hidden = {"scenario": "class", "boundaries": "hidden", "memory_bytes": "600KB"}
    LEARNERS["gem"].Settings(**hidden, constraints="mean", keeps="sample")
    LEARNERS["samc"].Settings(**hidden, completion="telea+autoencoder", autoencoder_steps=0)


def test_the_pages_example_runs():
    page = (Path(samc.__file__).parents[2] / "docs" / "scenarios.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.M | re.S)
    names = {}
    exec(compile(block, "scenarios.md", "exec"), names)
    assert names["learner"].model.heads.seen == tuple(range(20))
    assert len(names["labels"]) == len(names["x"])


def test_the_page_says_of_every_method_where_it_is_refused():
    page = (Path(samc.__file__).parents[2] / "docs" / "scenarios.md").read_text()
    section = page[page.index("\n## Methods\n") : page.index("\n## Streams of domains\n")]
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", section, flags=re.M))
    assert rows.keys() - {"method"} == LEARNERS.keys()
    for name in LEARNERS:
        cells = dict(zip(("class", "domain", "hidden"), rows[name].split(" | "), strict=True))
        for where, text in cells.items():
            assert text.startswith("refused") == ((name, where) in REFUSED), (name, where)


def test_a_diagnosis_needs_boundaries(command, tmp_path):
    hidden = ("--scenario", "class", "--boundaries", "hidden", "--memory-bytes", "100KB")
    plain = (
        "--preset",
        "none",
        "--average",
        0,
        "--augment",
        "none",
        "--distil",
        0,
        "--replay",
        "agem",
    )
    code, out, err = command(
        "run", "--diagnose", *hidden, *plain, "--replay-size", 0, "--codec", "coo", "--out", tmp_path / "a"
    )
    assert (code, out) == (2, "")
    assert "leave --boundaries hidden out" in err


# -- the same where tasks are domains, and where nobody says when one ends

OTHERWISE = [("domain", "told"), ("domain", "hidden"), ("class", "hidden")]


def second_batch(scenario, seed=5):
    return batch(0 if scenario == "domain" else 1, seed)


def classes_by_then(scenario):
    """What an image of the second batch may be of."""
    return (0, 1) if scenario == "domain" else SEEN


def with_a_first_batch(name, scenario, boundaries, **given):
    """A learner that has learnt a batch, and has begun the second task, where it is told of one."""
    if boundaries == "hidden" and "memory_bytes" in LEARNERS[name].Settings.names():
        given |= {"memory_bytes": "100KB"}
    subject = learner(name, scenario, boundaries=boundaries, **given)
    x, y = batch(0)
    told = boundaries == "told"
    subject.observe(x, y, 0 if told else None)
    if told:
        subject.end_task(samc.Task.from_arrays(x, y, id=0, classes=(0, 1)))
        subject.begin(1)
    return subject, (1 if told else None)


@pytest.mark.parametrize(
    ("name", "scenario", "boundaries"),
    [
        ("eec", "domain", "told"),
        *((name, *where) for name in ("finetune", "joint", "er", "mer", "samc") for where in OTHERWISE),
    ],
)
def test_batch_and_replay_elsewhere(name, scenario, boundaries, monkeypatch):
    subject, task = with_a_first_batch(name, scenario, boundaries, **PLAIN_STEP.get(name, {}))
    x, y = second_batch(scenario)
    images, labels = with_what_is_replayed(name, subject, x, y, monkeypatch)
    classes = classes_by_then(scenario)
    step_is(subject, lambda model: entropy(logits_of(model, images), labels, classes).mean(), x, y, task)


@pytest.mark.parametrize("name", ["er", "mer", "samc"])
def test_er_ace_where_boundaries_are_hidden(name, monkeypatch):
    """Its paper's own: the classes of a batch are all that is known of what is new."""
    more = {"meta_lr": 1.0} if name == "mer" else {}
    given = {"batch_classes": "batch", "replay_weight": 1.0, **more}
    subject, task = with_a_first_batch(name, "class", "hidden", **given)
    x, y = second_batch("class")
    drawn = drawing(subject, monkeypatch)
    assert set(y.tolist()) == {2, 3}

    def loss(model):
        logits = logits_of(model, torch.cat([x, (drawn.x * 255).to(torch.uint8)]))
        return entropy(logits[:6], y, (2, 3)).mean() + entropy(logits[6:], drawn.y, SEEN).mean()

    step_is(subject, loss, x, y, task)


def along(model, images, labels, classes):
    """The gradient of the mean cross-entropy among some classes, by autograd on the definition."""
    model = copy.deepcopy(model)
    loss = entropy(logits_of(model, images), labels, classes).mean()
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize("batch_classes", ["seen", "batch"])
@pytest.mark.parametrize(
    ("name", "scenario", "boundaries"),
    [
        *(("agem", *where) for where in [("class", "told"), *OTHERWISE]),
        ("gem", "class", "told"),
        ("gem", "domain", "told"),
        ("gem", "class", "hidden"),
    ],
)
def test_a_constraint_is_among_all_classes_seen_and_the_batch_among_its_own(
    name, scenario, boundaries, batch_classes, monkeypatch
):
    """The two gradients of which a projection is made; where boundaries are hidden, GEM's one mean constraint."""
    more = {"constraints": "mean"} if (name, boundaries) == ("gem", "hidden") else {}
    more |= {"keeps": "sample"} if boundaries == "hidden" else {}
    subject, task = with_a_first_batch(name, scenario, boundaries, batch_classes=batch_classes, **more)
    x, y = second_batch(scenario)
    y = torch.full_like(y, int(y[0]))  # of one class: among the batch's own, nothing is to be learnt
    images, _, labels = subject.memory.recall(0)
    assert len(labels) == 6
    own, classes = [int(y[0])] if batch_classes == "batch" else classes_by_then(scenario), classes_by_then(scenario)
    if (scenario, boundaries) == ("class", "hidden"):
        classes = sorted({0, 1, int(y[0])})
        own = own if batch_classes == "batch" else classes
    expected = (
        along(subject.model, x, y, own),
        along(subject.model, torch.from_numpy(images), torch.from_numpy(labels), classes),
    )
    found = []
    monkeypatch.setattr(rules, "project", lambda g, past, *_, **__: found.append((g.clone(), past.clone())) or g)
    subject.observe(x, y, task)
    ((g, past),) = found
    assert len(past) == 1
    torch.testing.assert_close(g, expected[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(past[0], expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("scenario", "boundaries"), [("class", "told"), *OTHERWISE])
def test_der_elsewhere(scenario, boundaries):
    """All six images of the first batch are compared in the logits that they came with, and drawn once more."""
    given = {"replay_current": False} if boundaries == "told" else {}
    subject = learner("der", scenario, boundaries=boundaries, alpha=0.4, beta=0.5, **given, memory_bytes="100KB")
    x, y = batch(0)
    stored = logits_of(copy.deepcopy(subject.model), x)[:, :2].detach().half().float()
    told = boundaries == "told"
    subject.observe(x, y, 0 if told else None)
    if told:
        subject.begin(1)
    x2, y2 = second_batch(scenario)
    classes = classes_by_then(scenario)

    def loss(model):
        logits = logits_of(model, torch.cat([x, x2, x]))
        compared = (logits[:6, :2] - stored).square().mean()
        new, replayed = entropy(logits[6:12], y2, classes).mean(), entropy(logits[12:], y, classes).mean()
        return new + 0.4 * compared + 0.5 * replayed

    step_is(subject, loss, x2, y2, 1 if told else None)


@pytest.mark.parametrize(("scenario", "boundaries"), OTHERWISE)
def test_ebm_elsewhere(scenario, boundaries, monkeypatch):
    subject, task = with_a_first_batch("ebm", scenario, boundaries)
    x, y = second_batch(scenario)
    wrong = (1 if scenario == "domain" else 5) - y
    monkeypatch.setattr("samc.learners.ebm.other_labels", lambda *_: wrong)
    subject.model.heads.see(y.tolist())  # as observe does, for the loss by hand to have their energies

    def loss(model):
        energies = -model.heads(model.pooled(model.train().features(x.float() / 255)), 1)
        assert energies.shape == (6, len(classes_by_then(scenario)))
        rows = torch.arange(6)
        right, other = energies[rows, y], energies[rows, wrong]
        return (right + torch.stack([-right, -other]).logsumexp(0)).mean()

    step_is(subject, loss, x, y, task)


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_ewcs_step_is_held_back_by_the_first_tasks_fisher_information(scenario):
    """(g + λ·F·(θ − θ_1)) / (1 + lr·λ·F): nothing pulls in the first step of a task, yet it is held."""
    subject, task = with_a_first_batch("ewc", scenario, "told", fisher_images=6, regularization=40.0)
    x, y = second_batch(scenario)
    (importance, start), before = subject.kept[0], parameters(subject.model)
    assert torch.equal(start, before)
    assert float(importance.max()) > 0
    for seed in (5, 6):
        x, y = second_batch(scenario, seed)
        before = parameters(subject.model)
        g = along(subject.model, x, y, classes_by_then(scenario))
        expected = before - 0.05 * (g + 40 * importance * (before - start)) / (1 + 0.05 * 40 * importance)
        subject.observe(x, y, task)
        torch.testing.assert_close(parameters(subject.model), expected, rtol=1e-4, atol=1e-6)


# -- runs without boundaries


@pytest.mark.parametrize(("nbytes", "folder"), [(153_650, "{}"), (15_365, "{}-15365")])
def test_a_run_that_is_never_told_a_boundary_loses_less_than_two_points(nbytes, folder):
    """Of SAMC on the embedded stream, three seeds each, as the page has them; the runs differ in nothing else."""
    root = Path(samc.__file__).parents[2]
    told, hidden = (
        [samc.RunRecord.load(root / "results/boundaries" / folder.format(kind) / f"seed{seed}") for seed in range(3)]
        for kind in BOUNDARIES
    )
    for one, other in zip(told, hidden, strict=True):
        assert differing_terms(one, other) == {"boundaries": ("absent", "hidden")}
        unlike = {name for name in one.config if one.config[name] != other.config[name]}
        assert unlike == {"boundaries"}
        assert one.config["memory_bytes"] == str(nbytes)
    means = [np.mean([100 * record.acc for record in records]) for records in (told, hidden)]
    assert means[0] - means[1] < 2
    page = (root / "docs" / "scenarios.md").read_text()
    for kind, records, mean in zip(BOUNDARIES, (told, hidden), means, strict=True):
        seeds = ", ".join(f"{100 * record.acc:.1f}" for record in records)
        spread = np.std([100 * record.acc for record in records], ddof=1)
        assert f"| {nbytes:,} | {kind} | {mean:.1f} ± {spread:.1f} | {seeds} |" in page


class Spied(samc.ER):
    """Notes what it is told."""

    def setup(self):
        super().setup()
        self.calls = []

    def observe(self, x, y, task):
        self.calls.append(("observe", task))
        return super().observe(x, y, task)

    def begin_task(self, task):
        self.calls.append(("begin", task.id))
        super().begin_task(task)

    def end_task(self, task):
        self.calls.append(("end", task.id))
        super().end_task(task)


@pytest.mark.parametrize("boundaries", BOUNDARIES)
def test_hidden_boundaries_are_not_told(boundaries):
    stream = coloured_squares(2, per_class=5)
    subject = Spied(4, (3, 12, 12), backbone="mlp", scenario="class", boundaries=boundaries, memory_bytes="20KB")
    samc.run(stream, subject)
    told = [("begin", 0), ("observe", 0), ("end", 0), ("begin", 1), ("observe", 1), ("end", 1)]
    assert subject.calls == (told if boundaries == "told" else [("observe", None)] * 2)
    assert subject.declared == (set() if boundaries == "hidden" else {0, 1})
    assert sorted(subject.memory.by_task) == ([0] if boundaries == "hidden" else [0, 1])
    assert subject.memory.nbytes <= 20_000


def test_without_boundaries_all_that_was_remembered_is_replayed(monkeypatch):
    """From the second batch on, whatever task it was of."""
    subject = learner("er", boundaries="hidden", memory_bytes="100KB")
    drawn, draw = [], subject.replay.draw
    monkeypatch.setattr(subject.replay, "draw", lambda beside: drawn.append(draw(beside)) or drawn[-1])
    for task in range(3):
        subject.observe(*batch(task))
    assert [sum(len(part.y) for part in parts) for parts in drawn] == [0, 6, 6]
    assert set(drawn[2][0].y.tolist()) <= set(SEEN)
    assert set(subject.memory.recall(0)[2].tolist()) == {0, 1, 2, 3, 4, 5}


def test_agem_without_boundaries_has_the_memory_as_its_reference(monkeypatch):
    subject, found = learner("agem", boundaries="hidden", memory_bytes="100KB", keeps="sample"), []
    monkeypatch.setattr(rules, "project", lambda g, past, **_: found.append(len(past)) or g)
    for task in range(2):
        subject.observe(*batch(task))
    assert found == [1]  # once something is remembered


@pytest.mark.parametrize(("scenario", "tasks"), [("class", [(0, 1)]), ("domain", [(0, 1), (0, 1)])])
def test_the_classes_of_tasks_are_refused_where_nobody_tells_tasks(scenario, tasks):
    with pytest.raises(ConfigError, match="task_classes says which classes each task has, which hidden boundaries do"):
        samc.Finetune(image_shape=(3, 32, 32), scenario=scenario, boundaries="hidden", task_classes=tasks)


@pytest.mark.parametrize("name", ["er", "samc", "der", "mer", "joint"])
def test_a_state_is_taken_up_where_boundaries_are_hidden(name, tmp_path):
    """Bit for bit, from a file too; and one of another scenario is refused."""
    given = {} if name == "joint" else {"memory_bytes": "9KB", "average": 0.9}
    make_one = lambda **more: LEARNERS[name](  # noqa: E731
        None, (3, 12, 12), backbone="mlp", scenario="class", boundaries="hidden", **given, **more
    )
    whole, part = make_one(), make_one()
    batches = [random_batch(6, (3, 12, 12), TASKS[step // 2], seed=step) for step in range(6)]
    for place, (x, y) in enumerate(batches):
        whole.observe(x, y)
        part.observe(x, y)
        if place == 2:
            part.save(tmp_path / "learner.safetensors")
            part = samc.load(tmp_path / "learner.safetensors")
    assert torch.equal(parameters(whole.model), parameters(part.model))
    x = random_batch(30, (3, 12, 12), seed=99)[0]
    assert torch.equal(whole.predict(x), part.predict(x))
    told = LEARNERS[name](None, (3, 12, 12), backbone="mlp", scenario="class", **given)
    with pytest.raises(ConfigError, match="boundaries: hidden in the state, told here"):
        told.load_state_dict(part.state_dict())


def test_a_learner_from_before_there_were_scenarios_is_one_of_tasks():
    subject = learner("er", "task")
    subject.observe(*batch(0), 0)
    state = subject.state_dict()
    assert not {"scenario", "boundaries"} & state["terms"].keys()
    learner("er", "task").load_state_dict(state)
    with pytest.raises(ConfigError, match="scenario: task in the state, class here"):
        learner("er", "class").load_state_dict(state)


def test_a_fingerprint_names_the_scenario_only_where_it_is_another():
    assert Scenario("task", "told").terms() == {}
    assert Scenario("class", "told").terms() == {"scenario": "class"}
    assert Scenario("domain", "hidden").terms() == {"scenario": "domain", "boundaries": "hidden"}


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_an_exported_network_has_a_column_for_each_class_seen(scenario, tmp_path):
    subject = learner("er", scenario)
    for task in range(2):
        subject.observe(*batch(task if scenario == "class" else 0), task)
    extra, x = {"samc.json": ""}, random_batch(9, SHAPE, seed=3)[0]
    with pytest.warns(DeprecationWarning, match="torch.jit.load"):
        loaded = torch.jit.load(samc.export(subject, tmp_path / "net.pt"), _extra_files=extra)
    columns = [column["class"] for column in json.loads(extra["samc.json"])]
    assert columns == (SEEN if scenario == "class" else [0, 1])
    assert torch.tensor(columns)[loaded(x.float() / 255).argmax(1)].tolist() == subject.predict(x).tolist()
    with pytest.raises(ConfigError, match="seen no task yet"):
        samc.export(learner("er"), tmp_path / "none.pt")


def test_asking_a_run_without_a_task(command, tmp_path):
    subject = samc.ER(4, (3, 12, 12), backbone="mlp", scenario="class")
    subject.observe(*random_batch(8, (3, 12, 12), (1, 3)), 0)
    subject.save(tmp_path / "learner.safetensors")
    Image.new("RGB", (12, 12), (200, 10, 10)).save(tmp_path / "red.png")
    code, out, err = command("predict", tmp_path, tmp_path / "red.png")
    assert (code, err) == (0, "")
    assert out.rpartition("class ")[2].strip() in ("1", "3")
    code, out, err = command("predict", tmp_path, "--task", 0, tmp_path / "red.png")
    assert (code, out) == (2, "")
    assert "without a task at test; drop --task" in err
    other = samc.ER(4, (3, 12, 12), backbone="mlp")
    other.observe(*random_batch(8, (3, 12, 12), (1, 3)), 0)
    other.save(tmp_path / "learner.safetensors", replace=True)
    code, out, err = command("predict", tmp_path, tmp_path / "red.png")
    assert (code, out) == (2, "")
    assert "say which one the images are of: --task 0" in err


FEW = ("--backbone", "mlp", "--n-tasks", 2, "--samples-per-task", 20, "--memory-bytes", "62KB")


def test_a_run_with_one_head_is_continued_with_new_classes(command, tmp_path):
    code, _, err = command("run", "--model", "er", "--scenario", "class", *FEW, "--out", tmp_path / "a")
    assert (code, err) == (0, "")
    new = ("--dataset", "split-synthetic", "--n-tasks", 1, "--samples-per-task", 20)
    code, _, err = command("continue", tmp_path / "a", *new, "--out", tmp_path / "b")
    assert (code, err) == (0, "")
    record = samc.RunRecord.load(tmp_path / "b")
    assert record.fingerprint["scenario"] == "class"
    assert samc.load(tmp_path / "b").model.heads.seen == tuple(range(12))
    assert record.accuracy_matrix[0] == [0.0, 0.0, None]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--scenario", "class", "--boundaries", "hidden"), "was never told a task"),
        (("--scenario", "domain", "--dataset", "rotated-split-synthetic"), "has the same classes in every task"),
    ],
)
def test_other_runs_are_continued_in_python(given, message, command, tmp_path):
    code, _, err = command("run", "--model", "er", *given, *FEW, "--out", tmp_path / "a")
    assert (code, err) == (0, "")
    code, _, err = command("continue", tmp_path / "a", "--dataset", "split-synthetic", "--out", tmp_path / "b")
    assert code == 2
    assert message in err
    assert not (tmp_path / "b").exists()


# -- as on a GPU

MEANINGLESS = ("icarl", "domain")
# refused, which another test looks at
RECORDED = [
    *((name, {}) for name in ("finetune", "joint", "lwf", "icarl", "gem", "agem", "er", "der", "mer", "ebm", "samc")),
    ("er", {"batch_classes": "batch", "replay_weight": 1.0, "replay_current": True}),
    ("er", {"batch_classes": "task", "average": 0.7, "distil": 0.5}),
    ("der", {"batch_classes": "batch"}),
    ("mer", {"batch_classes": "task", "inner_steps": 2}),
    ("gem", {"batch_classes": "batch", "average": 0.7, "distil": 0.5}),
    ("icarl", {"replay_weight": 0.5}),
    ("samc", {"batch_classes": "task", "codec": "coo"}),
]


@pytest.mark.parametrize(
    ("name", "given", "scenario"),
    [(*case, scenario) for case in RECORDED for scenario in ("class", "domain") if (case[0], scenario) != MEANINGLESS],
)
def test_the_steps_that_a_gpu_records_are_the_steps_of_a_cpu(name, given, scenario):
    """Its engine's plain way. Nothing that is recorded waits for the device, or sends something there."""
    given = given | ({"buffer_size": 3} if "buffer_size" in LEARNERS[name].Settings.names() else {})
    plain, recorded = (learner(name, scenario, **given) for _ in range(2))
    recorded.engine.device, recorded.engine.graphs = torch.device("cuda"), Replaying()
    for task, step in itertools.product(range(3), range(6)):
        x, y = batch(task if scenario == "class" else 0, 10 * task + step, 4)
        expected, found = (float(subject.observe(x, y, task).loss) for subject in (plain, recorded))
        assert found == pytest.approx(expected, rel=1e-4), (task, step)
    tapes = recorded.engine.graphs.tapes
    assert sum(tape.replays for tape in tapes) > 10
    forbidden = {"aten::_local_scalar_dense", "aten::lift_fresh", "aten::scatter_add", "aten::scatter_add_"}
    assert not forbidden & {kernel._schema.name for tape in tapes for kernel, *_ in tape.kernels}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, {}) for name in ("finetune", "joint", "ebm", "er", "der", "mer", "samc")),
        ("agem", {"keeps": "sample"}),
        ("er", {"batch_classes": "batch", "replay_weight": 1.0}),
        ("der", {"batch_classes": "batch", "average": 0.7, "distil": 0.5}),
        ("gem", {"constraints": "mean", "keeps": "sample"}),
        ("samc", {"batch_classes": "batch", "codec": "coo"}),
    ],
)
def test_without_boundaries_too(name, given):
    total = {"memory_bytes": "3KB"} if "memory_bytes" in LEARNERS[name].Settings.names() else {}
    given = {"boundaries": "hidden", **total, **given}
    plain, recorded = (learner(name, **given) for _ in range(2))
    recorded.engine.device, recorded.engine.graphs = torch.device("cuda"), Replaying()
    for task, step in itertools.product(range(3), range(6)):
        x, y = batch(task, 10 * task + step, 4)
        expected, found = (float(subject.observe(x, y).loss) for subject in (plain, recorded))
        assert found == pytest.approx(expected, rel=1e-4), (task, step)
    assert sum(tape.replays for tape in recorded.engine.graphs.tapes) > 10


# -- the stability gap


def test_testing_within_tasks_changes_nothing_but_the_record(tmp_path):
    stream = coloured_squares(2, per_class=15)
    records, learners = [], []
    for every in (0, 2):
        subject = samc.ER(4, (3, 12, 12), backbone="mlp", scenario="class", lr=0.05)
        records.append(samc.run(stream, subject, batch_size=5, test_every=every))
        learners.append(subject)
    plain, tested = records
    assert torch.equal(parameters(learners[0].model), parameters(learners[1].model))
    assert plain.accuracy_matrix == tested.accuracy_matrix
    assert (plain.between, plain.stability_gap, plain.lowest_accuracy) == (None, None, None)
    assert [[len(row) for row in rows] for rows in tested.between] == [[1, 1], [2, 2]]  # of six steps, not the last
    tested.save(tmp_path)
    assert samc.RunRecord.load(tmp_path).between == tested.between
    assert RunConfig.test_every == 0


class Answering(ICaRL):
    """Kept so that a subclass of a method with answers of its own is asked without a task too."""

    def scores(self, x, task):
        return torch.eye(2)[torch.zeros(len(x), dtype=torch.int64)]


def test_a_method_that_answers_otherwise_is_asked_likewise():
    subject = Answering(None, SHAPE, model=make("biases"), scenario="class")
    subject.observe(*random_batch(4, SHAPE, (2, 5)), 0)
    assert subject.predict(random_batch(3, SHAPE)[0]).tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["er", "samc"])
@pytest.mark.parametrize(("scenario", "among"), [("class", "batch"), ("domain", "seen")])
def test_the_best_preset_is_one_for_hidden_boundaries_too(name, scenario, among):
    """A batch cannot be learnt among its task's classes where nobody says which these are."""
    terms = {"scenario": scenario, "memory_bytes": "600KB"}
    hidden = LEARNERS[name](image_shape=(3, 12, 12), preset="best", boundaries="hidden", **terms).settings
    told = LEARNERS[name](image_shape=(3, 12, 12), preset="best", **terms).settings
    assert (hidden.batch_classes, hidden.steps_per_batch) == (among, 2)
    assert told.batch_classes == ("task" if scenario == "class" else "seen")
    given = {"model": name, "preset": "best", "dataset": "split-cifar100", "boundaries": "hidden", **terms}
    assert configure(given)[0].settings == hidden


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "er",
            {"memory_bytes": "400", "boundaries": "hidden"},
            r"400 bytes for all tasks cannot .*--memory-bytes 433$",
        ),
        ("eec", {"memory_bytes": "150KB"}, r"say what each task may have, for 10 of them --memory-bytes 15000/task$"),
        ("er", {"preset": "embedded"}, "name one, such as embedded:split-synthetic$"),
    ],
)
def test_remedies_can_be_followed(name, given, message):
    with pytest.raises(ConfigError, match=message):
        LEARNERS[name](4, (3, 12, 12), scenario="class", **given)
