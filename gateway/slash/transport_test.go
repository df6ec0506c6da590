package slash

import (
	"net/http"
	"testing"
)

// newTransport gives connections that end with the test.
func newTransport(t *testing.T) *http.Transport {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
