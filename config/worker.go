package config

import (
	"slices"
	"strconv"
	"strings"
)

// Worker is what a dispatcher told this process: which card it works on and by which run it may write.
type Worker struct {
	Task      string
	Run       int64
	Board     string
	DB        string
	Workspace string
	Lock      string
	// Keeper is the id of the keeper that this process runs under; empty for a worker of the Python original.
	Keeper string
}

const (
	taskEnv   = "GATEWAYD_KANBAN_TASK"
	keeperEnv = "GATEWAYD_KEEPER"
	// sessionEnv is what the terminal tool tells its commands: in which conversation they run.
	sessionEnv = "GATEWAYD_SESSION_ID"
)

// WithoutWorker is the environment without what a dispatcher told a worker, or a conversation its command. A daemon that
// either starts is a daemon of its own: it must neither speak for that worker nor serve its boards, and is part of no conversation.
func (e Environ) WithoutWorker() Environ {
	e = slices.DeleteFunc(slices.Clone(e), func(word string) bool { return strings.HasPrefix(word, sessionEnv+"=") })
	l := &loader{Loaded: Loaded{Environ: e}}
	if !l.insideWorker() {
		return e
	}
	known := map[string]bool{}
	for _, v := range variables {
		known[v.name], known[hermesName(v.name)] = true, v.hermes
	}
	return slices.DeleteFunc(e, func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		told := strings.HasPrefix(name, "GATEWAYD_KANBAN_") || strings.HasPrefix(name, "HERMES_KANBAN_")
		return told && !known[name] || slices.Contains([]string{keeperEnv, "GATEWAYD_TASK_FILE", "GATEWAYD_EXE"}, name)
	})
}

func (l *loader) insideWorker() bool {
	_, task := l.workerVariable(taskEnv)
	_, keeper := l.Environ.Lookup(keeperEnv)
	return task != "" || keeper
}

// workerVariable reads a variable of a worker by our name, else by the name of the original.
func (l *loader) workerVariable(name string) (found, text string) {
	if text = l.Environ.Get(name); text != "" {
		return name, text
	}
	return hermesName(name), l.Environ.Get(hermesName(name))
}

func (l *loader) worker() {
	_, task := l.workerVariable(taskEnv)
	if task == "" {
		return
	}
	w := &Worker{Task: task, Keeper: l.Environ.Get(keeperEnv)}
	for name, field := range map[string]*string{
		"GATEWAYD_KANBAN_BOARD": &w.Board, "GATEWAYD_KANBAN_DB": &w.DB,
		"GATEWAYD_KANBAN_WORKSPACE": &w.Workspace, "GATEWAYD_KANBAN_CLAIM_LOCK": &w.Lock,
	} {
		_, *field = l.workerVariable(name)
	}
	l.workerRun(w)
	l.Worker = w
}

// workerRun reads the fence. Without one a worker could write over its successor, so it is refused.
func (l *loader) workerRun(w *Worker) {
	name, text := l.workerVariable("GATEWAYD_KANBAN_RUN_ID")
	run, err := strconv.ParseInt(text, 10, 64)
	if err != nil || run <= 0 {
		l.refuse(name, "must be the number of this worker's run", "start workers through a dispatcher", nil)
		return
	}
	w.Run = run
	if w.Lock == "" {
		l.refuse(taskEnv, "is set without GATEWAYD_KANBAN_CLAIM_LOCK, so this process cannot be told from another", "start workers through a dispatcher", nil)
	}
}
