package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gatewayd/config"
	"gatewayd/gateway/tool"
	"gatewayd/internal/procfs"
)

// selfOf is what no tool may end or change: the daemon of this home, and, in a worker, the worker too.
func selfOf(loaded config.Loaded, workspace string) *tool.Self {
	s := &tool.Self{
		PIDs: []int{os.Getpid()}, Names: []string{"gatewayd"}, Command: strings.Join(os.Args, " "), Units: []string{"gatewayd.service"},
		Home: loaded.Home, Root: os.Geteuid() == 0,
		Vars: map[string]string{"HOME": loaded.Environ.Get("HOME"), "GATEWAYD_HOME": loaded.Home},
	}
	if exe, err := os.Executable(); err == nil && filepath.Base(exe) != "gatewayd" {
		s.Names = append(s.Names, filepath.Base(exe))
	}
	if real, err := filepath.EvalSymlinks(loaded.Home); err == nil {
		s.Home = real
	}
	for _, dir := range []string{workspace, loaded.Tools.WriteRoot} {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			s.Free = append(s.Free, real)
		}
	}
	if holder, held, err := config.HolderOf(loaded.Home); err == nil && held {
		s.PIDs = append(s.PIDs, holder.PID)
		s.Ports = portOf(holder.Addr)
	}
	if unit := procfs.Unit(); unit != "" {
		s.Units = append(s.Units, unit)
	}
	return s
}

func portOf(addr string) []int {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return []int{port}
}
