"""Trains one of Cohort's networks in PyTorch on random images for some seconds; prints one line of JSON.

    /usr/bin/python3 bench/torch/train.py --network alexnet --image-size 256 --batch-size 128 --seconds 10
"""

import argparse
import json
import resource
import statistics
import time

import torch

import networks


def optimizer_for(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=1e-3)
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, lr=0.02, initial_accumulator_value=0.1)
    return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", required=True)
    parser.add_argument("--image-size", type=int, required=True)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--optimizer", default="momentum")
    parser.add_argument("--layout", choices=("plain", "channels-last"), default="plain")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    layout = torch.channels_last if arguments.layout == "channels-last" else torch.contiguous_format
    model = networks.build(arguments.network, arguments.image_size, arguments.classes, arguments.channels)
    model.train()
    images = torch.randn(arguments.batch_size, arguments.channels, arguments.image_size, arguments.image_size)
    labels = torch.randint(arguments.classes, (arguments.batch_size,))
    model, images = model.to(memory_format=layout), images.to(memory_format=layout)
    optimizer = optimizer_for(arguments.optimizer, model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        networks.loss(model, images, labels).backward()
        optimizer.step()

    step()  # warm-up
    times = []
    end = time.perf_counter() + arguments.seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "images_per_s": arguments.batch_size / statistics.median(times),
        "steps": len(times),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


if __name__ == "__main__":
    main()
