package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/systemd"
)

// A part that was told to stop is no longer asked, so that a drain of any length is fed; one that hangs is missed.
func TestAPartThatEndsInOrderIsNotMissedInALongDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{watchdog: systemd.NewWatchdog(systemd.NewNotifier(), quiet())}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		gone := func(context.Context) error { return errors.New("nobody listens") }
		ended := make(chan struct{})
		go d.follow(ctx, probe{"ended", gone, ended})
		go d.follow(ctx, probe{"hung", gone, nil})
		close(ended)
		<-time.After(10 * silence)
		synctest.Wait()
		if got := d.watchdog.Silent(); !slices.Equal(got, []string{"hung"}) {
			t.Errorf("silent: %v, want the part that hangs and no other", got)
		}
		cancel()
		synctest.Wait()
	})
}

// The API says that its silence is order as soon as it is told to stop, and not when its last request has ended.
func TestTheAPIIsNotAskedOnceItIsToldToStop(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	began := make(chan struct{})
	d := &daemon{log: quiet(), listener: listener, apiStops: make(chan struct{}), talked: make(chan struct{}), server: &http.Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(began); <-release }),
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.listen(ctx) }()
	go func() { _, _ = http.Get("http://" + listener.Addr().String()) }()
	<-began
	stop()
	<-d.apiStops
	close(d.talked)
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
