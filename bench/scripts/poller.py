#!/usr/bin/env python3
"""A client of protocol 000 that polls, as the document's Polling & Watch Mechanism describes it: the thing that steward's
figures stand beside. It has no other library than Python's own.

  poller.py executor ROOT [--every 10] [--together]   looks for requests, runs each that has no result, writes one
  poller.py orchestrator ROOT ID…                     waits for the result of one task after another

The executor runs what it finds one by one, as in the document; with --together it starts all that it sees at once. It
prints "taken ID NANOSECONDS" and "done ID NANOSECONDS", the orchestrator "seen ID NANOSECONDS", by the wall clock.
"""

import argparse
import glob
import json
import os
import subprocess
import time

BEAT = 30  # seconds between heartbeats, the document's


def utc():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def say(what, task):
    print(what, task, time.time_ns(), flush=True)


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write(path, document):
    """The document writes in place; a rename only spares everybody half a file."""
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        json.dump(document, f, indent=2)
    os.rename(path + ".tmp", path)


class Executor:
    def __init__(self, root, together):
        self.tasks = os.path.join(root, "tmp/agent_status/codex_tasks")
        self.pulse = os.path.join(root, "tmp/agent_status/codex_status/heartbeat.json")
        self.root, self.together = root, together
        self.began, self.beaten, self.named = time.monotonic(), 0.0, None
        self.running = {}  # task -> process
        self.since = {}  # task -> when it was started

    def result(self, task):
        return os.path.join(self.tasks, "task_" + task + ".result.json")

    def beat(self):
        named = sorted(self.running)
        if named == self.named and time.monotonic() - self.beaten < BEAT:
            return
        self.named, self.beaten = named, time.monotonic()
        write(self.pulse, {
            "agent_name": "codex-cursor", "status": "busy" if named else "idle", "last_heartbeat": utc(),
            "uptime_seconds": int(time.monotonic() - self.began), "current_capacity": 0.9, "active_tasks": named,
            "health": {"cpu_ok": True, "memory_ok": True, "disk_ok": True, "last_error": None}})

    def start(self, path, task):
        parameters = read(path)["payload"]["parameters"]
        say("taken", task)
        self.since[task] = time.monotonic()
        self.running[task] = subprocess.Popen([parameters["script_path"]] + parameters.get("args", []), cwd=self.root)
        self.beat()

    def settle(self, task):
        code = self.running.pop(task).wait()
        write(self.result(task), {
            "task_id": task, "status": "completed" if code == 0 else "failed", "source_agent": "codex-cursor",
            "completed_at": utc(), "execution_time_seconds": round(time.monotonic() - self.since.pop(task), 3),
            "capacity_used": 0.1,
            "result": {"success": code == 0, "artifacts_created": [], "files_modified": [], "summary": "", "metrics": {}},
            "errors": [], "next_actions": []})
        say("done", task)

    def look(self):
        for task in [t for t, p in self.running.items() if p.poll() is not None]:
            self.settle(task)
        for path in glob.glob(os.path.join(self.tasks, "task_*.request.json")):
            task = os.path.basename(path)[len("task_"):-len(".request.json")]
            if task in self.running or os.path.exists(self.result(task)):
                continue
            try:
                self.start(path, task)
            except FileNotFoundError:  # it was taken away between the list and the look
                continue
            if not self.together:
                self.settle(task)
        self.beat()


def execute(options):
    executor = Executor(options.root, options.together)
    while True:
        executor.look()
        time.sleep(options.every)


def monitor(options):
    shared = os.path.join(options.root, "tmp/agent_status")
    for task in options.tasks:
        while not os.path.exists(os.path.join(shared, "codex_tasks/task_" + task + ".result.json")):
            if read(os.path.join(shared, "codex_status/heartbeat.json"))["status"] == "error":
                return
            time.sleep(5)
        say("seen", task)


def main():
    parser = argparse.ArgumentParser()
    sides = parser.add_subparsers(required=True)
    side = sides.add_parser("executor")
    side.add_argument("root")
    side.add_argument("--every", type=float, default=10)
    side.add_argument("--together", action="store_true")
    side.set_defaults(run=execute)
    side = sides.add_parser("orchestrator")
    side.add_argument("root")
    side.add_argument("tasks", nargs="+")
    side.set_defaults(run=monitor)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
