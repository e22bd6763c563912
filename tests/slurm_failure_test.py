#!/usr/bin/env python3
"""slurm_failure_test.py PROGRAM [unittest options]: a node of a SLURM cluster loses its power in the middle of a run."""

import unittest

from slurm_run import LONG, SlurmTest, setUpModule, tearDownModule  # noqa: F401


class PowerLoss(SlurmTest):
    def lose(self, node):
        """In the middle of a job on all nodes; it comes back when SLURM has noticed, and the job with it."""
        number = self.submit(LONG)
        self.wait_for_checkpoint(40)
        self.cluster.power_off(node)
        self.cluster.wait_until_queued_again(number)
        self.cluster.power_on(node)
        self.assertEqual(self.finish(number), 1)
        self.assertRegex(self.output(number), r"resuming at step \d+")
        self.expect_weights(LONG)

    def test_of_a_node_with_tasks(self):
        self.lose("n3")

    def test_of_the_node_with_the_script(self):
        self.lose("n1")


if __name__ == "__main__":
    unittest.main()
