"""An executor as protocol 000 describes one: it looks for requests, skips those with a result, executes the others one
after the other, writes each result in place, and keeps its heartbeat. It knows nothing of steward.

    executor.py PROJECT [--poll S] [--agent NAME]

It works until its standard input ends, and then prints its last heartbeat.
"""
import argparse
import datetime
import glob
import json
import os
import subprocess
import sys
import threading
import time


def stamp():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_json(path, document):
    with open(path, "w") as f:
        json.dump(document, f, indent=2)


class Executor:
    def __init__(self, project, agent):
        self.base, self.agent, self.begun, self.last = os.path.join(project, "tmp", "agent_status"), agent, time.time(), None

    def heartbeat(self, status, tasks=()):
        self.last = {
            "agent_name": self.agent, "status": status, "last_heartbeat": stamp(), "uptime_seconds": int(time.time() - self.begun),
            "current_capacity": 0.9, "active_tasks": list(tasks),
            "health": {"cpu_ok": True, "memory_ok": True, "disk_ok": True, "last_error": None}}
        write_json(os.path.join(self.base, "codex_status", "heartbeat.json"), self.last)

    def execute(self, request):
        p, start = request["payload"]["parameters"], time.time()
        status, errors, out = "completed", [], ""
        try:
            done = subprocess.run([p["script_path"], *p.get("args", [])], cwd=p.get("working_directory"), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=request["timeout_seconds"])
            out = done.stdout
            if done.returncode != 0:
                status = "failed"
                errors = [{"code": "EXECUTION_FAILED", "message": f"exit code {done.returncode}", "severity": "error", "file": p["script_path"]}]
        except subprocess.TimeoutExpired:
            status, errors = "timeout", [{"code": "TIMEOUT", "message": "over its time", "severity": "error"}]
        except OSError as e:
            status, errors = "failed", [{"code": "FILE_NOT_FOUND", "message": str(e), "severity": "error", "file": p["script_path"]}]
        return {
            "task_id": request["task_id"], "status": status, "source_agent": self.agent, "completed_at": stamp(),
            "execution_time_seconds": round(time.time() - start, 3), "capacity_used": 0.1,
            "result": {"success": status == "completed", "artifacts_created": [], "files_modified": [], "summary": out.strip()[-200:], "metrics": {}},
            "errors": errors, "next_actions": []}

    def poll(self):
        tasks = os.path.join(self.base, "codex_tasks")
        for file in sorted(glob.glob(os.path.join(tasks, "task_*.request.json"))):
            task = os.path.basename(file)[len("task_"):-len(".request.json")]
            result_file = os.path.join(tasks, f"task_{task}.result.json")
            if os.path.exists(result_file):
                continue
            try:
                with open(file) as f:
                    request = json.load(f)
            except (FileNotFoundError, ValueError):
                continue  # taken away, or half written: the next round finds it
            if request.get("target_agent") != self.agent:
                continue
            self.heartbeat("busy", [task])
            write_json(result_file, self.execute(request))
        self.heartbeat("idle")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("project")
    args.add_argument("--poll", type=float, default=10)
    args.add_argument("--agent", default="codex-cursor")
    o = args.parse_args()
    e, over = Executor(o.project, o.agent), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.is_set():
        e.poll()
        over.wait(o.poll)
    e.heartbeat("idle")
    json.dump(e.last, sys.stdout)


main()
