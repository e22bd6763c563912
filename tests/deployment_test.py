#!/usr/bin/env python3
"""deployment_test.py PROGRAM [unittest options]: the recipes of containers/ and the manifests of deploy/kubernetes/, as far as a
machine without containers can look at them: their form, what they copy, and what the program understands of what they tell it."""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import yaml

from program import PROGRAM, ProgramTest

ROOT = Path(__file__).resolve().parent.parent
KUBERNETES = ROOT / "deploy/kubernetes"
LAUNCHERS = ("SLURM", "OMPI_", "PMI", "TF_CONFIG")
LONGEST_CHECKPOINT = 60  # seconds that a pod must have before it is killed


def documents(name):
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def at(value, path):
    """`a.b.0.c` in a document; None where there is no such thing."""
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


class Manifests(ProgramTest):
    def require(self, document, fields):
        """Each field is there, and is of this type, or has this value, or matches this expression."""
        for path, wanted in fields.items():
            value = at(document, path)
            with self.subTest(path):
                if isinstance(wanted, type):
                    self.assertIsInstance(value, wanted)
                elif isinstance(wanted, re.Pattern):
                    self.assertRegex(str(value), wanted)
                else:
                    self.assertEqual(value, wanted)

    def require_pod(self, spec):
        """What every pod of a run has: one container, the shared folder, time to write a checkpoint, as many cores as it counts on."""
        self.require(spec, {"containers.0.name": str, "containers.0.image": "cohort", "containers.0.command": list,
                            "containers.0.args": list, "volumes.0.persistentVolumeClaim.claimName": "cohort-runs"})
        container = spec["containers"][0]
        self.assertEqual(len(spec["containers"]), 1)
        self.assertTrue(all(isinstance(word, str) for word in container["command"] + container["args"]), container["args"])
        self.assertEqual([mount["name"] for mount in container["volumeMounts"]], [volume["name"] for volume in spec["volumes"]])
        self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], 2 * LONGEST_CHECKPOINT)
        self.assertEqual(container["resources"]["requests"], container["resources"]["limits"])

    def require_training(self, words):
        """`cohort train …` that the program takes, in the shared folder, with checkpoints."""
        self.assertEqual(words[:2], ["cohort", "train"])
        self.assertRegex(words[words.index("--job-dir") + 1], "^/runs/")
        self.assertIn("--checkpoint-every", words)
        (self.folder / "hosts").write_text("a:1 worker\n")
        self.run_program("launch", "--hosts", "hosts", "--dry-run", "--", *words[1:])

    def show(self, tf_config, *arguments):
        own = {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHERS)}
        return self.run_program("cluster", "show", *arguments, env={**own, "TF_CONFIG": tf_config}).stdout

    def marked(self, shown):
        return next(line.split() for line in shown.splitlines() if line.startswith("*"))

    def test_the_volume_is_shared(self):
        claim, = documents("runs-volume.yaml")
        self.require(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata.name": "cohort-runs",
                             "spec.accessModes": ["ReadWriteMany"], "spec.resources.requests.storage": str})

    def test_the_mpi_operators_job(self):
        job, = documents("mpijob.yaml")
        launcher, worker = "spec.mpiReplicaSpecs.Launcher", "spec.mpiReplicaSpecs.Worker"
        self.require(job, {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata.name": re.compile("^[a-z-]+$"),
                           "spec.slotsPerWorker": int, "spec.runPolicy.cleanPodPolicy": "Running", "spec.runPolicy.backoffLimit": int,
                           f"{launcher}.replicas": 1, f"{launcher}.restartPolicy": "OnFailure", f"{worker}.replicas": int,
                           f"{worker}.template.spec.containers.0.command": ["/usr/sbin/sshd"]})
        self.assertEqual(set(job["spec"]["mpiReplicaSpecs"]), {"Launcher", "Worker"})
        for role in (launcher, worker):
            self.require_pod(at(job, f"{role}.template.spec"))
        self.assertGreater(at(job, f"{worker}.template.spec.terminationGracePeriodSeconds"),
                           at(job, f"{launcher}.template.spec.terminationGracePeriodSeconds"), "workers go last")
        container = at(job, f"{launcher}.template.spec.containers.0")
        words = [*container["command"], *container["args"]]
        self.assertEqual(words[0], "mpirun")
        self.require_training(words[words.index("cohort"):])
        self.assertEqual(int(words[words.index("-np") + 1]), at(job, f"{worker}.replicas") * job["spec"]["slotsPerWorker"])
        self.assertEqual(int(words[words.index("--grains") + 1]), at(job, f"{worker}.replicas") *
                         int(at(job, f"{worker}.template.spec.containers.0.resources.limits.cpu")), "no core is idle")
        for role, told in ((launcher, "1"), (worker, r"\$\(pidof cohort\)")):
            stop = at(job, f"{role}.template.spec.containers.0.lifecycle.preStop.exec.command")
            self.assertRegex(stop[-1], f"^kill -USR1 {told};")
            subprocess.run([*stop[:1], "-n", "-c", stop[-1]], check=True)

    def test_the_launchers_hook_makes_a_real_mpirun_stop_after_a_checkpoint(self):
        self.stop_a_real_mpirun("Launcher")

    def test_a_workers_hook_makes_a_real_mpirun_stop_after_a_checkpoint(self):
        self.stop_a_real_mpirun("Worker")

    def test_hooks_of_all_pods_at_once_cost_no_checkpoint(self):
        self.stop_a_real_mpirun("Worker", "Launcher")

    def stop_a_real_mpirun(self, *roles):
        """The manifest's words and the hooks of these roles, with process 1 being the mpirun of this test, and fewer ranks."""
        pods = documents("mpijob.yaml")[0]["spec"]["mpiReplicaSpecs"]
        container = at(pods, "Launcher.template.spec.containers.0")
        words = [*container["command"], *container["args"]]
        words[words.index("-np") + 1] = "2"
        words[words.index("--job-dir") + 1] = str(self.folder / "job")
        words[words.index("--train-steps") + 1] = "1000000"
        words[words.index("cohort")] = PROGRAM
        words += ["--dataset", "synthetic", "--samples", "4000", "--test-samples", "400", "--threads", "1", "--log-every", "1"]
        process = subprocess.Popen([words[0], "--oversubscribe", *words[1:]], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process)
        metrics = self.folder / "job/metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
        # A worker's pod has no other cohort than its ranks; this machine may.
        pidof = self.folder / "pidof"
        pidof.write_text(f'#!/bin/sh\nranks=$(cat /proc/{process.pid}/task/{process.pid}/children)\necho $ranks\n[ -n "$ranks" ]\n')
        pidof.chmod(0o755)
        hooks = []
        for role in roles:
            stop = at(pods, f"{role}.template.spec.containers.0.lifecycle.preStop.exec.command")
            # Its `kill -0` sees this test's own child, which stays until it is waited for: a shell of its own looks while we wait.
            hooks.append(subprocess.Popen([*stop[:-1], re.sub(r"(-USR1|-0) 1;", rf"\1 {process.pid};", stop[-1])],
                                          env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"},
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            self.addCleanup(self.end, hooks[-1])
        output, _ = process.communicate(timeout=120)
        for hook in hooks:
            self.assertEqual(hook.wait(60), 0, "it waits as long as there is something to wait for")
        self.assertEqual(process.returncode, 75, output)
        self.assertTrue(list((self.folder / "job/checkpoints").glob("*.safetensors")))

    def test_the_training_operators_job(self):
        job, = documents("tfjob.yaml")
        self.require(job, {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata.name": str,
                           "spec.runPolicy.cleanPodPolicy": "None", "spec.runPolicy.backoffLimit": int,
                           "spec.tfReplicaSpecs.Chief.replicas": 1, "spec.tfReplicaSpecs.Evaluator.replicas": 1})
        cluster, members = {}, []
        for role, replicas in job["spec"]["tfReplicaSpecs"].items():
            self.assertEqual(replicas["restartPolicy"], "OnFailure", "ExitCode would take 75 for a failure")
            spec = replicas["template"]["spec"]
            self.require_pod(spec)
            container = spec["containers"][0]
            self.assertEqual(container["name"], "tensorflow", "the operator looks for this name")
            self.assertEqual(container["ports"], [{"name": "tfjob-port", "containerPort": 2222}])
            self.require_training([*container["command"], *container["args"]])
            # As the operator names its pods; an evaluator is told the cluster, and is not in it.
            kind = role.lower()
            addresses = [f"{job['metadata']['name']}-{kind}-{i}.default.svc:2222" for i in range(replicas["replicas"])]
            members += [(kind, index) for index in range(len(addresses))]
            if kind != "evaluator":
                cluster[kind] = addresses
        for kind, index in members:
            shown = self.show(json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}),
                              "--sync", "async")
            self.assertRegex(shown, r"\ATF_CONFIG: 4 workers, 1 server(, 1 evaluator)?\n")
            name, number = self.marked(shown)[1:3]
            self.assertEqual(name, {"ps": "server", "evaluator": "evaluator"}.get(kind, "worker"))
            self.assertEqual(int(number), index + 1 if kind == "worker" else index, "the chief is worker 0")

    def test_jobs_without_an_operator(self):
        service, *jobs = documents("jobs.yaml")
        self.require(service, {"apiVersion": "v1", "kind": "Service", "metadata.name": str, "spec.clusterIP": "None",
                               "spec.publishNotReadyAddresses": True, "spec.ports.0.port": 2222})
        addresses = set()
        for job in jobs:
            self.require(job, {"apiVersion": "batch/v1", "kind": "Job", "metadata.name": str, "spec.completionMode": "Indexed",
                               "spec.podReplacementPolicy": "Failed", "spec.backoffLimit": int,
                               "spec.parallelism": job["spec"]["completions"],
                               "spec.template.metadata.labels": service["spec"]["selector"],
                               "spec.template.spec.subdomain": service["metadata"]["name"],
                               "spec.template.spec.restartPolicy": "OnFailure",
                               "spec.template.spec.containers.0.env.0.name": "INDEX",
                               "spec.template.spec.containers.0.env.0.valueFrom.fieldRef.fieldPath": re.compile("job-completion-index"),
                               "spec.template.spec.containers.0.env.1.name": "TF_CONFIG"})
            self.require_pod(at(job, "spec.template.spec"))
            container = at(job, "spec.template.spec.containers.0")
            words = [*container["command"], *container["args"]]
            self.require_training(words)
            for index in range(job["spec"]["completions"]):
                shown = self.show(container["env"][1]["value"].replace("$(INDEX)", str(index)), "--sync",
                                  words[words.index("--sync") + 1])
                address = self.marked(shown)[-1]
                self.assertEqual(address, f"{job['metadata']['name']}-{index}.{service['metadata']['name']}:2222", "its pod's name")
                addresses.add(address)
                listed = shown
        self.assertEqual(len(addresses), len(re.findall(r":2222", listed)), "every address of the cluster is a pod's")

    def test_no_other_manifest(self):
        self.assertEqual({path.name for path in KUBERNETES.iterdir()},
                         {"runs-volume.yaml", "mpijob.yaml", "tfjob.yaml", "jobs.yaml"}, "those that are looked at here")


