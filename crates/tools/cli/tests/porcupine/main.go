// Checks with porcupine that recorded histories of keys are linearizable.
//
//	go run . [-reject] FILE...
//
// Each line of a file is an operation on a key, in JSON. All keys are absent at first. A result
// that is not known is null. An operation without a reply has no end: it may have taken effect at
// any time after its begin, or never. The harness tests/cluster_rounds writes such files.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/anishathalye/porcupine"
)

// lineBytesMax is the length of a line in bytes, at most.
const lineBytesMax = 1 << 20

// operation is a line of a file.
type operation struct {
	Key    string `json:"key"`
	Client int    `json:"client"`
	// Nanoseconds on the clock of all clients.
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	// One of get, put, delete, cas and incr.
	Op string `json:"op"`
	// The value that a get saw, that a put or a cas writes, or that an incr left.
	Value *int64 `json:"value"`
	// The value that a cas replaces.
	Expected *int64 `json:"expected"`
	// Whether a delete found the key, or a cas the expected value.
	Done *bool `json:"done"`
}

// register is the value of a key.
type register struct {
	isThere bool
	value   int64
}

// registerOf returns the register with a value, or with none.
func registerOf(value *int64) register {
	if value == nil {
		return register{}
	}
	return register{isThere: true, value: *value}
}

// step returns whether an operation fits the state, and the state after it.
func step(state, input, _ interface{}) (bool, interface{}) {
	now, op := state.(register), input.(operation)
	switch op.Op {
	case "get":
		return registerOf(op.Value) == now, now
	case "put":
		return true, registerOf(op.Value)
	case "delete":
		return op.Done == nil || *op.Done == now.isThere, register{}
	case "cas":
		next, isEqual := now, registerOf(op.Expected) == now
		if isEqual {
			next = registerOf(op.Value)
		}
		return op.Done == nil || *op.Done == isEqual, next
	default:
		// An absent key counts as 0.
		next := register{isThere: true, value: now.value + 1}
		return op.Value == nil || *op.Value == next.value, next
	}
}

// read returns the operations of a file, by their keys.
func read(path string) (map[string][]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	histories := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, lineBytesMax)
	for number := 1; lines.Scan(); number++ {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		switch op.Op {
		case "get", "put", "delete", "cas", "incr":
		default:
			return nil, fmt.Errorf("%s:%d: %q is no operation", path, number, op.Op)
		}
		end := int64(math.MaxInt64)
		if op.Return != nil {
			end = *op.Return
		}
		histories[op.Key] = append(histories[op.Key], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Return: end,
		})
	}
	return histories, lines.Err()
}

// check prints the keys of a file whose histories are not as they should be. It returns whether
// there are none.
func check(path string, rejects bool) (bool, error) {
	histories, err := read(path)
	if err != nil {
		return false, err
	}
	model := porcupine.Model{
		Init: func() interface{} { return register{} },
		Step: step,
	}
	keys, operations := []string{}, 0
	for key, history := range histories {
		keys = append(keys, key)
		operations += len(history)
	}
	sort.Strings(keys)
	isGood := true
	for _, key := range keys {
		if porcupine.CheckOperations(model, histories[key]) == rejects {
			isGood = false
			fmt.Printf("FAILED: %s: the history of key %s is linearizable: %t\n", path, key, rejects)
		}
	}
	fmt.Printf("%s: %d keys, %d operations, linearizable: %t\n",
		path, len(keys), operations, !rejects && isGood)
	return isGood && len(keys) > 0, nil
}

func main() {
	rejects := flag.Bool("reject", false, "no history may be linearizable")
	flag.Parse()
	isGood := flag.NArg() > 0
	for _, path := range flag.Args() {
		isGoodFile, err := check(path, *rejects)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		isGood = isGood && isGoodFile
	}
	if !isGood {
		os.Exit(1)
	}
}
