"""Cohort's networks in PyTorch, for comparing speed (bench) and numbers (tests/golden).

    model = build("resnet20", image_size=32, classes=10)
    loss(model, images, labels).backward()

Layers have the names of Cohort's nodes, so the keys of `state_dict()` are Cohort's parameter names. In training mode
a model returns a list of logits, the auxiliary heads' first; in evaluation mode the logits alone.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def build(name, image_size, classes, channels=3):
    """The network called `name` for square images; its weights are PyTorch's own first guess."""
    if name in NETWORKS:
        return NETWORKS[name]((channels, image_size, image_size), classes)
    digits = name[len("resnet"):] if name.startswith("resnet") else ""
    depth = int(digits) if digits.isdigit() else 0
    if depth < 8 or depth % 6 != 2:
        raise ValueError(f"there is no network called {name!r}; the networks are {', '.join(NETWORKS)}, resnet(6n + 2)")
    return CifarResNet((channels, image_size, image_size), classes, depth)


def loss(model, images, labels, step_samples=None):
    """What the step minimises. `step_samples` is the size of the whole batch where `images` is a part of it."""
    outputs = model(images)
    total = sum(weight * F.cross_entropy(logits, labels, reduction="sum")
                for weight, logits in zip(model.loss_weights, outputs))
    return total if model.loss_is_sum else total / (step_samples or len(labels))


class Network(nn.Module):
    loss_weights = (1.0,)
    loss_is_sum = False

    def heads(self, *outputs):
        return list(outputs) if self.training else outputs[-1]


class BatchNorm(nn.BatchNorm2d):
    """`decay` is the share of the old running statistic that a step keeps."""

    def __init__(self, channels, decay):
        super().__init__(channels, eps=1e-5, momentum=1 - decay)
        self.num_batches_tracked = None  # Cohort has no such parameter


def lrn(size, bias, alpha, beta=0.75):
    return nn.LocalResponseNorm(size, alpha=alpha * size, beta=beta, k=bias)  # PyTorch divides alpha by the size


def relu(x):
    return F.relu(x, inplace=True)


def flat_size(features, image):
    """The inputs of a dense layer that follows `features`."""
    with torch.no_grad():
        return features(torch.zeros(1, *image)).flatten(1).shape[1]


class MnistFc(Network):
    loss_is_sum = True

    def __init__(self, image, classes):
        super().__init__()
        self.fc1 = nn.Linear(image[0] * image[1] * image[2], 100)
        self.fc2 = nn.Linear(100, classes)

    def forward(self, x):
        return self.heads(self.fc2(relu(self.fc1(x.flatten(1)))))


class MnistCnn(Network):
    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(flat_size(self.features, image), 1024)
        self.fc2 = nn.Linear(1024, classes)
        self.dropout = nn.Dropout(0.5)

    def features(self, x):
        x = F.max_pool2d(relu(self.conv1(x)), 2)
        return F.max_pool2d(relu(self.conv2(x)), 2)

    def forward(self, x):
        x = self.features(x).flatten(1)
        return self.heads(self.fc2(self.dropout(relu(self.fc1(x)))))


class CifarCnn(Network):
    def __init__(self, image, classes):
        super().__init__()
        # "Same" pools pad one row at the bottom, which is what ceil_mode does at these sizes only.
        if image[1] % 4 != 0:
            raise ValueError("cifar-cnn needs an image size that 4 divides")
        self.conv1 = nn.Conv2d(image[0], 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.lrn = lrn(9, bias=1.0, alpha=0.001 / 9)
        self.fc3 = nn.Linear(flat_size(self.features, image), 384)
        self.fc4 = nn.Linear(384, 192)
        self.fc5 = nn.Linear(192, classes)

    def features(self, x):
        x = self.lrn(F.max_pool2d(relu(self.conv1(x)), 3, 2, ceil_mode=True))
        return F.max_pool2d(self.lrn(relu(self.conv2(x))), 3, 2, ceil_mode=True)

    def forward(self, x):
        x = relu(self.fc3(self.features(x).flatten(1)))
        return self.heads(self.fc5(relu(self.fc4(x))))


class CifarResNet(Network):
    def __init__(self, image, classes, depth):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 16, 3, padding=1, bias=False)
        self.bn1 = BatchNorm(16, 0.997)
        self.blocks = []  # (name, stride)
        inputs = 16
        for stage, outputs in enumerate((16, 32, 64), start=1):
            for block in range(1, (depth - 2) // 6 + 1):
                name, stride = f"block{stage}_{block}", 2 if stage > 1 and block == 1 else 1
                self.add_module(f"{name}_conv1", nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False))
                self.add_module(f"{name}_bn1", BatchNorm(outputs, 0.997))
                self.add_module(f"{name}_conv2", nn.Conv2d(outputs, outputs, 3, padding=1, bias=False))
                self.add_module(f"{name}_bn2", BatchNorm(outputs, 0.997))
                self.blocks.append((name, stride))
                inputs = outputs
        self.fc = nn.Linear(64, classes)

    def block(self, name, stride, x):
        layer = self._modules
        y = relu(layer[f"{name}_bn1"](layer[f"{name}_conv1"](x)))
        y = layer[f"{name}_bn2"](layer[f"{name}_conv2"](y))
        if stride > 1:  # shortcut A
            x = F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
            x = F.pad(x, (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))
        y += x
        return relu(y)

    def forward(self, x):
        x = relu(self.bn1(self.conv1(x)))
        for name, stride in self.blocks:
            x = self.block(name, stride, x)
        return self.heads(self.fc(x.mean((2, 3))))


