"""An orchestrator as protocol 000 describes one: it writes a request, polls for the result, and reads the executor's
heartbeat meanwhile. It knows nothing of steward. One task after the other; the end is a report as JSON on stdout.

    orchestrator.py PROJECT SCRIPT [--poll S] [--wait S] ID…

SCRIPT is run once per ID, with the ID as its argument.
"""
import argparse
import datetime
import json
import os
import sys
import threading
import time

STATUS = {"completed", "failed", "partial", "timeout", "blocked"}
PRIORITY = {"critical", "high", "medium", "low"}


def stamp():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def write_json(path, document):
    """In place, as the document's own code does it: a reader may find half of it."""
    with open(path, "w") as f:
        json.dump(document, f, indent=2)


def request(task, script, source, target):
    return {
        "task_id": task, "request_type": "execute", "priority": "medium", "source_agent": source, "target_agent": target,
        "created_at": stamp(), "timeout_seconds": 120, "throttle_capacity": 1.0,
        "context": {"jesse_directive": "", "session_id": "9b2fca2e-2c5c-4a0e-8c52-1f0f8f6d3a10", "voice_mode_active": False, "related_tasks": []},
        "payload": {
            "task_type": "execute",
            "parameters": {"script_path": script, "args": [task], "working_directory": os.path.dirname(script), "capture_output": True,
                           "timeout_seconds": 100},
            "files_to_modify": [], "files_to_read": [], "expected_artifacts": []},
        "coordination": {"blocking": True, "progress_updates_required": False, "update_interval_seconds": 30},
    }


def number(v, most=None):
    return isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0 and (most is None or v <= most)


def texts(v):
    return isinstance(v, list) and all(isinstance(x, str) for x in v)


def breaches(result, task):
    """What of a result is not as the Task Result Schema has it."""
    body = result.get("result")
    if not isinstance(body, dict):
        return ["result"]
    errors, actions = result.get("errors"), result.get("next_actions")
    checks = {
        "task_id": result.get("task_id") == task, "status": result.get("status") in STATUS,
        "source_agent": isinstance(result.get("source_agent"), str), "completed_at": isinstance(result.get("completed_at"), str),
        "execution_time_seconds": number(result.get("execution_time_seconds")), "capacity_used": number(result.get("capacity_used"), 1),
        "success": isinstance(body.get("success"), bool), "artifacts_created": texts(body.get("artifacts_created")),
        "files_modified": texts(body.get("files_modified")), "summary": isinstance(body.get("summary"), str),
        "metrics": isinstance(body.get("metrics"), dict),
        "errors": isinstance(errors, list) and all(isinstance(e, dict) and isinstance(e.get("code"), str) for e in errors),
        "next_actions": isinstance(actions, list) and all(isinstance(a, dict) and a.get("priority") in PRIORITY for a in actions),
    }
    if checks["completed_at"]:
        try:
            checks["completed_at"] = moment(result["completed_at"]).tzinfo is not None
        except ValueError:
            checks["completed_at"] = False
    return sorted(name for name, ok in checks.items() if not ok)


class Pulse:
    """What the executor's heartbeat has shown."""

    def __init__(self, path):
        self.path, self.last = path, None
        self.reads = self.missing = self.torn = self.backwards = self.other = 0
        self.names = set()

    def look(self):
        self.reads += 1
        try:
            with open(self.path) as f:
                beat = json.load(f)
            at = moment(beat["last_heartbeat"])
        except FileNotFoundError:
            self.missing += 1
            return None
        except (ValueError, KeyError):
            self.torn += 1
            return None
        if self.last and at < self.last:
            self.backwards += 1
        self.last = at
        self.names.add(beat.get("agent_name"))
        return beat


def main():
    args = argparse.ArgumentParser()
    args.add_argument("project")
    args.add_argument("script")
    args.add_argument("--poll", type=float, default=5)
    args.add_argument("--wait", type=float, default=300)
    args.add_argument("--source", default="livhana-layer1.1")
    args.add_argument("--target", default="codex-cursor")
    args.add_argument("ids", nargs="+")
    o = args.parse_args()
    base = os.path.join(o.project, "tmp", "agent_status")
    mine = os.path.join(base, "livhana_status", "heartbeat.json")
    pulse = Pulse(os.path.join(base, "codex_status", "heartbeat.json"))
    begun, over, beats = time.time(), threading.Event(), []

    def beat():
        while True:
            beats.append(stamp())
            write_json(mine, {
                "agent_name": o.source, "status": "active", "last_heartbeat": beats[-1], "uptime_seconds": int(time.time() - begun),
                "current_capacity": 1.0, "active_tasks": [], "health": {"cpu_ok": True, "memory_ok": True, "disk_ok": True, "last_error": None}})
            if over.wait(max(o.poll, 0.2)):
                return

    beating = threading.Thread(target=beat)
    beating.start()
    report = {"tasks": {}}
    for task in o.ids:
        write_json(os.path.join(base, "codex_tasks", f"task_{task}.request.json"), request(task, o.script, o.source, o.target))
        result, start = None, time.time()
        while time.time() - start < o.wait:
            try:
                with open(os.path.join(base, "codex_tasks", f"task_{task}.result.json")) as f:
                    result = json.load(f)
                break
            except (FileNotFoundError, ValueError):
                pass  # not there yet, or half of it
            seen = pulse.look()
            if seen and seen["status"] == "error":
                result = {"status": "the executor is in error"}
                break
            time.sleep(o.poll)
        pulse.look()
        status = result["status"] if result else "the wait is over"
        report["tasks"][task] = {"status": status, "breaches": breaches(result, task) if result else []}
    over.set()
    beating.join()
    report["pulse"] = {"reads": pulse.reads, "missing": pulse.missing, "torn": pulse.torn, "backwards": pulse.backwards, "names": sorted(pulse.names)}
    report["last_beat"] = beats[-1]
    json.dump(report, sys.stdout)


main()
