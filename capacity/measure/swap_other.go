//go:build !linux && !darwin

package measure

// addSwap adds nothing: here the page file is not told apart from memory.
func (m *memory) addSwap() {}
