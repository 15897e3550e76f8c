// Command referee answers what the stock kube-scheduler makes of a pod.
//
// It reads the lines that `holdfast explain --batch` reads and answers with lines of the same
// shape, but the deciding is done by the scheduler of k8s.io/kubernetes: its default profile, its
// plugins, its caches and its informers. Every node is evaluated. Lines are answered in order,
// as many at a time as there are cores.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"k8s.io/klog/v2"
)

const longestLine = 64 << 20

// Question is one line of input.
type Question struct {
	Objects []json.RawMessage `json:"objects"`
	Pod     string            `json:"pod"`
	Preempt bool              `json:"preempt"`
	Config  json.RawMessage   `json:"config"`
}

func main() {
	workers := flag.Int("workers", runtime.NumCPU(), "how many lines are answered at a time")
	flag.Parse()
	klog.SetLogger(klog.New(nil))
	if err := answerAll(os.Stdin, os.Stdout, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "referee:", err)
		os.Exit(1)
	}
}

func answerAll(in io.Reader, out io.Writer, workers int) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	// Each pending answer waits in the queue, in order; its length bounds the work under way.
	pending := make(chan chan []byte, workers)
	slots := make(chan struct{}, workers)
	done := make(chan error, 1)
	go func() { done <- writeAll(out, pending) }()
	for lines.Scan() {
		line := append([]byte(nil), lines.Bytes()...)
		answer := make(chan []byte, 1)
		slots <- struct{}{}
		pending <- answer
		go func() {
			answer <- answerLine(line)
			<-slots
		}()
	}
	close(pending)
	if err := <-done; err != nil {
		return err
	}
	return lines.Err()
}

func writeAll(out io.Writer, pending <-chan chan []byte) error {
	for answer := range pending {
		if _, err := out.Write(append(<-answer, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func answerLine(line []byte) []byte {
	var question Question
	answer := &Answer{}
	if err := json.Unmarshal(line, &question); err != nil {
		answer.Invalid = err.Error()
	} else {
		answer = decide(question)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return text
}

func decide(question Question) *Answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answer := &Answer{Pod: question.Pod, Nodes: []Node{}, Best: []string{}}
	objects, pod, err := readObjects(question)
	if err != nil {
		answer.Invalid = err.Error()
		return answer
	}
	cluster, err := newCluster(ctx, objects, question.Config)
	if err != nil {
		answer.Invalid = err.Error()
		return answer
	}
	(&attempt{cluster, pod, answer}).run(ctx, question.Preempt)
	return answer
}
