package e2e

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"
)

// savePalette writes a part of a picture with its 256 most frequent colours: a screenshot needs no more, and becomes small.
func savePalette(file string, img image.Image, part image.Rectangle) error {
	part = part.Intersect(img.Bounds())
	count := map[color.RGBA]int{}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			count[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(gray(a), gray(b)))
	})
	var colours color.Palette
	for _, c := range order[:min(len(order), 256)] {
		colours = append(colours, c)
	}
	small := image.NewPaletted(image.Rect(0, 0, part.Dx(), part.Dy()), colours)
	draw.Draw(small, small.Bounds(), img, part.Min, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// gray orders colours, so that the same picture gives the same bytes.
func gray(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

func TestSavePalette(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 60, 40))
	for i := range 60 * 40 {
		img.SetRGBA(i%60, i/60, color.RGBA{uint8(i % 60), uint8(i / 60 * 6), 9, 255})
	}
	draw.Draw(img, image.Rect(0, 0, 30, 30), image.NewUniform(color.RGBA{200, 0, 0, 255}), image.Point{}, draw.Src)
	file := t.TempDir() + "/p.png"
	if err := savePalette(file, img, image.Rect(10, 20, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(file)
	got, err := png.Decode(bytes.NewReader(data))
	if err != nil || got.Bounds() != image.Rect(0, 0, 50, 20) {
		t.Fatalf("%v, %v", got.Bounds(), err)
	}
	if _, ok := got.(*image.Paletted); !ok || len(data) > 2000 {
		t.Errorf("%T, %d bytes", got, len(data))
	}
	if c := color.RGBAModel.Convert(got.At(0, 0)); c != (color.RGBA{200, 0, 0, 255}) {
		t.Errorf("the corner is %v", c)
	}
}
