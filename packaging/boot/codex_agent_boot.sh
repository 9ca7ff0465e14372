#!/usr/bin/env bash
# CODEX Agent Boot Script - Cursor Environment
# Initializes CODEX for inter-agent communication with Liv Hana, by `steward boot codex-cursor`.
#
# Copy it to scripts/codex_agent_boot.sh. It works with a running daemon and without one; without steward it does the
# same set-up by hand.
# STEWARD names the program, if it lies elsewhere. STEWARD_AGENT_PID names the process that lives as long as the agent.

set -euo pipefail

# The project: $ROOT; else, as in the document, the parent of the scripts folder; else where git or the caller stands.
find_root() {
  local here
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  if [[ -d ${ROOT:-} ]]; then
    (cd "$ROOT" && pwd)
  elif [[ ${here##*/} == scripts ]]; then
    dirname "$here"
  else
    git rev-parse --show-toplevel 2>/dev/null || pwd
  fi
}

find_program() {
  if [[ -n ${STEWARD:-} ]]; then
    command -v "$STEWARD"
  else
    PATH="${PATH:-}:${HOME:-}/.local/bin:/opt/homebrew/bin:/usr/local/bin:/usr/bin" command -v steward
  fi
}

# The process that lives as long as the agent, if it is known: nothing is better than a guess, because the end of this
# process is taken for the end of the agent. $$ ends with this script, and Cursor outlives the agent.
find_agent() {
  local pid=$$ parent name depth=0
  if [[ -n ${STEWARD_AGENT_PID:-} ]]; then
    printf '%s\n' "$STEWARD_AGENT_PID"
    return
  fi
  while [[ $pid =~ ^[0-9]+$ && $pid -gt 1 && $depth -lt 10 ]]; do
    depth=$((depth + 1))
    read -r parent name <<<"$(ps -o ppid= -o comm= -p "$pid" 2>/dev/null)"
    case ${name##*/} in
    codex | cursor-agent)
      printf '%s\n' "$pid"
      return
      ;;
    esac
    pid=$parent
  done
}

# by_hand does what steward does, in short. A registry that cannot be changed safely stays as it is.
by_hand() {
  local base="$ROOT/tmp/agent_status"
  local beat="$base/codex_status/heartbeat.json"
  mkdir -p "$base/codex_tasks" "$base/codex_status" "$base/shared"
  cat >"$beat.$$.new" <<JSON
{
  "agent_name": "codex-cursor",
  "status": "active",
  "last_heartbeat": "$TIMESTAMP",
  "uptime_seconds": 0,
  "current_capacity": 0.8,
  "active_tasks": [],
  "health": {
    "cpu_ok": true,
    "memory_ok": true,
    "disk_ok": true,
    "last_error": null
  }
}
JSON
  mv -f "$beat.$$.new" "$beat"
  python3 - "$base/shared/agent_registry.json" "$TIMESTAMP" $$ <<'PYTHON' 2>/dev/null || echo "The registry was left as it is: python3 could not update it"
import json, os, sys
path, now, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path) as f:
    registry = json.load(f)
entry = {"type": "executor", "environment": "cursor-ide", "capabilities": ["code_execution", "file_operations", "git_operations"]}
entry.update(registry.setdefault("agents", {}).get("codex-cursor", {}))
entry.update(status="active", last_seen=now, pid=pid)
registry["agents"]["codex-cursor"], registry["updated_at"] = entry, now
with open(path + ".new", "w") as f:
    json.dump(registry, f, indent=2)
os.replace(path + ".new", path)
PYTHON
  printf '{"timestamp":"%s","event_type":"agent_ready","source_agent":"codex-cursor","message":"CODEX agent initialized and ready for tasks"}\n' "$TIMESTAMP" >>"$base/shared/coordination_log.jsonl"
}

ROOT=$(find_root)
TIMESTAMP=$(date -u +"%Y-%m-%dT%H:%M:%SZ")

echo "========================================="
echo "CODEX AGENT BOOT SEQUENCE"
echo "========================================="
echo "Timestamp: $TIMESTAMP"
echo "Root: $ROOT"
echo

# Check if agent_status exists
if [[ ! -d "$ROOT/tmp/agent_status" ]]; then
  echo "ERROR: Inter-agent communication not initialized"
  echo "Run: bash scripts/claude_tier1_boot.sh first"
  exit 1
fi

if program=$(find_program); then
  agent=$(find_agent)
  # Not in a subshell: without --pid the registry shows steward's caller, which is to be $$ as in the document.
  "$program" boot codex-cursor --project "$ROOT" ${agent:+--pid "$agent"} >/dev/null
else
  echo "steward is not installed, so nothing watches over the agents; how to install it: https://github.com/livhana/steward"
  by_hand
fi

echo "✅ CODEX agent initialized"
echo "✅ Heartbeat active"
echo "✅ Ready to receive tasks from Liv Hana"
echo
echo "Protocol: .claude/INTER_AGENT_COMMUNICATION_PROTOCOL.md"
echo "========================================="
