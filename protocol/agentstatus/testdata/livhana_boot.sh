# Step 3.5: Initialize inter-agent communication
banner "STEP 3.5: INTER-AGENT COMMUNICATION SETUP"

# Create directory structure
mkdir -p "$ROOT/tmp/agent_status/codex_tasks"
mkdir -p "$ROOT/tmp/agent_status/codex_status"
mkdir -p "$ROOT/tmp/agent_status/livhana_status"
mkdir -p "$ROOT/tmp/agent_status/shared"

# Initialize agent registry
cat > "$ROOT/tmp/agent_status/shared/agent_registry.json" <<EOF
{
  "updated_at": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
  "agents": {
    "livhana-layer1.1": {
      "type": "orchestrator",
      "environment": "claude-code-cli",
      "pid": $$,
      "status": "active",
      "last_seen": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
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
EOF

# Initialize Liv Hana heartbeat
cat > "$ROOT/tmp/agent_status/livhana_status/heartbeat.json" <<EOF
{
  "agent_name": "livhana-layer1.1",
  "status": "active",
  "last_heartbeat": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
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
EOF

# Initialize coordination log
touch "$ROOT/tmp/agent_status/shared/coordination_log.jsonl"
echo '{"timestamp":"'$(date -u +"%Y-%m-%dT%H:%M:%SZ")'","event_type":"session_start","source_agent":"livhana-layer1.1","message":"Inter-agent communication initialized"}' >> "$ROOT/tmp/agent_status/shared/coordination_log.jsonl"

success "Inter-agent communication initialized"
info "Protocol: .claude/INTER_AGENT_COMMUNICATION_PROTOCOL.md"
