package heartbeat

import (
	"reflect"
	"testing"
	"time"
)

// TestSameSeesEveryField: a field that Same omits would hide a change.
func TestSameSeesEveryField(t *testing.T) {
	all := reflect.TypeFor[Memory]()
	for i := range all.NumField() {
		var a, b Memory
		if !a.Same(&b) {
			t.Fatal("two that are empty are not the same")
		}
		f := reflect.ValueOf(&b).Elem().Field(i)
		switch {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.Unix(1, 0)))
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(1)
		case f.Kind() == reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		case f.Kind() == reflect.Struct && f.Field(0).CanInt():
			f.Field(0).SetInt(1)
		case f.Kind() == reflect.Struct && f.Field(0).Kind() == reflect.String:
			f.Field(0).SetString("x")
		case f.Kind() == reflect.Struct:
			f.Field(0).SetBool(true)
		}
		if a.Same(&b) || b.Same(&a) {
			t.Errorf("%s goes unseen", all.Field(i).Name)
		}
	}
}
