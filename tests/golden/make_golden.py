#!/usr/bin/python3
"""Makes the golden numbers: ten training steps of each network in PyTorch. README.md says how they are defined.

    tests/golden/make_golden.py              all of them, and the table of README.md
    tests/golden/make_golden.py resnet20 …   some
"""

import dataclasses
import json
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench" / "torch"))
import networks  # noqa: E402

STEPS = 10


@dataclasses.dataclass
class Case:
    network: str
    image_size: int
    batch: int
    lr: float
    optimizer: str = "momentum"
    momentum: float = 0.9
    channels: int = 3
    grains: int = 1
    classes: int = 10


# Small images, batches and learning rates keep the runs well conditioned: README.md, "How exact they are".
CASES = {
    "mnist-fc": Case("mnist-fc", 28, 8, 0.01, optimizer="sgd", momentum=0.0, channels=1),
    "mnist-cnn": Case("mnist-cnn", 28, 8, 1e-3, channels=1),
    "cifar-cnn": Case("cifar-cnn", 24, 8, 1e-4),
    "resnet20": Case("resnet20", 16, 4, 5e-4),
    "resnet20-grains4": Case("resnet20", 16, 16, 5e-4, grains=4),
    "alexnet": Case("alexnet", 99, 3, 1e-4),
    "alexnet-lrn": Case("alexnet-lrn", 101, 3, 1e-4),
    "overfeat": Case("overfeat", 107, 3, 1e-4),
    "vgg11": Case("vgg11", 64, 2, 1e-5),
    "googlenet": Case("googlenet", 100, 2, 1e-5),
    "resnet50": Case("resnet50", 64, 4, 1e-5),
}


def fnv1a32(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def formula_hash(name, count):
    z = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(fnv1a32(name))
    z ^= z >> np.uint32(16)
    z *= np.uint32(0x85EBCA6B)
    z ^= z >> np.uint32(13)
    z *= np.uint32(0xC2B2AE35)
    z ^= z >> np.uint32(16)
    return z


def formula_values(name, shape):
    """In [-0.5, 0.5), multiples of 2^-24: exact in float32."""
    bits = formula_hash(name, int(np.prod(shape))) >> np.uint32(8)
    return (bits.astype(np.float32) * np.float32(2.0 ** -24) - np.float32(0.5)).reshape(shape)


def first_values(name, shape, norm):
    """A parameter before the first step; `norm`: it belongs to a batch norm."""
    if name.endswith(".running_mean"):
        return np.zeros(shape, np.float32)
    if name.endswith(".running_var"):
        return np.ones(shape, np.float32)
    u = formula_values(name, shape)
    if norm:
        return np.float32(1) + u * np.float32(0.2)
    if name.endswith(".bias"):
        return u * np.float32(0.1)
    return u * np.float32(np.sqrt(24.0 / np.prod(shape[1:])))


def make_model(case, dtype):
    model = networks.build(case.network, case.image_size, case.classes, case.channels)
    with torch.no_grad():
        for name, module in model.named_modules():
            norm = isinstance(module, torch.nn.BatchNorm2d)
            for suffix, tensor in module.state_dict().items():
                if "." not in suffix:
                    tensor.copy_(torch.from_numpy(first_values(f"{name}.{suffix}", tuple(tensor.shape), norm)))
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    return model.to(dtype).train()


class RunningStatistics:
    """Moves running statistics once per step, by the mean of what the grains measured."""

    def __init__(self, model):
        self.norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        self.decays = [1 - norm.momentum for norm in self.norms]
        self.values = [(norm.running_mean.clone(), norm.running_var.clone()) for norm in self.norms]
        for norm in self.norms:
            norm.momentum = 1.0  # so that a forward pass leaves the grain's own statistics

    def begin_step(self):
        self.sums = [[0, 0] for _ in self.norms]

    def end_grain(self):
        for sums, norm in zip(self.sums, self.norms):
            sums[0] = sums[0] + norm.running_mean
            sums[1] = sums[1] + norm.running_var

    def end_step(self, grains):
        self.values = [tuple(decay * old + (1 - decay) * new / grains for old, new in zip(values, sums))
                       for values, sums, decay in zip(self.values, self.sums, self.decays)]

    def store(self):
        for norm, (mean, var) in zip(self.norms, self.values):
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(var)


def norm_of(tensor):
    return float(tensor.detach().double().norm())


def train_step(case, model, optimizer, statistics, step, dtype):
    shape = (case.batch, case.channels, case.image_size, case.image_size)
    images = torch.from_numpy(formula_values(f"images/{step}", shape) * np.float32(2)).to(dtype)
    labels = torch.from_numpy((formula_hash(f"labels/{step}", case.batch) % case.classes).astype(np.int64))
    optimizer.zero_grad()
    statistics.begin_step()
    total = 0.0
    for grain_images, grain_labels in zip(images.chunk(case.grains), labels.chunk(case.grains)):
        loss = networks.loss(model, grain_images, grain_labels, step_samples=case.batch)
        loss.backward()
        total += float(loss.detach())
        statistics.end_grain()
    statistics.end_step(case.grains)
    norms = {name: norm_of(parameter.grad) for name, parameter in model.named_parameters()}
    optimizer.step()
    return {"loss": total / case.batch if model.loss_is_sum else total, "gradient_norms": norms}


def run(case, dtype):
    model = make_model(case, dtype)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=case.lr, momentum=case.momentum)
    statistics = RunningStatistics(model)
    steps = [train_step(case, model, optimizer, statistics, step, dtype) for step in range(STEPS)]
    statistics.store()
    updates = {name: norm_of(value.double() - first[name].double()) for name, value in model.state_dict().items()}
    return {"steps": steps, "update_norms": updates}


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def difference(norms, exact):
    """The largest relative difference; below a thousandth of the largest norm, norms count as that thousandth."""
    floor = max(exact.values()) * 1e-3
    return max(abs(norms[name] - exact[name]) / max(exact[name], floor) for name in exact)


def differences(single, double):
    """The largest relative differences between the two runs: losses, gradient norms, update norms."""
    pairs = list(zip(single["steps"], double["steps"]))
    return (max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in pairs),
            max(difference(a["gradient_norms"], b["gradient_norms"]) for a, b in pairs),
            difference(single["update_norms"], double["update_norms"]))


def main(names):
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    print("| golden | first loss | last loss | losses | gradient norms | update norms |\n|---|---|---|---|---|---|")
    for name in names or CASES:
        case = CASES[name]
        golden = run(case, torch.float64)
        losses, gradients, updates = differences(run(case, torch.float32), golden)
        first, last = golden["steps"][0]["loss"], golden["steps"][-1]["loss"]
        print(f"| {name} | {first:.4f} | {last:.4f} | {losses:.1e} | {gradients:.1e} | {updates:.1e} |", flush=True)
        text = json.dumps(rounded({**dataclasses.asdict(case), **golden}), indent=1)
        (HERE / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
