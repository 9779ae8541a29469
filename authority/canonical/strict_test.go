package canonical

import "testing"

func TestDecodeStrict(t *testing.T) {
	for text, fails := range map[string]bool{
		`{"a":1}`: false, " {\"a\":1}\n": false,
		`{"a":1,"b":2}`: true, `{"a":1}}`: true, `{"a":1}]`: true, `{"a":1} x`: true, `{"a":1}{"a":2}`: true, `{"a":"1"}`: true, ``: true,
	} {
		var v struct {
			A int `json:"a"`
		}
		if err := DecodeStrict([]byte(text), &v); (err != nil) != fails || !fails && v.A != 1 {
			t.Errorf("%q: %+v, %v", text, v, err)
		}
	}
}
