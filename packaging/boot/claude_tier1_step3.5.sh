#!/usr/bin/env bash
# Step 3.5 of scripts/claude_tier1_boot.sh: inter-agent communication, set up by `steward boot livhana-layer1.1`.
#
# Source it after Step 3:   . "$ROOT/scripts/claude_tier1_step3.5.sh"
#
# It works with a running daemon and without one. It ends nothing, and changes no option of the script that sources it;
# without steward it does the same set-up by hand. It runs by itself too.
# STEWARD names the program, if it lies elsewhere. STEWARD_AGENT_PID names the process that lives as long as the agent.

declare -F banner >/dev/null || banner() { printf '\n== %s ==\n' "$1"; }
declare -F success >/dev/null || success() { printf '✅ %s\n' "$1"; }
declare -F info >/dev/null || info() { printf '%s\n' "$1"; }

# The project: $ROOT; else, as in the document, the parent of the scripts folder; else where git or the caller stands.
step35_root() {
  local here
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  if [[ -d ${ROOT:-} ]]; then
    printf '%s\n' "$ROOT"
  elif [[ ${here##*/} == scripts ]]; then
    dirname "$here"
  else
    git rev-parse --show-toplevel 2>/dev/null || pwd
  fi
}

step35_program() {
  if [[ -n ${STEWARD:-} ]]; then
    command -v "$STEWARD"
  else
    PATH="${PATH:-}:${HOME:-}/.local/bin:/opt/homebrew/bin:/usr/local/bin:/usr/bin" command -v steward
  fi
}

# The process that lives as long as the agent, if it is known: nothing is better than a guess, because the end of this
# process is taken for the end of the agent. $$ is right only for a boot script that becomes the agent by exec.
step35_agent() {
  local pid=$$ parent name depth=0
  if [[ -n ${STEWARD_AGENT_PID:-} ]]; then
    printf '%s\n' "$STEWARD_AGENT_PID"
    return
  fi
  while [[ $pid =~ ^[0-9]+$ && $pid -gt 1 && $depth -lt 10 ]]; do
    depth=$((depth + 1))
    read -r parent name <<<"$(ps -o ppid= -o comm= -p "$pid" 2>/dev/null)"
    if [[ ${name##*/} == claude ]]; then
      printf '%s\n' "$pid"
      return
    fi
    pid=$parent
  done
}

# step35_write FILE puts what it reads there in one step.
step35_write() { cat >"$1.$$.new" && mv -f "$1.$$.new" "$1"; }

# What steward does, in short. A registry that is there stays, but for this agent's entry.
step35_by_hand() {
  local base="$1/tmp/agent_status" now
  local registry="$base/shared/agent_registry.json"
  now=$(date -u +"%Y-%m-%dT%H:%M:%SZ")
  mkdir -p "$base/codex_tasks" "$base/codex_status" "$base/livhana_status" "$base/shared" || return 1
  if [[ ! -e $registry ]]; then
    step35_write "$registry" <<JSON || return 1
{
  "updated_at": "$now",
  "agents": {
    "livhana-layer1.1": {
      "type": "orchestrator",
      "environment": "claude-code-cli",
      "pid": $$,
      "status": "active",
      "last_seen": "$now",
      "capabilities": ["voice", "orchestration", "task_delegation"]
    },
    "codex-cursor": {
      "type": "executor",
      "environment": "cursor-ide",
      "pid": null,
      "status": "unknown",
      "last_seen": null,
      "capabilities": ["code_execution", "file_operations", "git_operations"]
    }
  }
}
JSON
  else
    python3 - "$registry" "$now" $$ <<'PYTHON' 2>/dev/null || info "The registry was left as it is: python3 could not update it"
import json, os, sys
path, now, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path) as f:
    registry = json.load(f)
entry = {"type": "orchestrator", "environment": "claude-code-cli", "capabilities": ["voice", "orchestration", "task_delegation"]}
entry.update(registry.setdefault("agents", {}).get("livhana-layer1.1", {}))
entry.update(status="active", last_seen=now, pid=pid)
registry["agents"]["livhana-layer1.1"], registry["updated_at"] = entry, now
with open(path + ".new", "w") as f:
    json.dump(registry, f, indent=2)
os.replace(path + ".new", path)
PYTHON
  fi
  step35_write "$base/livhana_status/heartbeat.json" <<JSON || return 1
{
  "agent_name": "livhana-layer1.1",
  "status": "active",
  "last_heartbeat": "$now",
  "uptime_seconds": 0,
  "current_capacity": 1.0,
  "active_tasks": [],
  "health": {
    "cpu_ok": true,
    "memory_ok": true,
    "disk_ok": true,
    "last_error": null
  }
}
JSON
  printf '{"timestamp":"%s","event_type":"session_start","source_agent":"livhana-layer1.1","message":"Inter-agent communication initialized"}\n' "$now" >>"$base/shared/coordination_log.jsonl"
}

step35() {
  local root program agent
  root=$(step35_root) || return 1
  if ! program=$(step35_program); then
    info "steward is not installed, so nothing watches over the agents; how to install it: https://github.com/livhana/steward"
    step35_by_hand "$root"
    return
  fi
  agent=$(step35_agent)
  # Not in a subshell: without --pid the registry shows steward's caller, which is to be $$ as in the document.
  "$program" boot livhana-layer1.1 --project "$root" ${agent:+--pid "$agent"} >/dev/null
}

banner "STEP 3.5: INTER-AGENT COMMUNICATION SETUP"
if step35; then
  success "Inter-agent communication initialized"
  info "Protocol: .claude/INTER_AGENT_COMMUNICATION_PROTOCOL.md"
else
  info "⚠️  Inter-agent communication was not initialized; the reason stands above. The boot goes on; see: steward doctor"
fi
