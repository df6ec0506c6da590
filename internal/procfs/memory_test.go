package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

func place(t *testing.T, files map[string]string) (proc, groups string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/proc", dir + "/cg"
}

const (
	meminfo = "MemTotal:       1000 kB\nMemFree:        100 kB\nMemAvailable:   600 kB\n"
	psi     = "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=3.25 avg60=0.00 avg300=0.00 total=4\n"
	kb      = 1 << 10
)

func TestMemoryIsThatOfTheTightestGroup(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Memory
	}{
		"the machine alone": {nil, Memory{Total: 1000 * kb, Available: 600 * kb}},
		"pressure":          {map[string]string{"proc/pressure/memory": psi}, Memory{Total: 1000 * kb, Available: 600 * kb, Some: 12.5, Full: 3.25}},
		"a group without a limit": {
			map[string]string{"proc/self/cgroup": "0::/a/b\n", "cg/a/b/memory.max": "max\n", "cg/a/b/memory.current": "102400\n"},
			Memory{Total: 1000 * kb, Available: 600 * kb},
		},
		"a limit above": {
			map[string]string{
				"proc/self/cgroup": "0::/a/b\n", "cg/a/b/memory.max": "max\n", "cg/a/memory.max": "204800\n", "cg/a/memory.current": "163840\n",
				"cg/a/memory.stat": "anon 1\ninactive_file 20480\n", "cg/a/memory.pressure": psi,
			},
			Memory{Total: 200 * kb, Available: 60 * kb, Some: 12.5, Full: 3.25, Group: "/a"},
		},
		"a container that sees its own group as the mount": {
			map[string]string{"proc/self/cgroup": "0::/docker/x\n", "cg/memory.max": "102400", "cg/memory.current": "102400"},
			Memory{Total: 100 * kb, Group: "/"},
		},
		"the older hierarchy": {
			map[string]string{
				"proc/self/cgroup": "4:cpu,memory:/x\n0::/\n", "cg/memory/x/memory.limit_in_bytes": "512000\n", "cg/memory/x/memory.usage_in_bytes": "409600\n",
				"cg/memory/memory.limit_in_bytes": "9223372036854771712\n", "cg/memory/memory.usage_in_bytes": "1\n",
			},
			Memory{Total: 500 * kb, Available: 100 * kb, Group: "/x"},
		},
		"nonsense": {
			map[string]string{"proc/self/cgroup": "x\n0::/a\n", "cg/a/memory.max": "many", "proc/pressure/memory": "some\nfull avg10=x"},
			Memory{Total: 1000 * kb, Available: 600 * kb},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"proc/meminfo": meminfo}
			for k, v := range c.files {
				files[k] = v
			}
			proc, groups := place(t, files)
			if got, err := memoryAt(proc, groups); err != nil || got != c.want {
				t.Errorf("%+v %v, want %+v", got, err, c.want)
			}
		})
	}
	if _, err := memoryAt(t.TempDir(), "x"); err == nil {
		t.Error("no meminfo is no error")
	}
	if m, err := ReadMemory(); err != nil || m.Total < 1<<20 || m.Available > m.Total {
		t.Errorf("of this machine: %+v %v", m, err)
	}
}

func TestTheCeilingOfMemoryIsTheLowestLimitOnTheWayUp(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":                    {map[string]string{"proc/self/cgroup": "0::/a/b\n", "cg/a/b/memory.max": "max\n"}, 0},
		"above the machine":       {map[string]string{"proc/self/cgroup": "0::/\n", "cg/memory.max": "9223372036854771712\n"}, 0},
		"its own":                 {map[string]string{"proc/self/cgroup": "0::/a\n", "cg/a/memory.max": "204800\n", "cg/memory.max": "409600\n"}, 200 * kb},
		"of a group above":        {map[string]string{"proc/self/cgroup": "0::/a\n", "cg/a/memory.max": "409600\n", "cg/memory.max": "204800\n"}, 200 * kb},
		"a container's, as mount": {map[string]string{"proc/self/cgroup": "0::/docker/x\n", "cg/memory.max": "102400\n"}, 100 * kb},
		"the older hierarchy":     {map[string]string{"proc/self/cgroup": "4:memory:/d\n0::/\n", "cg/memory/d/memory.limit_in_bytes": "102400\n"}, 100 * kb},
	} {
		files := map[string]string{"proc/meminfo": meminfo}
		for path, text := range c.files {
			files[path] = text
		}
		proc, groups := place(t, files)
		if got := ceilingAt(proc, groups); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
