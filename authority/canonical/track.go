package canonical

// Tracker checks a sequence of texts that resemble each other.
type Tracker struct{}

// Check is the package's Check.
func (t *Tracker) Check(next []byte) error { return Check(next) }

// reached is asked by the scanner at a comma at or after its watch.
func (t *Tracker) reached(*scanner) bool { return false }
