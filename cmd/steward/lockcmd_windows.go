package main

// inForeground: the console tells all of its programs.
func inForeground() bool { return true }
