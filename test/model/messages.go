package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// messagesRequest is a request of Anthropic's Messages interface, as far as the model needs it.
type messagesRequest struct {
	Stream   bool
	Tools    []struct{ Name string }
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
}

func readMessages(body []byte) (c conversation) {
	var r messagesRequest
	_ = json.Unmarshal(body, &r)
	c.stream, c.tools = r.Stream, map[string]bool{}
	for _, t := range r.Tools {
		c.tools[t.Name] = true
	}
	for _, m := range r.Messages {
		if m.Role != "user" {
			continue
		}
		var plain string
		if json.Unmarshal(m.Content, &plain) == nil {
			c.said(plain)
			continue
		}
		var parts []struct{ Type, Text string }
		_ = json.Unmarshal(m.Content, &parts)
		for _, p := range parts {
			switch p.Type {
			case "tool_result":
				c.results++
			case "text":
				c.said(p.Text)
			}
		}
	}
	return c
}

// said records a text of the user. The programs' own reminders do not count.
func (c *conversation) said(text string) {
	if t := strings.TrimSpace(text); t != "" && !strings.HasPrefix(t, "<system-reminder>") && !strings.HasPrefix(t, "<environment_context>") &&
		!strings.HasPrefix(t, "<permissions") && !strings.HasPrefix(t, "# AGENTS.md") {
		c.text, c.results = text, 0
	}
}

func answerMessages(w http.ResponseWriter, body []byte, t turn) {
	message := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 5, "output_tokens": 5}, "content": []any{}}
	reason, block := "end_turn", map[string]any{"type": "text", "text": t.text}
	if t.tool != "" {
		reason, block = "tool_use", map[string]any{"type": "tool_use", "id": callID(), "name": t.tool, "input": t.input}
	}
	if !readMessages(body).stream {
		message["content"], message["stop_reason"] = []any{block}, reason
		doc, _ := json.Marshal(message)
		reply(w, string(doc))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "message_start", map[string]any{"type": "message_start", "message": message})
	delta := map[string]any{"type": "text_delta", "text": t.text}
	opened := map[string]any{"type": "text", "text": ""}
	if t.tool != "" {
		input, _ := json.Marshal(t.input)
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
		opened = map[string]any{"type": "tool_use", "id": block["id"], "name": t.tool, "input": map[string]any{}}
	}
	event(w, "content_block_start", map[string]any{"type": "content_block_start", "index": 0, "content_block": opened})
	event(w, "content_block_delta", map[string]any{"type": "content_block_delta", "index": 0, "delta": delta})
	event(w, "content_block_stop", map[string]any{"type": "content_block_stop", "index": 0})
	event(w, "message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 5}})
	event(w, "message_stop", map[string]any{"type": "message_stop"})
}
