package desktop

import "time"

type screen = banner

func newScreen(out *outbox) *screen { return &banner{settle: time.Second, out: out} }
