//go:build !linux

package jsonfile

func (d folder) each(take func(name []byte)) error {
	names, err := d.f.Readdirnames(-1)
	if err != nil {
		return err
	}
	var buf []byte
	for _, name := range names {
		buf = append(buf[:0], name...)
		take(buf)
	}
	return nil
}
