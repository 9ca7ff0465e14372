package ralph

import "github.com/livhana/steward/protocol/folder"

func textsField(key string) folder.Field {
	return folder.Field{Key: key, Form: folder.List, Item: &folder.Field{Form: folder.String}}
}

// resultTable describes a result file (protocol 002, Epoch-Named Result Files and Gate Result Values). The reader accepts
// any file: see decodeResult.
var resultTable = folder.Table{Fields: []folder.Field{folder.Must("agent_type", folder.Text), {Key: "status", Form: folder.Text, Words: []string{"success", "failure", "partial"}},
	folder.Must("exit_code", folder.Number), folder.May("started_at", folder.Time), folder.Must("completed_at", folder.Time), folder.May("duration_seconds", folder.Number),
	folder.Must("task_id", folder.Text), folder.May("worker_id", folder.Text), folder.May("iterations_completed", folder.Number),
	{Key: "outputs", Form: folder.Object, Inside: folder.Table{Fields: []folder.Field{
		{Key: "gate_result", Form: folder.Text, Format: folder.Format{Name: "a word of 3 to 10 capital letters", Fits: func(s string) bool { return gateWord().MatchString(s) },
			Schema: `"pattern": "^[A-Z]{3,10}$"`}}}}},
	folder.Must("errors", folder.List), folder.Must("metadata", folder.Object)}}

// checkpointTable describes a checkpoint (protocol 002, Structured Checkpoints).
var checkpointTable = folder.Table{Fields: []folder.Field{folder.Must("version", folder.Text), folder.Must("iteration", folder.Number), folder.Must("session_id", folder.Text),
	folder.Must("timestamp", folder.Time), folder.Must("status", folder.Text), textsField("files_modified"), textsField("completed_tasks"), textsField("next_steps"),
	folder.Must("prose_summary", folder.String)}}

// Messages lists the files of protocol 002 that steward can check.
func Messages() []folder.Message {
	return []folder.Message{{Name: "ralph/result", Title: "Protocol 002, Epoch-Named Result Files and Gate Result Values", Table: resultTable},
		{Name: "ralph/checkpoint", Title: "Protocol 002, Structured Checkpoints", Table: checkpointTable}}
}
