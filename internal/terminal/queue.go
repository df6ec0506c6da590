package terminal

// queue hands inputs over in order. Putting never blocks, so that whoever paints is never held up by whoever listens.
type queue struct {
	in   chan Input
	out  chan Input
	done chan struct{}
}

func newQueue() *queue {
	q := &queue{in: make(chan Input), out: make(chan Input), done: make(chan struct{})}
	go q.pump()
	return q
}

func (q *queue) put(i Input) {
	select {
	case q.in <- i:
	case <-q.done:
	}
}

func (q *queue) close() { close(q.done) }

func (q *queue) pump() {
	defer close(q.out)
	var waiting []Input
	for {
		var out chan Input
		var next Input
		if len(waiting) > 0 {
			out, next = q.out, waiting[0]
		}
		select {
		case i := <-q.in:
			waiting = append(waiting, i)
		case out <- next:
			waiting = waiting[1:]
		case <-q.done:
			return
		}
	}
}
