// The clocks of Go beside those of C called from Go: Go's own runtime reads the vDSO by itself, C
// code in the same program goes through libc.
package main

/*
#include <stdlib.h>
#include <time.h>
static long long now(int clock) {
	struct timespec time;
	if (clock_gettime(clock, &time) != 0)
		return -1;
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"time"
)

func check(rounds int) {
	last := int64(0)
	for i := 0; i < rounds; i++ {
		before := time.Now().UnixNano()
		now := int64(C.now(C.CLOCK_REALTIME))
		after := time.Now().UnixNano()
		if now < before-5000 || now > after+5000 {
			fmt.Fprintln(os.Stderr, "C", now, "between Go", before, after)
			os.Exit(1)
		}
		monotonic := int64(C.now(C.CLOCK_MONOTONIC))
		if monotonic < last {
			fmt.Fprintln(os.Stderr, monotonic, "after", last)
			os.Exit(1)
		}
		last = monotonic
	}
}

func main() {
	var all sync.WaitGroup
	for i := 0; i < 16; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			check(50000)
		}()
	}
	all.Wait()
	fmt.Println("go: ok")
	os.Stdout.Sync()
	// Go's own exit ends the process without libc's.
	C.exit(0)
}
