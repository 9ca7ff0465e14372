//go:build !linux

package main

import "errors"

type opened struct{}

func watchOpened([]string) (*opened, error) {
	return nil, errors.New("not measured: only Linux tells when a program is opened")
}

func (*opened) drain()         {}
func (*opened) next(int) error { return nil }
