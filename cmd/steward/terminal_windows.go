package main

func hasTerminal() bool { return false }