def sections(text):
    """[(stage, section, its options, body)] of an Apptainer recipe, and the header of each stage."""
    found, headers = [], [{}]
    for line in text.splitlines():
        header = re.fullmatch(r"(Bootstrap|From|Stage): (\S+)", line)
        if header:
            if header[1] in headers[-1]:
                headers.append({})
            headers[-1][header[1]] = header[2]
        elif section := re.fullmatch(r"%(\w+)(?: (.*))?", line):
            found.append((headers[-1]["Stage"], section[1], section[2] or "", []))
        elif line.strip() and not line.startswith("#"):
            found[-1][3].append(line)
    return found, headers


class Containers(ProgramTest):
    def require_shell(self, script):
        checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), script)

    def require_sources(self, sources):
        """What a recipe copies from the tree exists, and configures: nothing that CMake reads is left out."""
        self.assertTrue({"CMakeLists.txt", "cmake", "src", "scripts", "containers/install.sh"} <= set(sources), sources)
        for source in sources:
            self.assertTrue((ROOT / source).exists(), source)
        for folder in re.findall(r"(?m)^add_subdirectory\((\w+)", (ROOT / "CMakeLists.txt").read_text()):
            self.assertIn(folder, sources)

    def test_the_apptainer_recipe(self):
        found, headers = sections((ROOT / "containers/cohort.def").read_text())
        self.assertEqual([header["Stage"] for header in headers], ["build", "final"])
        for header in headers:
            self.assertEqual((header["Bootstrap"], header["From"]), ("docker", "debian:12"))
        self.assertEqual([(stage, name) for stage, name, _, _ in found],
                         [("build", "files"), ("build", "post"), ("final", "files"), ("final", "post"), ("final", "environment"),
                          ("final", "runscript"), ("final", "test"), ("final", "help")])
        for _, name, options, body in found:
            if name == "files":
                self.assertTrue(all(len(line.split()) == 2 for line in body), body)
            elif name != "help":
                self.require_shell("\n".join(body))
            self.assertEqual(options, "from build" if (_, name) == ("final", "files") else "")
        self.require_sources([line.split()[0] for line in found[0][3]])

    def test_the_recipes_test_passes_here(self):
        """Its %test and %runscript with this program."""
        found, _ = sections((ROOT / "containers/cohort.def").read_text())
        (self.folder / "cohort").symlink_to(PROGRAM)
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        for name, arguments in (("test", []), ("runscript", ["--version"])):
            body = "\n".join(next(body for _, section, _, body in found if section == name))
            done = subprocess.run(["sh", "-c", body, "sh", *arguments], env=environment, capture_output=True, text=True, timeout=120,
                                  check=False, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("cohort ", done.stdout)

    def test_the_dockerfile(self):
        text = (ROOT / "containers/Dockerfile").read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        for line in lines:
            self.assertRegex(line, r"^(FROM|COPY|RUN|ENV|ENTRYPOINT) ")
            if line.startswith("RUN "):
                self.require_shell(re.sub(r"^--mount=\S+ ", "", line[4:]))
        copied = [line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line]
        self.require_sources(copied)
        ignored, *allowed = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
        self.assertEqual((ignored, set(allowed)), ("*", {f"!{source.split('/')[0]}" for source in copied}))
        self.assertEqual(json.loads(lines[-1].split(" ", 1)[1]), ["cohort"])

    def test_what_both_run(self):
        self.require_shell((ROOT / "containers/install.sh").read_text())
        refused = subprocess.run([ROOT / "containers/install.sh", "other"], capture_output=True, text=True, check=False)
        self.assertEqual((refused.returncode, refused.stderr),
                         (2, "install.sh packages SOURCE [MORE...] | build SOURCE | runtime [MORE...]\n"))


if __name__ == "__main__":
    unittest.main()
