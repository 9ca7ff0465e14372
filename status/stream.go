package status

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxEvent limits the length of one line of a stream.
const maxEvent = 4 << 20

// Stream requests server-sent events, such as those of "/v1/log", and calls each with the data of every event. It ends
// with each's first error, with ctx's, or with ErrNoDaemon when the daemon ends.
func (c *Client) Stream(ctx context.Context, path string, each func(data []byte) error) error {
	res, err := c.send(ctx, http.MethodGet, path, "text/event-stream", nil)
	if err != nil {
		return c.gone(ctx, http.MethodGet, path, err)
	}
	defer res.Body.Close()
	if err := readEvents(res.Body, each); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("follow %s: the stream ended: %w", path, ErrNoDaemon)
}

// readEvents calls each with the data of every complete event; it drops an event that is cut short at the end. The data
// is valid only during the call.
func readEvents(r io.Reader, each func(data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	var data []byte
	some := false
	for lines.Scan() {
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
		if len(line) == 0 {
			if some {
				if err := each(data); err != nil {
					return err
				}
			}
			data, some = data[:0], false
			continue
		}
		text, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue // a comment, or a field that is not needed
		}
		if some {
			data = append(data, '\n')
		}
		data, some = append(data, bytes.TrimPrefix(text, []byte(" "))...), true
		if len(data) > maxEvent {
			return errors.New("read the stream: an event is too long")
		}
	}
	if err := lines.Err(); err != nil && !brokeOff(err) {
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}
