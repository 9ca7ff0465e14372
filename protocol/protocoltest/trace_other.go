//go:build !linux

package protocoltest

import "errors"

func traceThread(string, string) error { return errors.ErrUnsupported }
