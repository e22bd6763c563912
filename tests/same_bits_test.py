#!/usr/bin/env python3
"""same_bits_test.py PROGRAM [unittest options]: every number of workers, network and optimizer gives the same bits."""

import shutil
import unittest

from training_run import TrainingTest

# By number of workers: how many lanes each has.
WORKERS = {1: 1, 2: 2, 3: 1, 4: 3, 5: 1, 8: 1}
NETWORKS = ("mnist-cnn --image-size 12", "resnet20 --image-size 16", "alexnet --image-size 67 --channels 3")
OPTIMIZERS = ("momentum", "adam", "adagrad")
RUN = ("--lr 0.001 --dataset synthetic --samples 48 --test-samples 20 --batch-size 16 --grains 8 --train-steps 4 "
       "--eval-every 2 --no-pin").split()


class SameBits(TrainingTest):
    def outcome(self, arguments, workers, lanes):
        job = self.folder / f"with-{workers}"
        shutil.rmtree(job, ignore_errors=True)
        self.train(*RUN, *arguments, "--workers", workers, "--threads", lanes, job=job)
        summary = self.summary(job)
        self.assertEqual(summary["workers"][0]["lanes"], min(lanes, 8 // workers))
        return {key: summary[key] for key in ("weights_hash", "loss", "test_loss", "accuracy", "top5")}

    def test_every_network_optimizer_and_number_of_workers(self):
        hashes = set()
        for network in NETWORKS:
            for optimizer in OPTIMIZERS:
                with self.subTest(network, optimizer=optimizer):
                    arguments = [*f"--network {network}".split(), "--optimizer", optimizer]
                    expected = self.outcome(arguments, 1, WORKERS[1])
                    hashes.add(expected["weights_hash"])
                    for workers, lanes in list(WORKERS.items())[1:]:
                        self.assertEqual(self.outcome(arguments, workers, lanes), expected, f"{workers} workers")
        self.assertEqual(len(hashes), len(NETWORKS) * len(OPTIMIZERS), "different runs have different bits")


if __name__ == "__main__":
    unittest.main()
