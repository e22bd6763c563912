"""gloo's all-reduce of one buffer between processes on this machine; prints one line of JSON.

    /usr/bin/python3 bench/torch/all_reduce.py --megabytes 240 --processes 2 --rounds 9
"""

import argparse
import json
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def work(rank, arguments, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=arguments.processes)
    buffer = torch.ones(arguments.megabytes * 1_000_000 // 4)
    times = []
    for _ in range(arguments.rounds + 1):
        buffer.fill_(rank + 1.0)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(buffer)
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"bytes": buffer.numel() * 4, "seconds": statistics.median(times[1:])}))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=240)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (arguments, folder + "/store"), arguments.processes)


if __name__ == "__main__":
    main()
