//go:build !linux

package homesocket

import "errors"

func credentials(int) (Peer, error) { return Peer{}, errors.ErrUnsupported }
