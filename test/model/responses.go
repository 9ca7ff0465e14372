package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
)

// responsesRequest is a request of OpenAI's Responses interface, as far as the model needs it.
type responsesRequest struct {
	Tools []struct{ Type, Name string }
	Input []struct {
		Type, Role string
		Content    []struct{ Type, Text string }
	}
}

func readResponses(body []byte) (c conversation) {
	var r responsesRequest
	_ = json.Unmarshal(body, &r)
	c.tools = map[string]bool{}
	for _, t := range r.Tools {
		c.tools[t.Name] = true
	}
	for _, item := range r.Input {
		switch {
		case item.Type == "function_call_output" || item.Type == "custom_tool_call_output":
			c.results++
		case item.Role == "user":
			for _, part := range item.Content {
				c.said(part.Text)
			}
		}
	}
	return c
}

var calls atomic.Int64

// callID returns an id for a call that no other call has.
func callID() string { return fmt.Sprintf("call_%d", calls.Add(1)) }

func answerResponses(w http.ResponseWriter, _ []byte, t turn) {
	item := map[string]any{"type": "message", "id": callID(), "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": t.text, "annotations": []any{}}}}
	if t.tool != "" {
		input, _ := json.Marshal(t.input)
		item = map[string]any{"type": "function_call", "id": callID(), "call_id": callID(), "name": t.tool, "arguments": string(input), "status": "completed"}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "response.created", map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_1"}})
	event(w, "response.output_item.done", map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item})
	event(w, "response.completed", map[string]any{"type": "response.completed", "response": map[string]any{"id": "resp_1",
		"usage": map[string]any{"input_tokens": 5, "input_tokens_details": nil, "output_tokens": 5, "output_tokens_details": nil, "total_tokens": 10}}})
}
