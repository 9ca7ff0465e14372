//go:build !linux

package proc

import "errors"

func table() ([]Process, error)                           { return nil, errors.ErrUnsupported }
func cwd(int) (string, error)                             { return "", errors.ErrUnsupported }
func command(int) ([]string, error)                       { return nil, errors.ErrUnsupported }
func environ(int) ([]string, error)                       { return nil, errors.ErrUnsupported }
func opened(int) ([]OpenFile, error)                      { return nil, errors.ErrUnsupported }
func flockHolders(string) ([]Identity, error)             { return nil, errors.ErrUnsupported }
func flockHoldersAmong(string, []int) ([]Identity, error) { return nil, errors.ErrUnsupported }
func flockWaiters(string) ([]Identity, error)             { return nil, errors.ErrUnsupported }
