package heartbeat

import (
	"reflect"
	"testing"
	"time"
)

// TestSameSeesEveryField: a field that Same omits would hide a change.
func TestSameSeesEveryField(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Memory]()) {
		var a, b Memory
		if !a.Same(&b) {
			t.Fatal("two that are empty are not the same")
		}
		if alter(reflect.ValueOf(&b).Elem().FieldByIndex(field.Index)); a.Same(&b) || b.Same(&a) {
			t.Errorf("%s goes unseen", field.Name)
		}
	}
}

// alter makes a zero value another one.
func alter(f reflect.Value) {
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
	case f.Kind() == reflect.Struct:
		alter(f.Field(0))
	}
}
