"""Trains one of Cohort's networks in PyTorch on random images for some seconds; prints one line of JSON.

    /usr/bin/python3 bench/torch/train.py --network alexnet --image-size 256 --batch-size 128 --seconds 10
    /usr/bin/python3 bench/torch/train.py --network alexnet --image-size 256 --batch-size 128 --processes 2 --threads 1

The batch is that of all processes; several are DistributedDataParallel's, over gloo.
"""

import argparse
import json
import resource
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

import networks


def optimizer_for(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=1e-3)
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, lr=0.02, initial_accumulator_value=0.1)
    return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)


def work(rank, arguments, store):
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    layout = torch.channels_last if arguments.layout == "channels-last" else torch.contiguous_format
    model = networks.build(arguments.network, arguments.image_size, arguments.classes, arguments.channels)
    model.train()
    share = arguments.batch_size // arguments.processes
    images = torch.randn(share, arguments.channels, arguments.image_size, arguments.image_size)
    labels = torch.randint(arguments.classes, (share,))
    model, images = model.to(memory_format=layout), images.to(memory_format=layout)
    trained = model
    if arguments.processes > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=arguments.processes)
        trained = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        trained.loss_weights, trained.loss_is_sum = model.loss_weights, model.loss_is_sum
    optimizer = optimizer_for(arguments.optimizer, model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        networks.loss(trained, images, labels).backward()
        optimizer.step()

    def go_on(steps, end):
        if arguments.processes == 1:
            return steps < 3 or time.perf_counter() < end
        # All processes make as many steps.
        more = torch.tensor([float(steps < 3 or time.perf_counter() < end)])
        dist.broadcast(more, 0)
        return bool(more)

    step()  # warm-up
    times = []
    end = time.perf_counter() + arguments.seconds
    while go_on(len(times), end):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({
            "images_per_s": arguments.batch_size / statistics.median(times),
            "steps": len(times),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }))
    if arguments.processes > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", required=True)
    parser.add_argument("--image-size", type=int, required=True)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--optimizer", default="momentum")
    parser.add_argument("--layout", choices=("plain", "channels-last"), default="plain")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    if arguments.batch_size % arguments.processes:
        parser.error("the batch must divide by the processes")
    if arguments.processes == 1:
        work(0, arguments, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (arguments, folder + "/store"), arguments.processes)


if __name__ == "__main__":
    main()