class Classified(Network):
    """Convolutions (`features`, by the subclass), two hidden dense layers with dropout, and a classifier."""

    def add_classifier(self, image, hidden, classes):
        self.fc6 = nn.Linear(flat_size(self.features, image), hidden[0])
        self.fc7 = nn.Linear(hidden[0], hidden[1])
        self.fc8 = nn.Linear(hidden[1], classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = self.dropout(relu(self.fc6(self.features(x).flatten(1))))
        x = self.dropout(relu(self.fc7(x)))
        return self.heads(self.fc8(x))


class AlexNet(Classified):
    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 64, 11, 4, padding=2 if image[1] < 227 else 0)
        self.conv2 = nn.Conv2d(64, 192, 5, padding=2)
        self.conv3 = nn.Conv2d(192, 384, 3, padding=1)
        self.conv4 = nn.Conv2d(384, 256, 3, padding=1)
        self.conv5 = nn.Conv2d(256, 256, 3, padding=1)
        self.add_classifier(image, (4096, 4096), classes)

    def features(self, x):
        x = F.max_pool2d(relu(self.conv1(x)), 3, 2)
        x = F.max_pool2d(relu(self.conv2(x)), 3, 2)
        x = relu(self.conv4(relu(self.conv3(x))))
        return F.max_pool2d(relu(self.conv5(x)), 3, 2)


class AlexNetLrn(Classified):
    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 96, 11, 4)
        self.conv2 = nn.Conv2d(96, 256, 5, padding=2, groups=2)
        self.conv3 = nn.Conv2d(256, 384, 3, padding=1)
        self.conv4 = nn.Conv2d(384, 384, 3, padding=1, groups=2)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1, groups=2)
        self.lrn = lrn(5, bias=2.0, alpha=1e-4)
        self.add_classifier(image, (4096, 4096), classes)

    def features(self, x):
        x = self.lrn(F.max_pool2d(relu(self.conv1(x)), 3, 2))
        x = self.lrn(F.max_pool2d(relu(self.conv2(x)), 3, 2))
        x = relu(self.conv4(relu(self.conv3(x))))
        return F.max_pool2d(relu(self.conv5(x)), 3, 2)


class OverFeat(Classified):
    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 96, 11, 4)
        self.conv2 = nn.Conv2d(96, 256, 5)
        self.conv3 = nn.Conv2d(256, 512, 3, padding=1)
        self.conv4 = nn.Conv2d(512, 1024, 3, padding=1)
        self.conv5 = nn.Conv2d(1024, 1024, 3, padding=1)
        self.add_classifier(image, (3072, 4096), classes)

    def features(self, x):
        x = F.max_pool2d(relu(self.conv1(x)), 2)
        x = F.max_pool2d(relu(self.conv2(x)), 2)
        x = relu(self.conv4(relu(self.conv3(x))))
        return F.max_pool2d(relu(self.conv5(x)), 2)


class Vgg(Classified):
    def __init__(self, image, classes, stages):
        super().__init__()
        self.stages = []  # names of each stage's convolutions
        inputs = image[0]
        for stage, (layers, outputs) in enumerate(zip(stages, (64, 128, 256, 512, 512)), start=1):
            names = [f"conv{stage}_{layer}" for layer in range(1, layers + 1)]
            for name in names:
                self.add_module(name, nn.Conv2d(inputs, outputs, 3, padding=1))
                inputs = outputs
            self.stages.append(names)
        self.add_classifier(image, (4096, 4096), classes)

    def features(self, x):
        for names in self.stages:
            for name in names:
                x = relu(self._modules[name](x))
            x = F.max_pool2d(x, 2)
        return x


