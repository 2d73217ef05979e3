package otlp

import "sync"

// A queue holds waiting items, up to a number of bytes, in order.
type queue[T any] struct {
	mu     sync.Mutex // guards the fields below
	more   *sync.Cond
	items  []sized[T]
	bytes  int64
	most   int64
	closed bool
}

type sized[T any] struct {
	item  T
	bytes int64
}

func newQueue[T any](most int64) *queue[T] {
	q := &queue[T]{most: most}
	q.more = sync.NewCond(&q.mu)
	return q
}

// push adds an item without waiting. It returns false if the item does not fit.
func (q *queue[T]) push(item T, bytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes += 256 // count some bytes for each item, because an empty item needs memory too
	if q.closed || q.bytes+bytes > q.most {
		return false
	}
	q.items, q.bytes = append(q.items, sized[T]{item, bytes}), q.bytes+bytes
	q.more.Signal()
	return true
}

// pop removes and returns the oldest item. If the queue is empty, pop waits for an item.
// ok is false if the queue is empty and closed.
func (q *queue[T]) pop() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 {
		if q.closed {
			return item, false
		}
		q.more.Wait()
	}
	first := q.items[0]
	q.items[0] = sized[T]{}
	q.items, q.bytes = q.items[1:], q.bytes-first.bytes
	return first.item, true
}

func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