class GoogLeNet(Network):
    loss_weights = (0.3, 0.3, 1.0)
    #              1x1  3x3: r, o  5x5: r, o  pool
    inceptions = {
        "3a": (64, 96, 128, 16, 32, 32),
        "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }

    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 64, 7, 2, padding=3)
        self.conv2_reduce = nn.Conv2d(64, 64, 1)
        self.conv2 = nn.Conv2d(64, 192, 3, padding=1)
        self.lrn = lrn(5, bias=2.0, alpha=1e-4)
        channels = {}  # outputs of each inception
        inputs = 192
        for name, (a, r3, b, r5, c, p) in self.inceptions.items():
            self.add_module(f"inception_{name}_1x1", nn.Conv2d(inputs, a, 1))
            self.add_module(f"inception_{name}_3x3_reduce", nn.Conv2d(inputs, r3, 1))
            self.add_module(f"inception_{name}_3x3", nn.Conv2d(r3, b, 3, padding=1))
            self.add_module(f"inception_{name}_5x5_reduce", nn.Conv2d(inputs, r5, 1))
            self.add_module(f"inception_{name}_5x5", nn.Conv2d(r5, c, 5, padding=2))
            self.add_module(f"inception_{name}_pool_proj", nn.Conv2d(inputs, p, 1))
            inputs = channels[name] = a + b + c + p
        size = (image[1] - 1) // 2 + 1  # after conv1; three pools follow, which round up
        for _ in range(3):
            size = -(-(size - 3) // 2) + 1
        head_size = (size - 5) // 3 + 1
        for head, name in (("aux1", "4a"), ("aux2", "4d")):
            self.add_module(f"{head}_conv", nn.Conv2d(channels[name], 128, 1))
            self.add_module(f"{head}_fc1", nn.Linear(128 * head_size ** 2, 1024))
            self.add_module(f"{head}_fc2", nn.Linear(1024, classes))
        self.fc = nn.Linear(1024, classes)
        self.head_dropout = nn.Dropout(0.7)
        self.dropout = nn.Dropout(0.4)

    def inception(self, name, x):
        conv = lambda suffix, value: relu(self._modules[f"inception_{name}_{suffix}"](value))
        return torch.cat((conv("1x1", x), conv("3x3", conv("3x3_reduce", x)), conv("5x5", conv("5x5_reduce", x)),
                          conv("pool_proj", F.max_pool2d(x, 3, 1, padding=1))), 1)

    def head(self, name, x):
        layer = self._modules
        x = relu(layer[f"{name}_conv"](F.avg_pool2d(x, 5, 3))).flatten(1)
        return layer[f"{name}_fc2"](self.head_dropout(relu(layer[f"{name}_fc1"](x))))

    def forward(self, x):
        pool = lambda value: F.max_pool2d(value, 3, 2, ceil_mode=True)
        x = self.lrn(pool(relu(self.conv1(x))))
        x = relu(self.conv2(relu(self.conv2_reduce(x))))
        x = pool(self.lrn(x))
        x = pool(self.inception("3b", self.inception("3a", x)))
        x = self.inception("4a", x)
        aux1 = self.head("aux1", x) if self.training else None
        for name in ("4b", "4c", "4d"):
            x = self.inception(name, x)
        aux2 = self.head("aux2", x) if self.training else None
        x = pool(self.inception("4e", x))
        x = self.inception("5b", self.inception("5a", x))
        return self.heads(aux1, aux2, self.fc(self.dropout(x.mean((2, 3)))))


class ResNet50(Network):
    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 64, 7, 2, padding=3, bias=False)
        self.bn1 = BatchNorm(64, 0.9)
        self.blocks = []  # (name, has a projection)
        inputs = 64
        for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
            for block in range(1, blocks + 1):
                name, stride = f"block{stage}_{block}", 2 if stage > 1 and block == 1 else 1
                self.add_conv(name, "1", inputs, width, 1)
                self.add_conv(name, "2", width, width, 3, stride)
                self.add_conv(name, "3", width, 4 * width, 1)
                if block == 1:
                    self.add_conv(f"{name}_shortcut", "", inputs, 4 * width, 1, stride)
                self.blocks.append((name, block == 1))
                inputs = 4 * width
        self.fc = nn.Linear(2048, classes)

    def add_conv(self, name, suffix, inputs, outputs, kernel, stride=1):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.add_module(f"{name}_conv{suffix}", conv)
        self.add_module(f"{name}_bn{suffix}", BatchNorm(outputs, 0.9))

    def conv_norm(self, name, suffix, x):
        return self._modules[f"{name}_bn{suffix}"](self._modules[f"{name}_conv{suffix}"](x))

    def block(self, name, projects, x):
        y = relu(self.conv_norm(name, "1", x))
        y = relu(self.conv_norm(name, "2", y))
        y = self.conv_norm(name, "3", y)
        y += self.conv_norm(f"{name}_shortcut", "", x) if projects else x
        return relu(y)

    def forward(self, x):
        x = F.max_pool2d(relu(self.bn1(self.conv1(x))), 3, 2, padding=1)
        for name, projects in self.blocks:
            x = self.block(name, projects, x)
        return self.heads(self.fc(x.mean((2, 3))))


NETWORKS = {
    "mnist-fc": MnistFc,
    "mnist-cnn": MnistCnn,
    "cifar-cnn": CifarCnn,
    "alexnet": AlexNet,
    "alexnet-lrn": AlexNetLrn,
    "overfeat": OverFeat,
    "vgg11": lambda image, classes: Vgg(image, classes, (1, 1, 2, 2, 2)),
    "vgg16": lambda image, classes: Vgg(image, classes, (2, 2, 3, 3, 3)),
    "vgg19": lambda image, classes: Vgg(image, classes, (2, 2, 4, 4, 4)),
    "googlenet": GoogLeNet,
    "resnet50": ResNet50,
}
